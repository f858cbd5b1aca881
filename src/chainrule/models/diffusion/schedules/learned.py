"""Learned noise schedule (Kingma et al., 2021).

gamma(t) = -lam(t) is a monotone network between two learned ends. In continuous time the bound depends on the ends
alone; what lies between them decides only how noisy an estimate of the bound is. The ends therefore follow the
gradient of the bound, and the interior that of its square, whose mean is the variance up to a constant; `by_variance`
gets both from one backward pass. In a chain of finitely many steps the bound depends on every level, and all of the
curve follows its gradient.
"""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key, Tree
from chainrule.models.diffusion.process import Process, VariancePreserving
from chainrule.models.diffusion.schedules.schedule import Schedule

WIDTH = 1024


@final
class LearnedSNR(eqx.Module, Schedule):
    """gamma(t) = low + (high - low) m(t), with m a monotone network from m(0) = 0 to m(1) = 1.

    m is g(t) = w t + mean of v sigmoid(u t + b), normalised; softplus keeps w, v and u positive, so that gamma
    increases strictly. A fresh one is nearly straight.

    >>> fresh = LearnedSNR(-7.0, 6.0, jax.random.key(0))
    >>> [round(float(fresh.lam(t)), 4) for t in (0.0, 1.0)]
    [7.0, -6.0]
    """

    gammas: Float[Array, " two"]
    """At times 0 and 1."""
    slope: Float[Array, ""]
    inner: Float[Array, " width"]
    bias: Float[Array, " width"]
    outer: Float[Array, " width"]
    learn_ends: bool = eqx.field(static=True)
    process: Process = eqx.field(static=True)
    first: float = eqx.field(static=True)
    count: None = eqx.field(static=True)

    def __init__(
        self, low: float, high: float, key: Key, *, learn_ends: bool = True, timesteps: int | None = None
    ) -> None:
        one, two = jax.random.split(key)
        self.gammas = jnp.array([low, high], jnp.float32)
        self.slope = jnp.zeros(())
        self.inner = 2 + jax.random.normal(one, (WIDTH,))
        self.bias = -2 * jax.random.uniform(two, (WIDTH,))
        self.outer = jnp.full((WIDTH,), -2.0, jnp.float32)
        self.learn_ends, self.process, self.count = learn_ends, VariancePreserving(), None
        # A chain is never denoised at its cleanest level, where the reconstruction happens.
        self.first = 1 / timesteps if timesteps else 0.0

    def share(self, t: Any) -> Array:
        """m(t), the way gone between the ends."""
        low, high = self._raw(jnp.zeros(())), self._raw(jnp.ones(()))
        return (self._raw(jnp.asarray(t)) - low) / (high - low)

    def share_and_rate(self, t: Float[Array, " batch"]) -> tuple[Array, Array]:
        """m(t) and its derivative."""
        return jax.jvp(self.share, (t,), (jnp.ones_like(t),))

    def bounds(self) -> Float[Array, " two"]:
        """gamma at times 0 and 1, for gradients to pass or, with `learn_ends=False`, not."""
        return self.gammas if self.learn_ends else jax.lax.stop_gradient(self.gammas)

    def lam(self, t: Any) -> Array:
        low, high = self.bounds()
        return -(low + (high - low) * self.share(t))

    def _raw(self, t: Array) -> Array:
        shape = (1,) * t.ndim + (WIDTH,)
        rise, shift, size = (v.reshape(shape) for v in (self.inner, self.bias, self.outer))
        hidden = jax.nn.sigmoid(t[..., None] * jax.nn.softplus(rise) + shift)
        return t * jax.nn.softplus(self.slope) + (hidden * jax.nn.softplus(size)).mean(axis=-1)


def by_variance(loss: Callable[[Tree, Tree], Array], others: Tree, interior: Tree) -> Float[Array, " batch"]:
    """`loss(others, interior)` of each example, with the gradient of a sum of it for `others` and of its square else.

    Every leaf of `interior` has one entry for each example, which only that example's loss depends on. All arrays that
    the loss depends on are among the arguments: it must not close over any.
    """

    @jax.custom_vjp
    def value(others: Tree, interior: Tree) -> Array:
        return loss(others, interior)

    def forward(others: Tree, interior: Tree) -> tuple[Array, Any]:
        out, back = jax.vjp(loss, others, interior)
        return out, (out, back)

    def backward(kept: Any, cotangent: Array) -> tuple[Tree, Tree]:
        out, back = kept
        rest, interior = back(cotangent)
        return rest, jax.tree.map(lambda g: 2 * out * g, interior)

    value.defvjp(forward, backward)
    return value(others, interior)


__all__ = ["LearnedSNR", "by_variance"]
