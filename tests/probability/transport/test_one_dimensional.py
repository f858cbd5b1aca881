"""Transport on the line against SciPy, sorting and linear programming."""

import math
from collections.abc import Iterator

import jax
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.probability.transport import wasserstein_1d


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def samples() -> tuple[np.ndarray, ...]:
    """Points of both sides and their weights, some of them zero."""
    random = np.random.default_rng(0)
    a, b = random.dirichlet(np.ones(7)), random.dirichlet(np.ones(5))
    a[2], b[0] = 0, 0
    return random.normal(size=7), random.normal(1.0, 2.0, size=5), a / a.sum(), b / b.sum()


def cheapest(x: np.ndarray, y: np.ndarray, a: np.ndarray, b: np.ndarray, p: float) -> float:
    """The linear program over all plans."""
    cost = np.abs(x[:, None] - y[None]) ** p
    rows = np.kron(np.eye(len(x)), np.ones(len(y)))
    columns = np.kron(np.ones(len(x)), np.eye(len(y)))
    found = scipy.optimize.linprog(cost.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([a, b]))
    return found.fun ** (1 / p)


def test_it_is_the_cheapest_plan(samples) -> None:
    x, y, a, b = samples
    for p in (1, 2, 3):
        assert float(wasserstein_1d(x, y, p, a, b)) == pytest.approx(cheapest(x, y, a, b, p), abs=1e-9)
    assert float(wasserstein_1d(x, y)) == pytest.approx(scipy.stats.wasserstein_distance(x, y))
    assert float(wasserstein_1d(x[:5], y, math.inf)) == pytest.approx(
        np.abs(np.sort(x[:5]) - np.sort(y)).max()
    )


def test_it_compiles_and_has_the_gradient_of_sorted_points(samples) -> None:
    x, y = samples[0][:5], samples[1]
    value, gradient = jax.jit(jax.value_and_grad(lambda x: wasserstein_1d(x, y, 2) ** 2))(x)
    order = np.argsort(x)
    wanted = np.zeros(5)
    wanted[order] = 2 * (np.sort(x) - np.sort(y)) / 5
    np.testing.assert_allclose(gradient, wanted, atol=1e-12)
    assert float(value) == pytest.approx(((np.sort(x) - np.sort(y)) ** 2).mean())
    assert np.isfinite(jax.grad(wasserstein_1d)(x, x)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wasserstein_1d([0.0], [1.0], p=0.5), "use p >= 1"),
        (lambda: wasserstein_1d(np.zeros((2, 2)), [1.0]), "sinkhorn_divergence"),
        (lambda: wasserstein_1d([], [1.0]), "one axis of points"),
        (lambda: wasserstein_1d([math.nan], [1.0]), "x.* is nan"),
        (lambda: wasserstein_1d([0.0, 1.0], [1.0], a=[1.0]), r"a\): shape \(1,\)"),
        (lambda: wasserstein_1d([0.0, 1.0], [1.0], a=[0.5, 0.4]), "a.* sums to 0.9"),
    ],
)
def test_what_cannot_be_moved_is_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
