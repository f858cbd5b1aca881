"""Sliced Wasserstein distance: known values, a loop over directions by SciPy, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.probability.transport import max_sliced, sliced, slices

DRAW = np.random.default_rng(0)
KEY = jax.random.key(0)
X, Y = DRAW.normal(size=(30, 3)), DRAW.normal(size=(40, 3)) + 1


@pytest.mark.parametrize("count", [30, 40])
def test_it_is_the_mean_over_directions_of_what_scipy_says_along_each(count: int) -> None:
    key = jax.random.key(3)
    axes = np.asarray(jax.random.normal(key, (20, 3)))
    axes = axes / np.linalg.norm(axes, axis=1, keepdims=True)
    expected = np.mean([scipy.stats.wasserstein_distance(X @ axis, Y[:count] @ axis) for axis in axes])
    assert float(sliced(key, X, Y[:count], 1, 20)) == pytest.approx(expected, rel=1e-4)


def test_a_set_moved_as_a_whole_is_as_far_as_it_was_moved_over_the_root_of_the_dimensions() -> None:
    moved = X + np.array([[3.0, 4.0, 0.0]])
    assert float(sliced(KEY, X, moved, 2, 2000)) == pytest.approx(5 / np.sqrt(3), rel=0.03)


def test_its_gradient_moves_points_towards_the_others() -> None:
    slope = jax.grad(lambda x: sliced(KEY, x, Y))(jnp.asarray(X))
    assert float(sliced(KEY, X - 2 * np.asarray(slope), Y)) < float(sliced(KEY, X, Y))


def test_weights_count_as_repeated_points_do() -> None:
    counts = np.arange(30) % 3
    repeated = np.repeat(X, counts, axis=0)
    found = sliced(KEY, X, Y, 2, 20, counts / counts.sum())
    assert float(found) == pytest.approx(float(sliced(KEY, repeated, Y, 2, 20)), rel=1e-4)


def test_the_standard_error_is_the_spread_over_keys() -> None:
    several = [slices(jax.random.key(i), X, Y, 2, 50) for i in range(40)]
    spread = np.std([float(one.distance) for one in several])
    said = np.mean([float(one.error) for one in several])
    assert 0.7 < spread / said < 1.4
    assert float(slices(KEY, X, X).error) == 0


def test_the_worst_direction_of_a_shift_is_along_it_and_sees_all_of_it() -> None:
    moved = X + np.array([[3.0, 4.0, 0.0]])
    assert float(max_sliced(KEY, X, moved, directions=4)) == pytest.approx(5, rel=1e-3)
    assert float(max_sliced(KEY, X, Y)) >= float(slices(KEY, X, Y).powers.max()) ** 0.5 - 1e-5
    slope = jax.grad(lambda x: max_sliced(KEY, x, jnp.asarray(moved, x.dtype)))(jnp.asarray(X))
    np.testing.assert_allclose(slope.sum(axis=0), [-0.6, -0.8, 0.0], atol=2e-2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sliced(KEY, X, Y[:, :2]), "equally many numbers"),
        (lambda: sliced(KEY, X, Y, p=0.5), "1 or more"),
        (lambda: sliced(KEY, X, Y, directions=0), "directions"),
    ],
)
def test_what_cannot_be_is_refused(call: object, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()  # type: ignore[operator]
