"""EDM beyond the promises every model keeps: its scaling, its noise, its weights, its steps and its churn."""

from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.data import Batch, Schema
from chainrule.models.diffusion import schedules
from chainrule.models.diffusion.edm import EDM
from chainrule.models.diffusion.process import Level

POINTS = Schema("points", (2,))
KEY = jax.random.key(0)


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def build(**settings: object) -> EDM:
    model = models.build("edm", POINTS, **{"width": 8, "depth": 1, **settings})
    assert isinstance(model, EDM)
    return model


def test_a_fresh_model_has_a_loss_of_one_at_every_noise_level() -> None:
    """With 1/c_out² on the error and a network that says nothing, whatever sigma: what the scaling is for."""
    x = jnp.asarray(0.5 * np.random.default_rng(0).normal(size=(4096, 2)), jnp.float32)
    for log_mean in (-5.0, 0.0, 3.0):
        model = build(std=0.5, log_mean=log_mean, log_std=0.01)
        assert float(eqx.filter_jit(model.loss)(Batch(x, None), KEY)[0]) == pytest.approx(1, abs=0.06)


def test_noise_in_training_is_log_normal() -> None:
    logs = np.log(jax.jit(lambda: build().drawn_noise(4096, KEY, jnp.zeros(())))())
    assert logs.mean() == pytest.approx(-1.2, abs=0.01)
    assert logs.std() == pytest.approx(1.2, abs=0.02)
    assert np.quantile(logs, 0.975) == pytest.approx(-1.2 + 1.96 * 1.2, abs=0.02)


def test_the_estimate_is_scaled_as_published() -> None:
    model, sigma = build(std=0.7), 0.3
    x = jnp.array([[1.0, -2.0]])
    total = sigma**2 + 0.7**2
    inner = eqx.filter_jit(model.denoiser.inner.predict)
    said = inner(x / np.sqrt(total), Level(jnp.ones(1), jnp.full(1, sigma)))
    by_hand = 0.7**2 / total * np.asarray(x) + sigma * 0.7 / np.sqrt(total) * np.asarray(said)
    found = eqx.filter_jit(model.denoiser.predict)(x, Level(jnp.ones(1), jnp.full(1, sigma)))
    np.testing.assert_allclose(found, by_hand, rtol=1e-6)


def test_the_deviation_of_the_data_is_measured_unless_it_is_given() -> None:
    data = cr.data.load("digits")
    measured = models.build("edm", data, width=4, depth=1)
    exact = (2 * np.asarray(data.train.x[:1000], np.float64) - 1).std()
    assert measured.config.std == pytest.approx(exact, rel=1e-3)
    assert measured.denoiser.std == measured.config.std
    assert models.build("edm", data, width=4, depth=1, std=0.5).config.std == 0.5
    assert models.build("edm", data.schema, width=4, depth=1).std == 0.5


def test_steps_are_even_in_a_power_of_sigma() -> None:
    drawn = schedules.grid(build(low=0.01, high=10.0).schedule, 18)
    roots = np.asarray(drawn.sigma)[:-1] ** (1 / 7)
    np.testing.assert_allclose(np.diff(roots), np.diff(roots)[0], rtol=1e-3)
    with pytest.raises(ArgumentError, match="from little to much"):
        build(low=10.0, high=1.0)


def test_samples_come_by_heuns_method_with_or_without_churn() -> None:
    model = build()
    plain = np.asarray(model.sample(KEY, 3, steps=3))
    np.testing.assert_array_equal(plain, model.sample(KEY, 3, steps=3, sampler="heun", spacing="uniform-t"))
    stirred = np.asarray(model.sample(KEY, 3, steps=3, churn=2.0, churn_min=0.05, churn_max=50.0))
    assert not np.allclose(plain, stirred)
    untouched = np.asarray(model.sample(KEY, 3, steps=3, churn=2.0, churn_min=200.0))
    np.testing.assert_allclose(plain, untouched, rtol=1e-4, atol=1e-5)
