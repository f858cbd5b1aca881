"""The mixture as a model: EM to the end of a run, its number of components, samples of one of them."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.data import Data
from chainrule.probability.mixtures import fit_mixture
from chainrule.train import Run

CENTRES = np.array([[-4.0, 0.0], [4.0, 0.0], [0.0, 6.0]])


@pytest.fixture(scope="module")
def data() -> Data:
    random = np.random.default_rng(0)
    x = np.concatenate([random.normal(size=(150, 2)) + c for c in CENTRES])
    return cr.data.from_arrays(random.permutation(x).astype(np.float32))


@pytest.fixture(scope="module")
def run(data: Data, tmp_path_factory: pytest.TempPathFactory) -> Run:
    model = cr.models.build("mixture", data)
    return cr.fit(model, data, run=tmp_path_factory.mktemp("mixture") / "run")


def test_validation_finds_the_three_clouds_and_training_the_top_of_the_likelihood(
    run: Run, data: Data
) -> None:
    assert run.model.config.components == 3  # type: ignore[attr-defined]
    assert "converged" in run.status["message"]
    losses = run.curve("loss")[1]
    assert (np.diff(losses) <= 1e-6).all()
    best = fit_mixture(np.asarray(data.train.x), 3, restarts=3)
    assert losses[-1] == pytest.approx(-best.log_likelihood, abs=1e-4)
    x = np.asarray(data.val.x)
    found = float(np.asarray(run.model.log_prob(jnp.asarray(x))).mean())  # type: ignore[attr-defined]
    assert found == pytest.approx(best.mean_log_prob(x), abs=1e-3)
    assert run.score("val")["nll"].unit == "nats"


def test_codes_are_clusters_and_samples_can_come_from_one(run: Run, data: Data) -> None:
    shares = np.asarray(run.model.encode(jnp.asarray(data.val.x)))  # type: ignore[attr-defined]
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)
    drawn = np.asarray(run.model.sample(jax.random.key(0), 500, component=1))  # type: ignore[attr-defined]
    np.testing.assert_allclose(drawn.mean(axis=0), run.model.means[1], atol=0.3)  # type: ignore[attr-defined]
    with pytest.raises(ArgumentError, match="component=3: there are 3"):
        run.model.sample(jax.random.key(0), 1, component=3)  # type: ignore[attr-defined]


def test_more_components_than_examples_are_refused_before_training(data: Data) -> None:
    with pytest.raises(ArgumentError, match=r"components=500: .* different training examples"):
        cr.models.build("mixture", data, components=500)


def test_examples_that_do_not_vary_in_a_direction_are_named_and_what_was_done(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(80, 2))
    flat = cr.data.from_arrays(np.column_stack([x, x.sum(axis=1)]))
    with pytest.warns(
        ChainruleWarning, match="in 1 of 3 directions training examples do not vary; there regularis"
    ):
        model = cr.models.build("mixture", flat, components=2)
    with pytest.warns(
        UserWarning, match="2 of 2 components collapsed: in some direction only regularisation=1e-06"
    ):
        cr.fit(model, flat, run=tmp_path / "flat", steps=3)
