"""What a layer of infinite width is: a rule for kernels, and a layer of any finite width that it describes.

A layer is a description. `draw` makes a layer of finite width with random parameters; `kernels` says what becomes of
the kernels when the width grows. A layer without such a rule still has finite networks, and `monte_carlo_kernel`
estimates the kernels from those.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key
from chainrule.kernels.infinite.state import KernelState
from chainrule.probability.distributions.parameters import floating, require

Shape = tuple[int, ...]
Drawn = Callable[[Array, Key | None], Array]
"""A layer of finite width: a function of a batch `(batch, *space, channels)` and a key for what is random in use."""


class Sizes(NamedTuple):
    """Sizes of finite networks."""

    width: int
    """Channels of hidden layers."""
    outputs: int
    """Channels of the last layer that has weights."""
    standard: bool
    """Weights with the variance of the standard parameterisation, instead of unit weights with a factor."""


class InfiniteLayer(eqx.Module):
    """A layer whose width may grow without bound."""

    @abc.abstractmethod
    def draw(self, key: Key, inputs: Shape, sizes: Sizes) -> tuple[Drawn, Shape]:
        """A layer of finite width for inputs `(*space, channels)`, and the shape of its outputs."""

    @abc.abstractmethod
    def has_weights(self) -> bool:
        """Whether the layer decides how many channels there are."""

    def axes(self) -> int | None:
        """Default: the layer takes inputs of any number of axes; else that number, channels included."""
        return None


class HasKernels(InfiniteLayer):
    """Has a rule for kernels in the limit of infinite width."""

    @abc.abstractmethod
    def kernels(self, state: KernelState) -> KernelState:
        """The kernels after the layer."""

    @abc.abstractmethod
    def needs_pairs(self, later: bool) -> bool:
        """Whether all pairs of positions of its input are needed, if later layers need all pairs of its output."""


class FixedLayer(InfiniteLayer):
    """Has neither parameters nor chance: one function, whatever the width."""

    @abc.abstractmethod
    def __call__(self, x: Array, key: Key | None = None) -> Array:
        """The function, of a batch `(batch, *space, channels)`."""

    def output_shape(self, inputs: Shape) -> Shape:
        """The shape of its outputs for inputs `(*space, channels)`."""
        found: Shape = jax.eval_shape(self, jax.ShapeDtypeStruct((1, *inputs), jnp.float32)).shape[1:]
        return found

    def draw(self, key: Key, inputs: Shape, sizes: Sizes) -> tuple[Drawn, Shape]:
        """Itself."""
        del key, sizes
        return self, self.output_shape(inputs)

    def has_weights(self) -> bool:
        return False


def with_kernels(layer: InfiniteLayer) -> HasKernels:
    """The layer, if it has a rule for kernels; else an error that names it."""
    if not isinstance(layer, HasKernels):
        raise ArgumentError(
            f"{type(layer).__name__}: no rule is known for the kernels of this layer at infinite width",
            remedy="estimate them from networks of finite width: "
            "infinite.monte_carlo_kernel(lambda key: network.finite(512, key, x.shape[1:]), x, key=key)",
        )
    return layer


def require_gaussian(where: str, state: KernelState) -> None:
    """Refuse a rule for Gaussian units behind something that leaves them otherwise."""
    if not state.gaussian:
        what = "inputs as they are" if not state.wide else "an activation, dropout or a concatenation"
        raise ArgumentError(
            f"{where}: its units must be Gaussian, as weights leave them, and here they come from {what}",
            remedy=f"put an Affine or Convolve layer before {where}",
        )


def check_std(where: str, name: str, value: Any) -> Array:
    """A standard deviation: one number that is not negative."""
    # Descriptions are also written inside of compiled functions; what is known stays known there.
    with jax.ensure_compile_time_eval():
        found = floating(value)
    if found.ndim:
        raise ArgumentError(f"{where}({name}): one number is needed, not shape {found.shape}")
    return require(where, name, found, lambda v: (v >= 0) & (v < jnp.inf), "be finite and at least 0")


__all__ = [
    "Drawn",
    "FixedLayer",
    "HasKernels",
    "InfiniteLayer",
    "Shape",
    "Sizes",
    "check_std",
    "require_gaussian",
    "with_kernels",
]
