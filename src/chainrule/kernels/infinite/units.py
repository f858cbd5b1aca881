"""Layers without weights: activations, normalisation, dropout."""

import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import share
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Scalar
from chainrule.kernels.infinite.dual import DualActivation
from chainrule.kernels.infinite.layer import (
    Drawn,
    FixedLayer,
    HasKernels,
    InfiniteLayer,
    Shape,
    Sizes,
    require_gaussian,
)
from chainrule.kernels.infinite.names import activation_of
from chainrule.kernels.infinite.state import KernelState


@final
class Activate(FixedLayer, HasKernels):
    """A function of every unit: `K' = E[s s]`, `Theta' = Theta E[s' s']`.

    By name ("relu"), as one of the activations of this package, or as any smooth function of an array, whose mean
    products are then found by quadrature. `normalized` divides by the root of `E[s(z)²]` of a standard Gaussian z,
    the mean of the square and not the square of the mean: 2 for ReLU, 2.53618 for tanh.
    """

    activation: DualActivation
    normalized: bool = eqx.field(static=True)

    def __init__(self, activation: Any, *, normalized: bool = False) -> None:
        self.activation = activation_of("Activate", activation)
        self.normalized = normalized

    def constant(self) -> Scalar:
        """What mean products are multiplied by: `1 / E[s(z)²]`, or one."""
        if not self.normalized:
            return jnp.ones(())
        return 1 / self.activation.second_moment(jnp.ones(()))

    def __call__(self, x: Array, key: Key | None = None) -> Array:
        """Entry by entry."""
        del key
        return jnp.sqrt(self.constant()).astype(x.dtype) * self.activation.value(x)

    def kernels(self, state: KernelState) -> KernelState:
        require_gaussian("Activate", state)
        constant = self.constant().astype(state.nngp.dtype)
        return state.activated(self.activation).each(lambda k: constant * k)

    def needs_pairs(self, later: bool) -> bool:
        return later


@final
class NormalizeChannels(FixedLayer, HasKernels):
    """Layer normalisation: the units of a position less their mean, over their deviation.

    The units must be Gaussian with mean zero over channels, as weights leave them. `over_positions` normalises the
    units of all positions together.
    """

    epsilon: float = eqx.field(static=True, default=1e-12)
    over_positions: bool = eqx.field(static=True, default=False)

    def __call__(self, x: Array, key: Key | None = None) -> Array:
        """Over the last axis, or over all but the first."""
        del key
        axes = tuple(range(1, x.ndim)) if self.over_positions else (-1,)
        centred = x - x.mean(axis=axes, keepdims=True)
        return centred / jnp.sqrt(jnp.square(centred).mean(axis=axes, keepdims=True) + self.epsilon)

    def kernels(self, state: KernelState) -> KernelState:
        require_gaussian("NormalizeChannels", state)
        rows, columns = (self._scales(v) for v in state.variances())
        across, down = state.between(rows, columns)
        (left, right), (top, bottom) = state.within(rows), state.within(columns)
        return state.with_arrays(
            across * down * state.nngp,
            None if state.ntk is None else across * down * state.ntk,
            left * right * state.left,
            top * bottom * state.right,
        )

    def _scales(self, variances: Array) -> Array:
        if self.over_positions:
            mean = variances.mean(axis=tuple(range(1, variances.ndim)), keepdims=True)
            variances = jnp.broadcast_to(mean, variances.shape)
        return jax.lax.rsqrt(variances + self.epsilon)

    def needs_pairs(self, later: bool) -> bool:
        return later


@final
class DropUnits(HasKernels, InfiniteLayer):
    """Dropout in training: every unit of every example is zero with probability p, else divided by 1 - p.

    Masks of two examples are independent, so only the kernel of an example with itself changes.
    """

    p: float = eqx.field(static=True)

    def __init__(self, p: float) -> None:
        self.p = share("DropUnits", "p", p, "the share of units that are dropped")

    def kernels(self, state: KernelState) -> KernelState:
        factor = 1 / (1 - self.p)
        equal = self._equal_positions(state)
        same = state.same.reshape(*state.same.shape, *(1,) * equal.ndim)
        both = jnp.where(same & equal[None, None], factor, 1.0).astype(state.nngp.dtype)
        own = jnp.where(equal, factor, 1.0).astype(state.nngp.dtype)[None]
        return state.with_arrays(
            both * state.nngp,
            None if state.ntk is None else both * state.ntk,
            own * state.left,
            own * state.right,
        ).marked(gaussian=False)

    @staticmethod
    def _equal_positions(state: KernelState) -> Array:
        """Which pairs of positions are held by one unit: all that are held, or the diagonal of all pairs."""
        shape = state.nngp.shape[2:]
        if not state.pairs:
            return jnp.ones(shape, bool)
        return jnp.eye(math.prod(state.space), dtype=bool).reshape(shape)

    def needs_pairs(self, later: bool) -> bool:
        return later

    def has_weights(self) -> bool:
        return False

    def draw(self, key: Key, inputs: Shape, sizes: Sizes) -> tuple[Drawn, Shape]:
        """The masks are drawn when the network is used."""
        del key, sizes
        return FiniteDrop(self.p), inputs


@final
class FiniteDrop(eqx.Module):
    """Dropout of a finite network; without a key nothing is dropped."""

    p: float = eqx.field(static=True)

    def __call__(self, x: Array, key: Key | None = None) -> Array:
        """With a mask for every entry."""
        if key is None:
            return x
        kept = jax.random.bernoulli(key, 1 - self.p, x.shape)
        return jnp.where(kept, x / (1 - self.p), 0.0)


@final
class FunctionLayer(FixedLayer):
    """Any function of a batch that no rule is known for: in finite networks only."""

    function: Any = eqx.field(static=True)

    def __init__(self, function: Any) -> None:
        if not callable(function):
            raise ArgumentError(f"FunctionLayer(function={function!r}): a function of an array is needed")
        self.function = function

    def __call__(self, x: Array, key: Key | None = None) -> Array:
        """The function of the batch."""
        del key
        found: Array = self.function(x)
        return found


__all__ = ["Activate", "DropUnits", "FiniteDrop", "FunctionLayer", "NormalizeChannels"]
