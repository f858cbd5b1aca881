"""A cell carried along the time axis, with a derivative rule of its own.

Differentiated as written, the loop's backward pass would add a small product to the gradient of the recurrent weights
in every step, and compute slopes it could have kept. Here a change of the weights is first turned into a change of the
input's part of the gates, for all steps in one product; what is left for the loop is linear in the states, with slopes
from the forward pass. Turned around, this makes the gradient of the weights one large product over all steps (on one
core an LSTM of 128 units takes two thirds of the time). It is a forward rule, so every mode and order of derivative
works. Where a CPU has programs for all steps (`chainrule.nn.recurrent.primitives`), they take the place of the loops.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Tree
from chainrule.nn.linear import Linear
from chainrule.nn.recurrent import primitives
from chainrule.nn.recurrent.cells import Cell, Feedback, Slopes, States, UnitCell


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def run(
    cell: Cell, recurrent: Feedback, states: States, inward: Array, alive: Array | None
) -> tuple[States, Array]:
    """States after the last step and outputs of all, from (time, batch, gates).

    Where `alive` (time, batch, 1) is false a step changes nothing and its output is zero.
    """
    if alive is None and isinstance(cell, UnitCell) and primitives.available(recurrent, states, inward):
        last, outputs, _ = primitives.advance(cell, recurrent, states, inward, keep=False)
        return last, outputs

    def move(before: States, now: tuple[Array, Array | None]) -> tuple[States, Array]:
        after, _ = cell.step(recurrent, before, now[0])
        return _kept(now[1], after, before)

    return jax.lax.scan(move, states, (inward, alive))


@run.defjvp
def _rule(cell: Cell, primals: tuple[Tree, ...], tangents: tuple[Tree, ...]) -> tuple[Tree, Tree]:
    recurrent, states, inward, alive = primals
    d_recurrent, d_states, d_inward, _ = tangents
    if alive is None and isinstance(cell, UnitCell) and primitives.available(recurrent, states, inward):
        last, outputs, slopes = primitives.advance(cell, recurrent, states, inward, keep=True)
        h = jnp.concatenate([states[0][None], outputs[:-1]])
        d_inward = d_inward + cell.moved(slopes, h, d_recurrent)
        return (last, outputs), primitives.follow(cell, recurrent.weight, slopes, d_states, d_inward)

    def move(before: States, now: tuple[Array, Array | None]) -> tuple[States, tuple[Array, Array, Slopes]]:
        after, slopes = cell.step(recurrent, before, now[0])
        kept, out = _kept(now[1], after, before)
        return kept, (before[0], out, slopes)

    last, (h, outputs, slopes) = jax.lax.scan(move, states, (inward, alive))
    d_inward = d_inward + cell.moved(slopes, h, d_recurrent)
    transposed = primitives.turned(recurrent.weight)

    def follow(before: States, now: tuple[Slopes, Array, Array | None]) -> tuple[States, Array]:
        slopes, inward, alive = now
        return _kept(alive, cell.tangent(transposed, slopes, before, inward), before)

    return (last, outputs), jax.lax.scan(follow, d_states, (slopes, d_inward, alive))


def run_in_segments(
    cell: Cell, inward: Linear, recurrent: Feedback, states: States, x: Array, alive: Array | None, steps: int
) -> tuple[States, Array]:
    """The same from (time, batch, inputs), holding on to the states of every so many steps only.

    The backward pass repeats what lies between: the steps, and the input's part of their gates.
    """

    @jax.checkpoint
    def segment(
        inward: Linear, recurrent: Feedback, states: States, now: tuple[Array, Array | None]
    ) -> tuple[States, Array]:
        return run(cell, recurrent, states, inward(now[0]), now[1])

    whole = x.shape[0] // steps * steps
    head, rest = (jax.tree.map(lambda a, part=part: a[part], (x, alive)) for part in np.s_[:whole, whole:])
    folded = jax.tree.map(lambda a: a.reshape(whole // steps, steps, *a.shape[1:]), head)
    states, outputs = jax.lax.scan(functools.partial(segment, inward, recurrent), states, folded)
    states, more = segment(inward, recurrent, states, rest)
    return states, jnp.concatenate([outputs.reshape(whole, *outputs.shape[2:]), more])


def best_segment(time: int) -> int:
    """The length of segments with which the backward pass holds the fewest states.

    >>> best_segment(100)
    10
    """
    return max(1, math.isqrt(time))


def _kept(alive: Array | None, after: States, before: States) -> tuple[States, Array]:
    """The states after a step that counts and before one that does not, and the output."""
    if alive is None:
        return after, after[0]
    states = tuple(jnp.where(alive, a, b) for a, b in zip(after, before, strict=True))
    return states, jnp.where(alive, after[0], jnp.zeros_like(after[0]))


__all__ = ["best_segment", "run", "run_in_segments"]
