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
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Tree
from chainrule.nn.recurrent import primitives
from chainrule.nn.recurrent.cells import Cell, Feedback, Slopes, States, UnitCell


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def run(cell: Cell, recurrent: Feedback, states: States, inward: Array) -> tuple[States, Array]:
    """States after the last step and outputs of all, from (time, batch, gates)."""
    if isinstance(cell, UnitCell) and primitives.available(recurrent, states, inward):
        last, outputs, _ = primitives.advance(cell, recurrent, states, inward, keep=False)
        return last, outputs

    def move(before: States, now: Array) -> tuple[States, Array]:
        after, _ = cell.step(recurrent, before, now)
        return after, after[0]

    return jax.lax.scan(move, states, inward)


@run.defjvp
def _rule(cell: Cell, primals: tuple[Tree, ...], tangents: tuple[Tree, ...]) -> tuple[Tree, Tree]:
    recurrent, states, inward = primals
    d_recurrent, d_states, d_inward = tangents
    if isinstance(cell, UnitCell) and primitives.available(recurrent, states, inward):
        last, outputs, slopes = primitives.advance(cell, recurrent, states, inward, keep=True)
        d_inward = d_inward + cell.moved(slopes, _before(states, outputs), d_recurrent)
        return (last, outputs), primitives.follow(cell, recurrent.weight, slopes, d_states, d_inward)

    def move(before: States, now: Array) -> tuple[States, tuple[Array, Slopes]]:
        after, slopes = cell.step(recurrent, before, now)
        return after, (after[0], slopes)

    last, (outputs, slopes) = jax.lax.scan(move, states, inward)
    d_inward = d_inward + cell.moved(slopes, _before(states, outputs), d_recurrent)
    transposed = primitives.turned(recurrent.weight)

    def follow(before: States, now: tuple[Slopes, Array]) -> tuple[States, Array]:
        after = cell.tangent(transposed, now[0], before, now[1])
        return after, after[0]

    return (last, outputs), jax.lax.scan(follow, d_states, (slopes, d_inward))


def _before(states: States, outputs: Array) -> Array:
    """The state before every step."""
    return jnp.concatenate([states[0][None], outputs])[:-1]


def run_in_segments(
    cell: Cell, inward: Callable[[Tree], Array], recurrent: Feedback, states: States, x: Tree, steps: int
) -> tuple[States, Array]:
    """The same from arrays (time, ...), holding on to the states of every so many steps only.

    The backward pass repeats what lies between: the steps, and `inward`, a PyTree, of what comes in at them.
    """

    @jax.checkpoint
    def segment(
        inward: Callable[[Tree], Array], recurrent: Feedback, states: States, now: Tree
    ) -> tuple[States, Array]:
        return run(cell, recurrent, states, inward(now))

    whole = jax.tree.leaves(x)[0].shape[0] // steps * steps
    head, rest = (jax.tree.map(lambda a, part=part: a[part], x) for part in np.s_[:whole, whole:])
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


__all__ = ["best_segment", "run", "run_in_segments"]
