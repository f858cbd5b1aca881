"""Base class of layers that read a sequence: outputs at every step, and states that can be carried on."""

import abc
from typing import Any, TypeAlias

import equinox as eqx
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Int, Key

Carried: TypeAlias = Any
"""States of a layer or of several: a tuple of arrays or of such tuples."""


class SequenceLayer(eqx.Module):
    """A layer over (*leading, time, inputs)."""

    @property
    @abc.abstractmethod
    def outputs(self) -> int:
        """The size of the output at each step."""

    @abc.abstractmethod
    def initial(self, leading: tuple[int, ...], dtype: jnp.dtype | None = None) -> Carried:
        """The states before the first step: zeros."""

    @abc.abstractmethod
    def __call__(
        self,
        x: Float[Array, "*leading time inputs"],
        states: Carried | None = None,
        *,
        lengths: Int[Array, "*leading"] | None = None,
        segment: int | None = None,
        key: Key | None = None,
    ) -> tuple[Float[Array, "*leading time outputs"], Carried]:
        """Outputs at every step, and the states after the last.

        `lengths` says how many steps of each sequence count: later ones do not touch its states, and put out zeros.
        With `segment` only the states of every so many steps are held for the backward pass, which then repeats the
        steps between them (0 chooses the square root of their number, which holds the fewest). A `key` switches
        dropout on, where there is any.
        """


__all__ = ["Carried", "SequenceLayer"]
