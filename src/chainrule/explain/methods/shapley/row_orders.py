"""Shapley values by orders that every background row has for itself.

Where rows stand for absent features the game is a mean of games, one for each row b: `v(S) = sum_b w_b f(x_S, b)`. So
are its values. Other methods evaluate every coalition with all rows, so that the chance of an order is that of all rows
at once. Here each row gets pairs of opposite orders of its own, and chance is averaged over rows as well, for as many
evaluations. Rows are strata: that they differ is no error, as each has its share; errors are those within rows.

All inputs of a batch share the orders. Reference: Castro, Gomez, Molina and Tejada, Improving polynomial estimation of
the Shapley value by stratified random sampling, 2017.
"""

from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from chainrule.core.checks import whole
from chainrule.core.compiling import compiled
from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.functions import Function, HostFunction, one_output
from chainrule.explain.methods.shapley.game_values import GameValues, settled
from chainrule.explain.methods.shapley.masked_functions import MaskedFunction
from chainrule.explain.methods.shapley.maskers.masker import Masker
from chainrule.explain.methods.shapley.maskers.replacing import Replacing

Turns: TypeAlias = Int[np.ndarray, "rows orders players"]

LEAST_ROWS = 16
"""Background rows from which on these orders are taken unless another method is asked for: each has a degree of freedom
of the errors at least."""
_LEAST_PAIRS = 2
"""Pairs of orders of each row: one says nothing about errors."""
_KEPT = 1 << 22
"""Worths that are held at once."""


class _Moments(NamedTuple):
    """Of what players add in the pairs of orders so far, for some inputs and all background rows."""

    mean: Float[Array, "batch rows players"]
    squares: Float[Array, "batch rows players"]
    """Sums of squares about the mean."""


def has_row_orders(masker: Masker) -> bool:
    """Whether rows, the same for all inputs, stand for absent features."""
    return isinstance(masker, Replacing) and not masker.for_each and masker.samples > 1


def least_budget(players: int) -> int:
    """Coalitions that take as long as two pairs of orders of every row.

    >>> least_budget(3)
    8
    """
    return 2 * _LEAST_PAIRS * max(players - 1, 1)


def row_order_values(
    worth: MaskedFunction, *, budget: int | None = None, tol: float = 0.01, seed: int = 0
) -> GameValues:
    """Shapley values by pairs of random orders of every background row.

    Sampling stops when no standard error is above `tol` times the range of the values, or after as many evaluations as
    `budget` coalitions take (2 M + 2048 unless given).
    """
    masker = worth.masker
    if not isinstance(masker, Replacing) or not has_row_orders(masker):
        raise ArgumentError(
            "shapley(method='rows'): there are no background rows that are the same for all inputs",
            remedy="give two or more rows of background with absent='interventional', or use method='kernel'",
        )
    count, samples, batch = len(masker.names), masker.samples, len(worth.x)
    budget = 2 * count + 2048 if budget is None else whole("shapley", "budget", budget)
    least = least_budget(count)
    if budget < least:
        raise ArgumentError(
            f"shapley(method='rows', budget={budget}): two pairs of orders of {count} players take {least} coalitions",
            remedy=f"use budget={least} or more, or group the players",
        )
    random = np.random.default_rng(seed)
    weights = np.asarray(masker.weights, np.float64)
    size = min(batch, max(_KEPT // (2 * samples * count), 1))
    parts = [np.minimum(np.arange(start, start + size), batch - 1) for start in range(0, batch, size)]
    at_base, at_total = _ends(worth, masker)
    if count == 1:
        gain = np.asarray(at_total, np.float64) - np.asarray(at_base, np.float64) @ weights
        return GameValues(gain[:, None], None, "one player")
    zeros = jnp.zeros((size, samples, count), at_base.dtype)
    moments = [_Moments(zeros, zeros)] * len(parts)
    most, pairs = _LEAST_PAIRS * budget // least, 0
    while True:
        turns = random.permuted(np.tile(np.arange(count), (samples, 1)), axis=-1)
        turns = np.stack([turns, count - 1 - turns], axis=1)
        for number, inputs in enumerate(parts):
            worths = _worths(worth, masker, inputs, turns, np.arange(count - 1))
            moments[number] = _with(moments[number], pairs, worths, at_base[inputs], at_total[inputs], turns)
        worth.evaluations += batch * samples * 2 * (count - 1)
        pairs += 1
        if pairs < _LEAST_PAIRS:
            continue
        values, squares = (
            np.concatenate([np.asarray(part, np.float64) @ scale for part in of])[:batch]
            for of, scale in (
                ([part.mean.swapaxes(1, 2) for part in moments], weights),
                ([part.squares.swapaxes(1, 2) for part in moments], np.square(weights)),
            )
        )
        errors = np.sqrt(squares / ((pairs - 1) * pairs))
        if pairs >= most or settled(values, errors, tol):
            return GameValues(values, errors, f"orders of {samples} background rows, {pairs:,} pairs of each")


def _ends(worth: MaskedFunction, masker: Replacing) -> tuple[Array, Array]:
    """What nobody is worth with each row, (batch, rows), and what all are worth together, (batch,)."""
    count, batch = len(masker.names), np.arange(len(worth.x))
    any_order = np.broadcast_to(np.arange(count), (masker.samples, 1, count))
    at_base = _worths(worth, masker, batch, any_order, np.array([-1]))
    at_total = _worths(worth, masker, batch, any_order[:1], np.array([count - 1]))
    worth.evaluations += at_base.size + at_total.size
    return at_base[..., 0, 0], at_total[:, 0, 0, 0]


@compiled
def _with(
    known: _Moments, pairs: Any, worths: Array, at_base: Array, at_total: Array, turns: Any
) -> _Moments:
    """The moments with another pair: an order and its opposite."""
    shape = (*worths.shape[:-1], 1)
    ends = [
        jnp.broadcast_to(end, shape) for end in (at_base[:, :, None, None], at_total[:, None, None, None])
    ]
    steps = jnp.diff(jnp.concatenate([ends[0], worths, ends[1]], axis=-1), axis=-1)
    added = jnp.take_along_axis(steps, jnp.broadcast_to(turns[None], steps.shape), axis=-1).mean(axis=2)
    apart = added - known.mean
    return _Moments(known.mean + apart / (pairs + 1), known.squares + jnp.square(apart) * pairs / (pairs + 1))


def _worths(
    worth: MaskedFunction, masker: Replacing, inputs: np.ndarray, turns: Turns, steps: np.ndarray
) -> Float[Array, "batch rows orders steps"]:
    """The function at inputs that keep who has joined by each step and have the rest of a row."""
    samples, each = len(turns), turns.shape[1] * len(steps)
    parts = -(-samples // max(worth.most // each, 1))
    rows = -(-samples // parts)
    block = min(max(worth.most // (each * rows), 1), len(inputs))
    in_one = each <= worth.most and not isinstance(worth.f, HostFunction)
    loops = max(worth.loops // (block * rows * each), 1) if in_one else 1
    together = block * min(loops, -(-len(inputs) // block))
    columns = []
    for first in range(0, samples, rows):
        some = _filled(first, rows, samples)
        given = (masker.replacements[some], masker.owners, turns[some], steps)
        pieces: list[Any] = []
        for start in range(0, len(inputs), together):
            x = worth.inputs[inputs[_filled(start, together, len(inputs))]]
            if in_one:
                pieces.append(_compiled_worths(worth.f, x, *given, worth.output, block))
            else:
                mixed = _compiled_mixtures(x, *given)
                found = worth.values(mixed.reshape(-1, *x.shape[1:]), worth.most)
                pieces.append(found.reshape(mixed.shape[:4]))
        columns.append(jnp.concatenate(pieces)[: len(inputs)])
    return jnp.concatenate(columns, axis=1)[:, :samples]


def _present(owners: Array, turns: Any, steps: Any) -> Bool[Array, "rows orders steps ..."]:
    """Which entries of an input are kept."""
    always = jnp.full((*turns.shape[:2], 1), -1)
    joined = jnp.concatenate([jnp.asarray(turns), always], axis=-1)[..., owners]  # -1 is the last one
    return joined[:, :, None] <= jnp.asarray(steps).reshape(1, 1, -1, *(1 for _ in owners.shape))


def _mixtures(x: Array, others: Array, present: Array) -> Float[Array, "batch rows orders steps ..."]:
    return jnp.where(present[None], x[:, None, None, None], others[None, :, None, None])


@compiled
def _compiled_mixtures(x: Array, others: Array, owners: Array, turns: Any, steps: Any) -> Array:
    return _mixtures(x, others, _present(owners, turns, steps))


@compiled
def _compiled_worths(
    f: Function, x: Array, others: Array, owners: Array, turns: Any, steps: Any, output: int, block: int
) -> Array:
    present = _present(owners, turns, steps)

    def of_block(x: Array) -> Array:
        mixed = _mixtures(x, others, present)
        return one_output(f(mixed.reshape(-1, *x.shape[1:])), output).reshape(mixed.shape[:4])

    blocks = x.reshape(-1, block, *x.shape[1:])
    found = of_block(blocks[0])[None] if len(blocks) == 1 else jax.lax.map(of_block, blocks)
    return found.reshape(len(x), *found.shape[2:])


def _filled(start: int, size: int, count: int) -> np.ndarray:
    """Indices of a block of one size; past the end the last one is repeated."""
    return np.minimum(np.arange(start, start + size), count - 1)


__all__ = ["LEAST_ROWS", "has_row_orders", "least_budget", "row_order_values"]
