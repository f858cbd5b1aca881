"""The Gaussian process by iteration as a model: the numbers of the exact one, its derivatives, what is refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import report
from chainrule.core.errors import ArgumentError, CapabilityError, ChainruleWarning
from chainrule.data import Data
from chainrule.models.kernel.gp import GPRegressor, IterativeGPRegressor

RNG = np.random.default_rng(0)
GIVEN = {"learn": False, "scale": 1.0, "noise": 0.05, "ard": False}


@pytest.fixture(scope="module")
def table() -> Data:
    x = RNG.normal(size=(100, 2))
    y = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + 0.1 * RNG.normal(size=100)
    return cr.data.from_arrays(x.astype(np.float32), y, kind="table")


@pytest.fixture(scope="module")
def run(table: Data, tmp_path_factory: pytest.TempPathFactory) -> cr.Run:
    model = cr.models.build("gp", table, method="iterative", restarts=0, refinement=2, rank=20)
    return cr.fit(model, table, run=tmp_path_factory.mktemp("runs") / "iterative")


def iterated(table: Data, method: str, **settings: int) -> eqx.Module:
    model = cr.models.build("gp", table, method=method, **GIVEN, **settings)
    return model.iterate(table.train.batch(np.arange(len(table.train))), jax.random.key(0))[0]  # type: ignore[attr-defined]


@eqx.filter_jit
def answers(model: GPRegressor | IterativeGPRegressor, x: jax.Array) -> tuple[jax.Array, ...]:
    """Predictive distribution, and slopes of mean and variance in the examples."""
    mean, variance = model.latent(x)
    slopes = jax.grad(lambda x: model.latent(x)[1].sum())(x), jax.grad(lambda x: model.predict(x).sum())(x)
    return mean, variance, model.predictive(x).variance, *slopes


def test_the_answers_and_their_slopes_are_those_of_the_exact_process(table: Data) -> None:
    exact, iterative = iterated(table, "exact"), iterated(table, "iterative", rank=20)
    assert isinstance(exact, GPRegressor)
    assert isinstance(iterative, IterativeGPRegressor)
    x = jnp.asarray(np.concatenate([table.test.x, [[4.0, 4.0]]]), jnp.float32)
    for ours, theirs in zip(answers(iterative, x), answers(exact, x), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_a_kernel_of_lower_rank_than_the_preconditioner_leaves_shapes_as_they_are() -> None:
    wave = cr.data.load("wave", n=60)
    fresh = cr.models.build("gp", wave, method="iterative", learn=False, scale=2.0, noise=0.1, rank=40)
    found, _ = fresh.iterate(wave.train.batch(np.arange(len(wave.train))), jax.random.key(0))  # type: ignore[attr-defined]
    assert jax.tree.map(np.shape, found) == jax.tree.map(np.shape, fresh)
    assert not np.asarray(found.factor)[:, -1].any()
    assert np.isfinite(answers(found, jnp.asarray(wave.test.x))[1]).all()


def test_a_trained_run_predicts_with_intervals_and_says_what_it_learnt(run: cr.Run, table: Data) -> None:
    assert isinstance(run.model, IterativeGPRegressor)
    found = run.score("test")
    assert found["r2"].value > 0.9
    assert found["coverage_90"].value > 0.5
    assert run.curve("solver_steps")[1][0] >= 1
    pictures = run.model.pictures(table, jax.random.key(0))
    assert [one.name for one in pictures] == [
        "hyper-parameters",
        "band-0",
        "band-1",
        "relevance",
        "evidence-surface",
    ]
    assert all(report.draw(one).startswith("<svg") for one in pictures)


def test_learning_raises_the_evidence_and_the_loss_is_the_one_after_it(run: cr.Run, table: Data) -> None:
    model = run.model
    assert isinstance(model, IterativeGPRegressor)
    after = run.curve("loss")[1][0]
    x, y = np.asarray(table.train.x), np.asarray(table.train.y).reshape(-1)
    exact = cr.kernels.GaussianProcess(model.kernel, np.exp(model.log_noise)).fit(x, y)
    error = run.curve("loss_error")[1][0]
    assert after == pytest.approx(-float(exact.log_marginal_likelihood) / len(x), abs=4 * error + 1e-4)
    given = cr.kernels.GaussianProcess(cr.kernels.RBF(1.0), 0.1).fit(x, y)
    assert after < -float(given.log_marginal_likelihood) / len(x)


def test_settings_that_contradict_are_refused(table: Data) -> None:
    for settings, said in (
        (
            {"method": "iterative", "objective": "leave-one-out"},
            "objective=leave-one-out method=iterative: this setting is for method=exact",
        ),
        ({"method": "sparse", "points": 20}, "points=20 method=sparse: this setting is for method=exact or"),
        ({"method": "sparse", "restarts": 0}, "restarts=0 method=sparse"),
        ({"inducing": 20}, "inducing=20 method=exact: this setting is for method=sparse"),
        ({"rank": 20}, "rank=20 method=exact: this setting is for method=iterative"),
    ):
        with pytest.raises(ArgumentError, match=said):
            cr.models.build("gp", table, **settings)
    with pytest.raises(ArgumentError, match="method=iterative: classes are learnt by method=sparse"):
        cr.models.build("gp", cr.data.load("moons"), method="iterative")
    x = RNG.normal(size=(20, 2)).astype(np.float32)
    with pytest.raises(CapabilityError, match="method=iterative predicts one number, these targets have 2"):
        cr.models.build("gp", cr.data.from_arrays(x, x, kind="table"), method="iterative")


def test_more_examples_are_kept_than_by_the_exact_process() -> None:
    many = cr.data.from_arrays(
        RNG.normal(size=(27_000, 1)).astype(np.float32), RNG.normal(size=27_000), kind="table"
    )
    with pytest.raises(ArgumentError, match=r"keeps 20,000 examples at most\n.*method=iterative"):
        cr.models.build("gp", many, points=20_001, scale=1.0)
    with pytest.warns(ChainruleWarning, match=r"10,000 of 21,600 .* second power"):
        model = cr.models.build("gp", many, method="iterative", scale=1.0)
    assert len(model.points) == 10_000  # type: ignore[attr-defined]
