"""Layers made of layers: one after the other, and side by side with their outputs added or concatenated."""

import abc
from collections.abc import Callable, Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key
from chainrule.kernels.infinite.layer import (
    Drawn,
    FixedLayer,
    HasKernels,
    InfiniteLayer,
    Shape,
    Sizes,
    with_kernels,
)
from chainrule.kernels.infinite.state import KernelState


@final
class Identity(FixedLayer, HasKernels):
    """What comes in: the short way of a residual sum."""

    def __call__(self, x: Array, key: Key | None = None) -> Array:
        """`x`."""
        del key
        return x

    def kernels(self, state: KernelState) -> KernelState:
        return state

    def needs_pairs(self, later: bool) -> bool:
        return later


class SideBySide(HasKernels):
    """Several layers, or chains of layers, of one input."""

    branches: eqx.AbstractVar[tuple[InfiniteLayer, ...]]

    @abc.abstractmethod
    def joined(self, states: Sequence[KernelState]) -> KernelState:
        """The kernels of the outputs taken together."""

    @staticmethod
    @abc.abstractmethod
    def join(outputs: Sequence[Array]) -> Array:
        """The outputs taken together."""

    @abc.abstractmethod
    def joined_shape(self, shapes: Sequence[Shape]) -> Shape:
        """The shape of that."""

    def kernels(self, state: KernelState) -> KernelState:
        states = [with_kernels(branch).kernels(state) for branch in self.branches]
        first, *others = states
        for other in others:
            if (other.space, other.wide) != (first.space, first.wide):
                raise ArgumentError(
                    f"{type(self).__name__}: its branches end in different shapes: positions {first.space} and "
                    f"{other.space}, width {'infinite' if first.wide else first.channels} and "
                    f"{'infinite' if other.wide else other.channels}",
                    remedy="end every branch with the same strides, and with weights where any branch has them",
                )
        return self.joined(states)

    def needs_pairs(self, later: bool) -> bool:
        return any(with_kernels(branch).needs_pairs(later) for branch in self.branches)

    def has_weights(self) -> bool:
        return any(branch.has_weights() for branch in self.branches)

    def axes(self) -> int | None:
        known = [found for branch in self.branches if (found := branch.axes()) is not None]
        return known[0] if known else None

    def draw(self, key: Key, inputs: Shape, sizes: Sizes) -> tuple[Drawn, Shape]:
        """Every branch with a key of its own."""
        keys = jax.random.split(key, len(self.branches))
        drawn = [b.draw(k, inputs, sizes) for b, k in zip(self.branches, keys, strict=True)]
        shape = self.joined_shape([shape for _, shape in drawn])
        return FiniteBranches(tuple(layer for layer, _ in drawn), type(self).join), shape


@final
class Add(SideBySide):
    """The sum of several branches, as in residual networks: `Add(Identity(), Serial(...))`. Their kernels add up."""

    branches: tuple[InfiniteLayer, ...]

    def __init__(self, *branches: InfiniteLayer) -> None:
        self.branches = _at_least_two("Add", branches)

    def joined(self, states: Sequence[KernelState]) -> KernelState:
        """Sums."""
        first = states[0]
        return first.with_arrays(*_summed(states)).marked(gaussian=all(s.gaussian for s in states))

    @staticmethod
    def join(outputs: Sequence[Array]) -> Array:
        """Their sum."""
        found: Array = sum(outputs[1:], outputs[0])
        return found

    def joined_shape(self, shapes: Sequence[Shape]) -> Shape:
        """That of each."""
        if len(set(shapes)) > 1:
            raise ArgumentError(
                f"Add: its branches have the shapes {', '.join(map(str, shapes))}",
                remedy="give all the same positions and channels; layers with weights have the width of the network",
            )
        return shapes[0]


@final
class Concatenate(SideBySide):
    """The channels of several branches one after the other: kernels are means of theirs, in proportion."""

    branches: tuple[InfiniteLayer, ...]

    def __init__(self, *branches: InfiniteLayer) -> None:
        self.branches = _at_least_two("Concatenate", branches)

    def joined(self, states: Sequence[KernelState]) -> KernelState:
        """Means weighted by channels."""
        total = sum(s.channels for s in states)
        parts = [s.each(lambda k, share=s.channels / total: share * k) for s in states]  # type: ignore[misc]
        first = parts[0]
        return first.with_arrays(*_summed(parts)).marked(gaussian=False, channels=total)

    @staticmethod
    def join(outputs: Sequence[Array]) -> Array:
        """Along channels."""
        return jnp.concatenate(outputs, axis=-1)

    def joined_shape(self, shapes: Sequence[Shape]) -> Shape:
        """With all channels."""
        return (*shapes[0][:-1], sum(shape[-1] for shape in shapes))


def _summed(states: Sequence[KernelState]) -> tuple[Array, Array | None, Array, Array]:
    """The kernels of all, added: nngp, ntk, left and right."""
    total = states[0]
    nngp, ntk, left, right = total.nngp, total.ntk, total.left, total.right
    for state in states[1:]:
        nngp, left, right = nngp + state.nngp, left + state.left, right + state.right
        ntk = None if ntk is None or state.ntk is None else ntk + state.ntk
    return nngp, ntk, left, right


def _at_least_two(where: str, branches: tuple[InfiniteLayer, ...]) -> tuple[InfiniteLayer, ...]:
    if len(branches) < 2:
        raise ArgumentError(f"{where}: {len(branches)} branches; it takes two or more")
    return branches


@final
class FiniteBranches(eqx.Module):
    """Branches of finite width."""

    branches: tuple[Drawn, ...]
    join: Callable[[Sequence[Array]], Array] = eqx.field(static=True)

    def __call__(self, x: Array, key: Key | None = None) -> Array:
        """All of one input, taken together."""
        return self.join([layer(x, key_of(key, n)) for n, layer in enumerate(self.branches)])


def key_of(key: Key | None, number: int) -> Key | None:
    """The key of a part."""
    return None if key is None else jax.random.fold_in(key, number)


__all__ = ["Add", "Concatenate", "FiniteBranches", "Identity", "SideBySide", "key_of"]
