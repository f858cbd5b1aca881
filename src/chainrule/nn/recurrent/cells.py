"""The arithmetic of one step of a recurrent layer, and its exact derivative.

Apart from one product with the recurrent weights a cell acts on each unit by itself. Its derivative is therefore a few
slopes for each unit, written out here once. They give the Jacobian of a step, which says how far gradients reach back,
and the backward pass through time, which needs nothing else from the forward pass. Formulas that stay within a unit are
also what the programs of `chainrule.nn.recurrent.native` are made of.
"""

import abc
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.nn.linear import plus
from chainrule.nn.recurrent.units import Functions, UnitByUnit, Values

States: TypeAlias = tuple[Array, ...]
"""What is carried from step to step, each (..., hidden); the first is what the layer puts out."""
Slopes: TypeAlias = tuple[Array, ...]
"""Derivatives of one step at the point where it was taken, each (..., hidden)."""


@final
class Feedback(eqx.Module):
    """The recurrent weights: from the state to all gates, `h U + b`."""

    weight: Float[Array, "hidden gates"]
    bias: Float[Array, " gates"] | None

    def __call__(self, h: Float[Array, "*leading hidden"]) -> Float[Array, "*leading gates"]:
        """The state's part of all gates."""
        flat = h.reshape(math.prod(h.shape[:-1]), h.shape[-1]) @ self.weight
        if self.bias is not None:
            flat = plus(flat, self.bias[None, :])
        return flat.reshape(*h.shape[:-1], self.weight.shape[1])

    def split(self, gates: int) -> tuple["Feedback", "Feedback"]:
        """To the first so many entries, and to the others."""
        bias = (None, None) if self.bias is None else (self.bias[:gates], self.bias[gates:])
        return Feedback(self.weight[:, :gates], bias[0]), Feedback(self.weight[:, gates:], bias[1])


class Cell(abc.ABC):
    """One step: from the states before it and the input's part of all gates, side by side, to the states after it."""

    gates: ClassVar[tuple[str, ...]]
    """Names of the gates in the order in which they stand side by side, which is PyTorch's."""
    squashed: ClassVar[str]
    """The one of them that lies between -1 and 1; the others lie between 0 and 1."""
    states: ClassVar[tuple[str, ...]]
    """Names of the states."""
    still: ClassVar[tuple[float, ...]]
    """The input's part of every gate with which a step leaves all states but the first as they are."""

    @abc.abstractmethod
    def activations(self, recurrent: Feedback, h: Array, inward: Array) -> tuple[Array, ...]:
        """The values of the gates."""

    @abc.abstractmethod
    def step(self, recurrent: Feedback, states: States, inward: Array) -> tuple[States, Slopes]:
        """The states after the step, and the slopes there."""

    @abc.abstractmethod
    def tangent(self, transposed: Array, slopes: Slopes, change: States, inward: Array) -> States:
        """What a change of the states before and of the input's part changes in the states after; linear in both.

        `transposed` holds the recurrent weights with rows and columns exchanged: as they stand, the product of the
        backward pass would be the slow one.
        """

    @abc.abstractmethod
    def moved(self, slopes: Slopes, h: Array, change: Feedback) -> Array:
        """The change of the input's part that has the effect of this change of the recurrent weights."""

    def named(self, values: tuple[Array, ...]) -> Mapping[str, Array]:
        """Gates by name."""
        return dict(zip(self.gates, values, strict=True))


_JAX = Functions(jax.nn.sigmoid, jnp.tanh)
_SHUT = 1e4
"""A gate is exactly 1 there, and 0 at its negative, in every precision."""


class UnitCell(Cell, UnitByUnit):
    """A cell that acts on each unit by itself once the state has been multiplied with the recurrent weights."""

    @abc.abstractmethod
    def values(self, functions: Functions, inward: Values, feedback: Values) -> Values:
        """The gates, from the input's and the state's part of each."""

    def activations(self, recurrent: Feedback, h: Array, inward: Array) -> tuple[Array, ...]:
        """The values of the gates."""
        return self.values(_JAX, self._each(inward), self._each(recurrent(h)))

    def step(self, recurrent: Feedback, states: States, inward: Array) -> tuple[States, Slopes]:
        """The states after the step, and the slopes there."""
        return self.units(_JAX, self._each(inward), self._each(recurrent(states[0])), states)

    def _each(self, together: Array) -> tuple[Array, ...]:
        return tuple(jnp.split(together, len(self.gates), axis=-1))


@final
@dataclass(frozen=True)
class PlainCell(UnitCell):
    """`h' = tanh(x + h U)`."""

    gates: ClassVar[tuple[str, ...]] = ("state",)
    squashed: ClassVar[str] = "state"
    states: ClassVar[tuple[str, ...]] = ("h",)
    still: ClassVar[tuple[float, ...]] = (0.0,)
    slopes: ClassVar[tuple[str, ...]] = ("by_state",)

    def values(self, functions: Functions, inward: Values, feedback: Values) -> Values:
        return (functions.tanh(inward[0] + feedback[0]),)

    def units(
        self, functions: Functions, inward: Values, feedback: Values, states: Values
    ) -> tuple[Values, Values]:
        del states  # they act through the product alone
        (h,) = self.values(functions, inward, feedback)
        return (h,), (1 - h * h,)

    def tangent(self, transposed: Array, slopes: Slopes, change: States, inward: Array) -> States:
        return (slopes[0] * (inward + _product(change[0], transposed)),)

    def adjoint(self, slopes: Values, after: Values) -> tuple[Values, Values, Values]:
        gate = (slopes[0] * after[0],)
        return gate, gate, (0.0,)

    def moved(self, slopes: Slopes, h: Array, change: Feedback) -> Array:
        del slopes  # the recurrent part is added to the input's
        return change(h)


@final
@dataclass(frozen=True)
class LSTMCell(UnitCell):
    """`c' = f c + i g`, `h' = o tanh(c')`."""

    gates: ClassVar[tuple[str, ...]] = ("input", "forget", "candidate", "output")
    squashed: ClassVar[str] = "candidate"
    states: ClassVar[tuple[str, ...]] = ("h", "c")
    still: ClassVar[tuple[float, ...]] = (-_SHUT, _SHUT, 0.0, 0.0)
    slopes: ClassVar[tuple[str, ...]] = ("by_input", "by_forget", "by_candidate", "by_output", "keep", "show")

    def values(self, functions: Functions, inward: Values, feedback: Values) -> Values:
        i, f, g, o = (x + h for x, h in zip(inward, feedback, strict=True))
        return functions.sigmoid(i), functions.sigmoid(f), functions.tanh(g), functions.sigmoid(o)

    def units(
        self, functions: Functions, inward: Values, feedback: Values, states: Values
    ) -> tuple[Values, Values]:
        c = states[1]
        i, f, g, o = self.values(functions, inward, feedback)
        after = f * c + i * g
        squashed = functions.tanh(after)
        out = o * squashed
        by_gate = (g * i * (1 - i), c * f * (1 - f), i * (1 - g * g), out * (1 - o))
        return (out, after), (*by_gate, f, o * (1 - squashed * squashed))

    def tangent(self, transposed: Array, slopes: Slopes, change: States, inward: Array) -> States:
        h, c = change
        by_i, by_f, by_g, by_o, keep, show = slopes
        i, f, g, o = self._each(inward + _product(h, transposed))
        after = keep * c + by_i * i + by_f * f + by_g * g
        return by_o * o + show * after, after

    def adjoint(self, slopes: Values, after: Values) -> tuple[Values, Values, Values]:
        h, c = after
        by_i, by_f, by_g, by_o, keep, show = slopes
        c = c + show * h
        gates = (by_i * c, by_f * c, by_g * c, by_o * h)
        return gates, gates, (0.0, keep * c)

    def moved(self, slopes: Slopes, h: Array, change: Feedback) -> Array:
        del slopes  # the recurrent part is added to the input's
        return change(h)


@final
@dataclass(frozen=True)
class GRUCell(UnitCell):
    """`h' = (1 - z) n + z h`: where the update gate z is near 1 the past is kept.

    The reset gate r acts on the state's part of the candidate, `n = tanh(x + r (h U + b))`.
    """

    gates: ClassVar[tuple[str, ...]] = ("reset", "update", "candidate")
    squashed: ClassVar[str] = "candidate"
    states: ClassVar[tuple[str, ...]] = ("h",)
    still: ClassVar[tuple[float, ...]] = (0.0, 0.0, 0.0)
    slopes: ClassVar[tuple[str, ...]] = ("by_reset", "by_update", "by_candidate", "reset", "keep")

    def values(self, functions: Functions, inward: Values, feedback: Values) -> Values:
        in_r, in_z, in_n = inward
        of_r, of_z, of_n = feedback
        r, z = functions.sigmoid(in_r + of_r), functions.sigmoid(in_z + of_z)
        return r, z, functions.tanh(in_n + r * of_n)

    def units(
        self, functions: Functions, inward: Values, feedback: Values, states: Values
    ) -> tuple[Values, Values]:
        (h,) = states
        r, z, n = self.values(functions, inward, feedback)
        slopes = (feedback[2] * r * (1 - r), (h - n) * z * (1 - z), (1 - z) * (1 - n * n), r, z)
        return ((1 - z) * n + z * h,), slopes

    def tangent(self, transposed: Array, slopes: Slopes, change: States, inward: Array) -> States:
        (h,) = change
        by_r, by_z, by_n, r, z = slopes
        of_r, of_z, of_n = self._each(_product(h, transposed))
        in_r, in_z, in_n = self._each(inward)
        n = in_n + r * of_n + by_r * (in_r + of_r)
        return (z * h + by_z * (in_z + of_z) + by_n * n,)

    def adjoint(self, slopes: Values, after: Values) -> tuple[Values, Values, Values]:
        (h,) = after
        by_r, by_z, by_n, r, z = slopes
        n = by_n * h
        both = (by_r * n, by_z * h)
        return (*both, n), (*both, r * n), (z * h,)

    def moved(self, slopes: Slopes, h: Array, change: Feedback) -> Array:
        gates, n = jnp.split(change(h), [2 * h.shape[-1]], axis=-1)
        return jnp.concatenate([gates, slopes[3] * n], axis=-1)


@final
@dataclass(frozen=True)
class EarlyResetCell(Cell):
    """The `GRUCell` as first published: the reset gate acts on the state, `n = tanh(x + (r h) U + b)`."""

    gates: ClassVar[tuple[str, ...]] = ("reset", "update", "candidate")
    squashed: ClassVar[str] = "candidate"
    states: ClassVar[tuple[str, ...]] = ("h",)
    still: ClassVar[tuple[float, ...]] = (0.0, 0.0, 0.0)

    def activations(self, recurrent: Feedback, h: Array, inward: Array) -> tuple[Array, ...]:
        hidden = h.shape[-1]
        to_gates, to_n = recurrent.split(2 * hidden)
        gates, in_n = jnp.split(inward, [2 * hidden], axis=-1)
        r, z = jnp.split(jax.nn.sigmoid(gates + to_gates(h)), 2, axis=-1)
        return r, z, jnp.tanh(in_n + to_n(r * h))

    def step(self, recurrent: Feedback, states: States, inward: Array) -> tuple[States, Slopes]:
        (h,) = states
        r, z, n = self.activations(recurrent, h, inward)
        slopes = (h * r * (1 - r), (h - n) * z * (1 - z), (1 - z) * (1 - n * n), r, z)
        return ((1 - z) * n + z * h,), slopes

    def tangent(self, transposed: Array, slopes: Slopes, change: States, inward: Array) -> States:
        (h,) = change
        by_r, by_z, by_n, r, z = slopes
        hidden = h.shape[-1]
        gates, in_n = jnp.split(inward, [2 * hidden], axis=-1)
        r_change, z_change = jnp.split(gates + _product(h, transposed[: 2 * hidden]), 2, axis=-1)
        n = in_n + _product(r * h + by_r * r_change, transposed[2 * hidden :])
        return (z * h + by_z * z_change + by_n * n,)

    def moved(self, slopes: Slopes, h: Array, change: Feedback) -> Array:
        to_gates, to_n = change.split(2 * h.shape[-1])
        return jnp.concatenate([to_gates(h), to_n(slopes[3] * h)], axis=-1)


def _product(x: Array, transposed: Array) -> Array:
    """`x` times the matrix whose rows and columns are exchanged."""
    return jax.lax.dot_general(x, transposed, (((x.ndim - 1,), (1,)), ((), ())))


__all__ = [
    "Cell",
    "EarlyResetCell",
    "Feedback",
    "GRUCell",
    "LSTMCell",
    "PlainCell",
    "Slopes",
    "States",
    "UnitCell",
]
