"""Sliced Wasserstein distance: known values, a loop over directions by SciPy, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.probability.transport import sliced_wasserstein

DRAW = np.random.default_rng(0)
X, Y = DRAW.normal(size=(30, 3)), DRAW.normal(size=(40, 3)) + 1


@pytest.mark.parametrize("count", [30, 40])
def test_it_is_the_mean_over_directions_of_what_scipy_says_along_each(count: int) -> None:
    key = jax.random.key(3)
    axes = np.asarray(jax.random.normal(key, (20, 3)))
    axes = axes / np.linalg.norm(axes, axis=1, keepdims=True)
    expected = np.mean([scipy.stats.wasserstein_distance(X @ axis, Y[:count] @ axis) for axis in axes])
    assert float(sliced_wasserstein(X, Y[:count], 1, 20, key=key)) == pytest.approx(expected, rel=1e-4)


def test_a_set_moved_as_a_whole_is_as_far_as_it_was_moved_over_the_root_of_the_dimensions() -> None:
    moved = X + np.array([[3.0, 4.0, 0.0]])
    assert float(sliced_wasserstein(X, moved, 2, 2000)) == pytest.approx(5 / np.sqrt(3), rel=0.03)


def test_its_gradient_moves_points_towards_the_others() -> None:
    slope = jax.grad(lambda x: sliced_wasserstein(x, Y))(jnp.asarray(X))
    assert float(sliced_wasserstein(X - 2 * np.asarray(slope), Y)) < float(sliced_wasserstein(X, Y))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sliced_wasserstein(X, Y[:, :2]), "equally many numbers"),
        (lambda: sliced_wasserstein(X, Y, p=0.5), "1 or more"),
        (lambda: sliced_wasserstein(X, Y, directions=0), "directions"),
    ],
)
def test_what_cannot_be_is_refused(call: object, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()  # type: ignore[operator]
