"""Stochastic Gaussian processes: one natural step against the collapsed bound, minibatches, likelihoods, memory."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.kernels import RBF
from chainrule.kernels.gaussian_processes import stochastic_fitting
from chainrule.kernels.gaussian_processes.likelihoods import (
    GaussianLikelihood,
    LogisticLikelihood,
    PoissonLikelihood,
    SoftmaxLikelihood,
    StudentTLikelihood,
)
from chainrule.kernels.gaussian_processes.sparse import SparseGaussianProcess
from chainrule.kernels.gaussian_processes.stochastic import INDUCING, StochasticGaussianProcess
from chainrule.kernels.gaussian_processes.stochastic_fitting import fit_stochastic

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-3, 3, size=(400, 1))
F = np.sin(2 * X[:, 0])
Y = F + 0.1 * RANDOM.normal(size=400)
Z = np.linspace(-3, 3, 15)[:, None]


def process(noise: float = 0.05) -> StochasticGaussianProcess:
    return StochasticGaussianProcess(RBF(np.float64(0.7)), GaussianLikelihood(np.float64(noise)), Z)


step = eqx.filter_jit(lambda p, x, y, total, rate: p.natural_step(x, y, total, rate))
bound = eqx.filter_jit(lambda p, x, y, total: p.bound(x, y, total))


def test_one_natural_step_of_rate_one_reaches_the_collapsed_bound_and_its_predictions() -> None:
    collapsed = SparseGaussianProcess(RBF(np.float64(0.7)), np.float64(0.05), Z).fit(X, Y)
    x, y = jnp.asarray(X), jnp.asarray(Y)
    found = step(process(), x, y, 400, 1.0)
    # Inducing values are seen at the edge of the precision, so the bound is a little lower.
    np.testing.assert_allclose(bound(found, x, y, 400), collapsed.bound, rtol=2e-5)
    mean, variance = found.predict(X[:9])
    np.testing.assert_allclose(mean, collapsed.predict(X[:9])[0], atol=1e-5)
    np.testing.assert_allclose(variance, collapsed.predict(X[:9])[1], atol=1e-5)
    again = step(found, x, y, 400, 1.0)
    np.testing.assert_allclose(bound(again, x, y, 400), bound(found, x, y, 400), rtol=1e-9)


def test_batches_estimate_the_bound_without_bias() -> None:
    x, y = jnp.asarray(X), jnp.asarray(Y)
    found = step(process(), x, y, 400, 0.5)
    parts = [float(bound(found, x[i : i + 100], y[i : i + 100], 400)) for i in range(0, 400, 100)]
    np.testing.assert_allclose(np.mean(parts), bound(found, x, y, 400), rtol=1e-10)


def test_a_natural_step_is_the_gradient_in_the_parameters_of_expectations() -> None:
    """The step in natural parameters against automatic differentiation through mean and covariance."""
    x, y = jnp.asarray(X[:50]), (jnp.asarray(Y[:50]) > 0).astype(jnp.int32)
    start = StochasticGaussianProcess(RBF(np.float64(0.7)), LogisticLikelihood(), Z[:4])
    start = step(start, x, y, 50, 0.3)
    lower = np.asarray(start.lower[0])
    S, m = lower @ lower.T, np.asarray(start.mean[0])

    def of_moments(mean: jax.Array, spread: jax.Array) -> jax.Array:
        root = jnp.linalg.cholesky(spread)
        factor = jnp.tril(root, -1) + jnp.diag(jnp.log(jnp.diagonal(root)))
        return eqx.tree_at(lambda p: (p.mean, p.factor), start, (mean[None], factor[None])).bound(x, y, 50)

    in_mean, in_spread = jax.jit(jax.grad(of_moments, argnums=(0, 1)))(jnp.asarray(m), jnp.asarray(S))
    in_spread = np.asarray(in_spread + in_spread.T) / 2
    precision = np.linalg.inv(S) - 2 * 0.1 * in_spread
    weighted = np.linalg.inv(S) @ m + 0.1 * (np.asarray(in_mean) - 2 * in_spread @ m)
    moved = step(start, x, y, 50, 0.1)
    root = np.asarray(moved.lower[0])
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(precision), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(moved.mean[0], np.linalg.solve(precision, weighted), rtol=1e-6)
    assert (np.triu(root, 1) == 0).all()


def test_the_divergence_is_that_of_gaussians_and_zero_at_the_start() -> None:
    assert float(process().divergence()) == 0
    found = step(process(), jnp.asarray(X), jnp.asarray(Y), 400, 1.0)
    lower, mean = np.asarray(found.lower[0]), np.asarray(found.mean[0])
    S = lower @ lower.T
    expected = 0.5 * (np.trace(S) + mean @ mean - len(S) - np.linalg.slogdet(S)[1])
    np.testing.assert_allclose(found.divergence(), expected, rtol=1e-8)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_training_on_batches_learns_function_noise_and_kernel(precision: str) -> None:
    found = fit_stochastic(
        RBF(1.0),
        GaussianLikelihood(0.5),
        X,
        Y,
        inducing=15,
        steps=150,
        batch=50,
        rate=0.05,
        precision=precision,
    )
    assert found.bounds[-20:].mean() > found.bounds[:20].mean() + 1
    assert found.process.inducing.dtype == precision
    np.testing.assert_allclose(found.process.latent(X).mean[:, 0], F, atol=0.2)
    assert 0.003 < np.exp(found.process.likelihood.log_noise) < 0.03
    further = fit_stochastic(
        RBF(1.0), GaussianLikelihood(), X, Y, inducing=found.process, steps=25, batch=50, precision=precision
    )
    assert further.bounds.mean() > found.bounds[-20:].mean() - 0.2


def test_adam_alone_learns_too() -> None:
    found = fit_stochastic(
        RBF(0.7), GaussianLikelihood(0.1), X, Y, inducing=10, steps=100, batch=50, rate=0.05, natural_rate=0.0
    )
    assert found.bounds[-10:].mean() > found.bounds[:10].mean() + 0.5


def test_counts_and_heavy_tails_are_learnt_by_natural_steps_over_all_rows() -> None:
    x = jnp.asarray(X)
    counts = jnp.asarray(np.random.default_rng(1).poisson(np.exp(F + 1)).astype(float))
    spoilt = jnp.asarray(Y + 8 * (np.random.default_rng(2).random(400) < 0.1))
    wrong = {}
    for name, likelihood, seen, shift in (
        ("counts", PoissonLikelihood(), counts, 1.0),
        ("robust", StudentTLikelihood(np.float64(0.1)), spoilt, 0.0),
        ("plain", GaussianLikelihood(np.float64(0.1)), spoilt, 0.0),
    ):
        found = StochasticGaussianProcess(RBF(np.float64(0.7)), likelihood, Z)
        for _ in range(60):
            found = step(found, x, seen, 400, jnp.asarray(0.1))
        wrong[name] = np.abs(found.latent(X).mean[:, 0] - F - shift).mean()
    assert wrong["counts"] < 0.25
    assert 4 * wrong["robust"] < wrong["plain"], wrong


@pytest.mark.slow
def test_classes_are_learnt() -> None:
    labels = np.digitize(F, [-0.5, 0.5])
    found = fit_stochastic(RBF(0.7), SoftmaxLikelihood(3), X, labels, inducing=15, steps=150, batch=100)
    p = found.process.predict(X).mean
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-6)
    assert (p.argmax(axis=1) == labels).mean() > 0.9


def test_memory_of_a_step_does_not_grow_with_the_number_of_rows() -> None:
    """Compiled with 512 inducing inputs and batches of 256, for a million rows and for a thousand."""
    count, batch, steps = INDUCING, 256, 25
    single = np.float32
    start = StochasticGaussianProcess(
        RBF(single(1.0)), GaussianLikelihood(single(0.1)), np.zeros((count, 8), single)
    )
    state = stochastic_fitting.optimizer(0.01).init(eqx.filter(start, eqx.is_inexact_array))
    given = tuple(jnp.zeros(shape, single) for shape in ((steps, batch, 8), (steps, batch), (steps,)))
    sizes = []
    for total in (1000, 1_000_000):
        lowered = stochastic_fitting._steps.lower(given, start, state, total, 0.01, True)
        memory = lowered.compile().compiled.memory_analysis()
        sizes.append(memory.temp_size_in_bytes)
    assert sizes[0] == sizes[1]
    assert sizes[1] < 4 * 40 * (count * count + batch * count)


def test_a_million_rows_are_read_a_batch_at_a_time(tmp_path: object) -> None:
    """Rows in a file, one of which would be noticed: the columns are made where they are read."""

    class Rows:
        ndim, shape = 2, (1_000_000, 2)
        most = 0

        def __len__(self) -> int:
            return self.shape[0]

        def __getitem__(self, index: np.ndarray) -> np.ndarray:
            Rows.most = max(Rows.most, len(index))
            return np.stack([np.sin(index), np.cos(index * 0.7)], axis=1)

    rows = Rows()
    y = np.sin(np.arange(len(rows)))
    found = fit_stochastic(RBF(1.0), GaussianLikelihood(0.1), rows, y, inducing=8, steps=50, batch=64)
    assert Rows.most <= 20_000
    assert found.bounds[-1] > found.bounds[0]


def test_settings_and_data_that_do_not_fit_are_named() -> None:
    with pytest.raises(ArgumentError, match="natural_rate=2"):
        fit_stochastic(RBF(1.0), GaussianLikelihood(), X, Y, natural_rate=2)
    with pytest.raises(ArgumentError, match="400 rows of x for 3 of y"):
        fit_stochastic(RBF(1.0), GaussianLikelihood(), X, Y[:3])
    with pytest.raises(ArgumentError, match='precision must be "float64" or "float32"'):
        fit_stochastic(RBF(1.0), GaussianLikelihood(), X, Y, precision="half")
