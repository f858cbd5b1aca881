"""Sliced Wasserstein distance: the mean over directions of the distance along each, where transport is sorting.

References: Bonneel, Rabin, Peyré and Pfister, Sliced and Radon Wasserstein barycenters of measures, 2015; Deshpande et
al., Max-sliced Wasserstein distance and its use for GANs, CVPR 2019.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.probability.transport.costs import two_sets, weights_of
from chainrule.probability.transport.marginals import check_totals
from chainrule.probability.transport.one_dimensional import power_1d


class Slices(NamedTuple):
    """What two sets of points are apart along each of several directions."""

    axes: Float[Array, "directions dim"]
    """Unit vectors."""
    powers: Float[Array, " directions"]
    """W_p^p along each."""
    p: float

    @property
    def distance(self) -> Scalar:
        """Sliced Wasserstein distance: the p-th root of the mean."""
        return _root(self.powers.mean(), self.p)

    @property
    def error(self) -> Scalar:
        """Standard error of the distance, for directions are drawn; not a number for a single one."""
        spread = self.powers.std(ddof=1) / len(self.powers) ** 0.5
        distance = self.distance
        # The slope of the root; where all is zero there is nothing to be wrong about.
        slope = jnp.where(distance > 0, distance, 1.0) ** (1 - self.p) / self.p
        return jnp.where(distance > 0, spread * slope, 0.0)


def slices(
    key: Key, x: Any, y: Any, p: float = 2, directions: int = 128, a: Any = None, b: Any = None
) -> Slices:
    """The distances of two sets of rows along directions drawn evenly; arguments as for `sliced`.

    >>> x = jax.random.normal(jax.random.key(0), (50, 3))
    >>> found = slices(jax.random.key(1), x, x + 1.0)
    >>> bool(abs(found.distance - 1.0) < 3 * found.error)  # of a shift of length sqrt(3)
    True
    """
    first, second, some, others = _checked("sliced", x, y, p, a, b)
    count = whole("sliced", "directions", directions)
    drawn = jax.random.normal(key, (count, first.shape[1]))
    axes = (drawn / jnp.linalg.norm(drawn, axis=1, keepdims=True)).astype(first.dtype)
    return Slices(axes, _powers(axes, first, second, some, others, float(p)), float(p))


def sliced(
    key: Key, x: Any, y: Any, p: float = 2, directions: int = 128, a: Any = None, b: Any = None
) -> Scalar:
    """`(mean over directions of W_p^p along each)^(1/p)` of two sets of rows, which may differ in number.

    Points may carry weights `a` and `b`. The directions belong to the key: with the same one values compare. `slices`
    has the value of each direction and the standard error.

    >>> x = jax.random.normal(jax.random.key(0), (50, 3))
    >>> float(sliced(jax.random.key(1), x, x))
    0.0
    """
    return slices(key, x, y, p, directions, a, b).distance


def max_sliced(
    key: Key,
    x: Any,
    y: Any,
    p: float = 2,
    directions: int = 128,
    a: Any = None,
    b: Any = None,
    *,
    steps: int = 50,
) -> Scalar:
    """The distance along the worst direction: the best of those drawn, then uphill on the sphere for so many steps.

    A lower bound of the supremum over all directions, which more directions and steps raise. Derivatives are those
    along the direction found.

    >>> x = jax.random.normal(jax.random.key(0), (50, 3))
    >>> shift = jnp.array([[1.0, 0.0, 0.0]])
    >>> round(float(max_sliced(jax.random.key(1), x, x + shift)), 2)
    1.0
    """
    found = slices(key, x, y, p, directions, a, b)
    first, second, some, others = _checked("max_sliced", x, y, p, a, b)
    fixed = jax.lax.stop_gradient((found.axes[jnp.argmax(found.powers)], first, second, some, others))
    axis = _climbed(*fixed, found.p, whole("max_sliced", "steps", steps, least=0))
    return _root(_powers(axis[None], first, second, some, others, found.p)[0], found.p)


def _checked(where: str, x: Any, y: Any, p: float, a: Any, b: Any) -> tuple[Array, Array, Any, Any]:
    if not p >= 1 or p == float("inf"):
        raise ArgumentError(f"{where}(p={p}): p must be finite and 1 or more", remedy="use p=1 or p=2")
    first, second = two_sets(where, x, y)
    if a is None and b is None:
        return first, second, None, None
    some = weights_of(where, "a", a, len(first), first.dtype)
    others = weights_of(where, "b", b, len(second), first.dtype)
    return first, second, check_totals(where, some, others), others


@eqx.filter_jit
def _powers(axes: Array, x: Array, y: Array, a: Array | None, b: Array | None, p: float) -> Array:
    return power_1d(axes @ x.T, axes @ y.T, p, a, b)


@eqx.filter_jit
def _climbed(
    start: Array, x: Array, y: Array, a: Array | None, b: Array | None, p: float, steps: int
) -> Array:
    """The best direction on a way uphill, whose steps grow shorter: matchings change on the way, and slopes jump."""

    def height(axis: Array) -> Array:
        return _powers(axis[None], x, y, a, b, p)[0]

    def step(carry: tuple[Array, Array, Array], number: Array) -> tuple[tuple[Array, Array, Array], None]:
        axis, best, most = carry
        value, slope = jax.value_and_grad(height)(axis)
        better = value > most
        best, most = jnp.where(better, axis, best), jnp.where(better, value, most)
        across = slope - (slope @ axis) * axis
        length = jnp.linalg.norm(across)
        moved = axis + across / jnp.where(length > 0, length, 1.0) * 0.5 / (1 + number)
        return (moved / jnp.linalg.norm(moved), best, most), None

    first = (start, start, jnp.full((), -jnp.inf, start.dtype))
    (_, best, _), _ = jax.lax.scan(step, first, jnp.arange(steps + 1, dtype=start.dtype))
    return best


def _root(power: Array, p: float) -> Array:
    return jnp.where(power > 0, jnp.where(power > 0, power, 1.0) ** (1 / p), 0.0)


__all__ = ["Slices", "max_sliced", "sliced", "slices"]
