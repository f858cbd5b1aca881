"""Pushforwards: the distribution of a function of a random variable."""

import math
from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Distribution, Shape, events
from chainrule.probability.distributions.points import Empirical
from chainrule.probability.distributions.supports import Support

Function = Callable[..., Any]


@final
class Transformed(Distribution):
    """The distribution of `forward(X)`, which draws always, and scores where it has an `inverse`.

    All functions take one event. `log_det(x)` is the logarithm of |det J| of `forward` at x; without it that of the
    inverse is computed by automatic differentiation. Functions with parameters are Equinox modules.

    >>> import jax.numpy as jnp
    >>> from chainrule.probability import Normal
    >>> log_normal = Transformed(Normal(0.0, 1.0), jnp.exp, inverse=jnp.log)
    >>> round(float(log_normal.log_prob(2.0)), 4)
    -1.8523
    """

    base: Distribution
    forward: Function
    inverse: Function | None
    log_det: Function | None

    def __init__(
        self,
        base: Distribution,
        forward: Function,
        inverse: Function | None = None,
        log_det: Function | None = None,
    ) -> None:
        if not isinstance(base, Distribution):
            raise ArgumentError(f"Transformed: base must be a distribution, not {type(base).__name__}")
        if log_det is not None and inverse is None:
            raise ArgumentError(
                "Transformed: log_det without inverse",
                remedy="log_prob needs the inverse as well: give inverse=",
            )
        self.base = base
        self.forward = _as_tree(forward)
        self.inverse = None if inverse is None else _as_tree(inverse)
        self.log_det = None if log_det is None else _as_tree(log_det)

    @property
    def batch_shape(self) -> Shape:
        """That of the base."""
        return self.base.batch_shape

    @property
    def event_shape(self) -> Shape:
        """That of the image of one event."""
        return jax.eval_shape(self.forward, jax.ShapeDtypeStruct(self.base.event_shape, self._dtype)).shape

    @property
    def support(self) -> "Image":
        """The image of the base's support."""
        return Image(self.base.support, self.inverse, len(self.event_shape))

    @property
    def mean(self) -> Array:
        """None in closed form."""
        raise self.unavailable("mean")

    @property
    def variance(self) -> Array:
        """None in closed form."""
        raise self.unavailable("variance")

    @property
    def covariance(self) -> Array:
        """None in closed form."""
        raise self.unavailable("covariance")

    def log_prob(self, y: Any) -> Float[Array, "..."]:
        """`log p(x) - log |det J(x)|` at the x that `forward` maps to y; -inf off the image of the support."""
        inverse = self._inverse()
        y = events(self, y)
        x = _each(inverse, y, len(self.event_shape))
        inside = _finite(x, len(self.base.event_shape))
        x = jnp.where(_wide(inside, x), x, jnp.ones_like(x))
        density = self.base.log_prob(x)
        # Where the base has no density its image has none, whatever the determinant.
        found = jnp.where(jnp.isneginf(density), -jnp.inf, density + self._log_det_of_inverse(x, y, inside))
        missing = jnp.isnan(y).any(axis=tuple(range(y.ndim - len(self.event_shape), y.ndim)))
        return jnp.where(inside, found, jnp.where(missing, jnp.nan, -jnp.inf))

    def _log_det_of_inverse(self, x: Array, y: Array, inside: Array) -> Array:
        if self.log_det is not None:
            return -_each(self.log_det, x, len(self.base.event_shape))
        y = jnp.where(_wide(inside, y), y, _each(self.forward, x, len(self.base.event_shape)))
        return _each(_log_det_of(self._inverse()), y, len(self.event_shape))

    def draw(self, key: Key, shape: Shape) -> Array:
        """The images of draws."""
        return _each(self.forward, self.base.draw(key, shape), len(self.base.event_shape))

    def select(self, index: tuple[Array, ...]) -> "Transformed":
        """Those of the base; the functions have no batch."""
        return Transformed(self.base.select(index), self.forward, self.inverse, self.log_det)

    def batched(self, shape: Shape) -> "Transformed":
        """With another batch of the base."""
        return Transformed(self.base.batched(shape), self.forward, self.inverse, self.log_det)

    def entropy(self) -> Float[Array, "*batch"]:
        """None in closed form."""
        raise self.unavailable("entropy")

    def has_bijection_of(self, other: "Transformed") -> bool:
        """Whether the same function, which has an inverse, made both."""
        if self.inverse is None or other.inverse is None:
            return False
        mine, theirs = (jax.tree.leaves(one.forward) for one in (self, other))
        structures: list[Any] = [jax.tree.structure(one.forward) for one in (self, other)]
        return structures[0] == structures[1] and all(a is b for a, b in zip(mine, theirs, strict=True))

    def _inverse(self) -> Function:
        if self.inverse is None:
            raise CapabilityError(
                f"Transformed: log_prob needs the inverse of {name_of(self.forward)}, which was not given",
                remedy="give inverse= (and log_det= where it is known); it draws without one",
            )
        return self.inverse

    @property
    def _dtype(self) -> Any:
        return jnp.result_type(*jax.tree.leaves(eqx.filter(self.base, eqx.is_inexact_array)))


def pushforward(
    p: Distribution, forward: Function, inverse: Function | None = None, log_det: Function | None = None
) -> Distribution:
    """The distribution of `forward(X)` for X drawn from `p`; `forward` takes one event.

    Where `p` has finitely many points it is exact, and scores without an inverse: an `Empirical` distribution of the
    images with the probabilities of the points. Else it is `Transformed`.

    >>> import jax.numpy as jnp
    >>> from chainrule.probability import Bernoulli
    >>> float(pushforward(Bernoulli(0.25), lambda x: 2 * x - 1).mean)
    -0.5
    """
    atoms = p.atoms()
    if atoms is None:
        return Transformed(p, forward, inverse, log_det)
    images = _each(forward, atoms.points, len(p.event_shape))
    axis = len(p.batch_shape)
    return Empirical(jnp.moveaxis(images, 0, axis), jnp.moveaxis(atoms.weights, 0, -1), normalize=True)


@final
class Image(Support):
    """The image of a support."""

    base: Support
    inverse: Function | None
    rank: int = eqx.field(static=True)

    @property
    def is_discrete(self) -> bool:
        """As the one it is the image of."""
        return self.base.is_discrete

    def contains(self, y: Any) -> Bool[Array, "..."]:
        """Whether it is the image of a point of the support, by the inverse."""
        if self.inverse is None:
            raise CapabilityError("Image: membership needs an inverse, which was not given")
        return self.base.contains(_each(self.inverse, jnp.asarray(y), self.rank))


def name_of(function: Function) -> str:
    """What to call a function in messages."""
    inner = function.func if isinstance(function, Partial) else function
    return getattr(inner, "__name__", type(inner).__name__)


def _as_tree(function: Function) -> Function:
    """Modules are PyTrees already; plain functions become one without arrays, so that they pass through `jit`."""
    if not callable(function):
        raise ArgumentError(f"Transformed: {function!r} is no function")
    is_tree = not jax.tree_util.all_leaves([function])
    return function if is_tree else Partial(function)


def _each(function: Function, x: Array, rank: int) -> Array:
    """`function` of every event, over all leading axes."""
    lead = x.shape[: x.ndim - rank]
    flat = jax.vmap(function)(x.reshape(-1, *x.shape[x.ndim - rank :]))
    return flat.reshape(*lead, *flat.shape[1:])


def _log_det_of(function: Function) -> Function:
    """log |det J| of a function from events to events of as many entries."""

    def log_det(y: Array) -> Array:
        jacobian = jax.jacfwd(function)(y)
        size = math.prod(y.shape)
        if size == 1:
            return jnp.log(jnp.abs(jacobian)).reshape(())
        return jnp.linalg.slogdet(jacobian.reshape(size, size))[1]

    return log_det


def _finite(x: Array, rank: int) -> Array:
    return jnp.isfinite(x).all(axis=tuple(range(x.ndim - rank, x.ndim)))


def _wide(mask: Array, x: Array) -> Array:
    return jnp.broadcast_to(mask.reshape(*mask.shape, *(1,) * (x.ndim - mask.ndim)), x.shape)


__all__ = ["Image", "Transformed", "name_of", "pushforward"]
