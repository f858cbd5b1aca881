"""Scores of latent variables: numbers of a linear model whose likelihood is known, and words for a code not used."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.data import Data
from chainrule.models.latent.vae import VAE
from chainrule.train import Metric, score
from chainrule.train.remarks import remarks
from tests.train.toys import rows


@pytest.fixture(scope="module")
def data() -> Data:
    x = np.random.default_rng(0).normal(size=(60, 2)) * [2**0.5, 1.0]
    return rows(x.astype(np.float32), sizes=(0, 42))


def linear(data: Data, encode: float) -> VAE:
    """z ~ N(0, 1), x | z ~ N((z, 0), 1) in the units of the model, and q(z|x) = N(encode x_1, 1/2)."""
    settings = {"latent": 1, "depth": 0, "scale": "fixed", "sigma": 1.0}
    model = models.build("vae", data.schema, **settings)
    assert isinstance(model, VAE)
    return eqx.tree_at(
        lambda m: (
            m.networks.encoder.network.layers[0].weight,
            m.networks.decoder.network.layers[0].weight,
            m.networks.spread,
        ),
        model,
        (jnp.asarray([[encode], [0.0]]), jnp.asarray([[1.0, 0.0]]), jnp.asarray([np.log(0.5)])),
    )


def test_the_estimate_is_the_likelihood_and_the_bound_is_short_by_the_divergence_from_the_posterior(
    data: Data,
) -> None:
    x = np.asarray(data.test.x, np.float64)
    log_prob = -0.5 * (x[:, 0] ** 2 / 2 + np.log(2 * np.pi * 2) + x[:, 1] ** 2 + np.log(2 * np.pi))
    exact = float(data.nats(log_prob).mean())
    found = score(linear(data, encode=0.5), data, k=50)  # the posterior itself: all weights are alike
    assert found["nll_estimate"].value == pytest.approx(exact, abs=1e-4)
    assert found["nll_estimate"].kind == "estimate, k=50"
    assert found["nll_bound"].kind == found["rate"].kind == "bound"
    assert found["nll_bound"].to_json()["kind"] == "bound"
    assert found["effective_codes"].value == pytest.approx(50, rel=1e-3)
    assert found["heavy_tailed"].value == 0
    mean = x[:, 0] / 2
    rate = 0.5 * (mean**2 + 0.5 - 1 + np.log(2))
    assert found["rate"].value == pytest.approx(rate.mean(), rel=1e-4)
    assert "bits_per_dim_estimate" not in found, "the density of numbers has no bits per dimension"
    assert remarks(found) == []


def test_a_code_that_says_nothing_is_called_collapsed(data: Data) -> None:
    found = score(linear(data, encode=0.0), data)
    assert found["active_units"].value == 0
    assert found["bound_gap"].value > 0.1
    said = remarks(found)[0]
    assert said.startswith(
        "collapsed: no entry of the code is in use (rate 0.0966 nats), though the decoder listens"
    )
    assert "free_bits=0.25" in said


def test_heavy_tails_are_warned_of_and_codes_are_counted(data: Data) -> None:
    (said,) = remarks({"heavy_tailed": Metric(0.4, "of the examples")})
    assert "of 40% of the examples have a heavy tail" in said
    with pytest.raises(ArgumentError, match="k=1: at least two codes"):
        score(linear(data, 0.5), data, k=1)
    with pytest.raises(ArgumentError, match="k=5: only models with a latent variable"):
        score(models.build("made", data, width=4, depth=1), data, k=5)


def test_levels_that_say_nothing_are_named_with_what_helps(data: Data) -> None:
    model = models.build("markovian-hvae", data, latents=(2, 2), width=8)
    quiet = eqx.tree_at(  # q(z2|z1) and p(z2) are standard normal whatever z1 is
        lambda m: m.hierarchy.ups[1].network.layers[-1].weight, model, replace_fn=jnp.zeros_like
    )
    found = score(quiet, data)
    levels = found["rate_z1"].value + found["rate_z2"].value
    assert levels == pytest.approx(found["rate"].value, rel=1e-4)
    assert found["rate_z2"].value == pytest.approx(0, abs=1e-6)
    said = [one for one in remarks(found) if one.startswith("level z2 of the code says nothing")]
    assert len(said) == 1
    assert "free_bits=0.25" in said[0]
    assert found["mutual_information"].kind == "estimate, at most log 42"
    heavy = remarks({"heavy_tailed": Metric(0.4), "rate_z1": Metric(1.0)})
    assert "posterior=" not in heavy[0], "these models have no such setting"
