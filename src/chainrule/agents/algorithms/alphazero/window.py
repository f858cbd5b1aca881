"""The window of recent positions: a ring of rows on the device, one column for each game that is being played.

A position is written when it is played; its outcome is known only when its game ends, which may be many moves later.
So the window keeps where games ended and how, and outcomes are read off backwards from there. Positions of games that
go on have none yet and wait; those of games that were cut off never get one.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.agents.games.base import Game
from chainrule.agents.policy_value.training import Examples
from chainrule.core.types import Array, Float, Int, Key

PLANES_TYPE = jnp.float16
"""Planes are zeros and ones, which half precision keeps exactly, at half the memory."""


class PlayedMoves(NamedTuple):
    """A position, what the search made of it, and whether the game ended with the move."""

    planes: Float[Array, "*rows height width planes"]
    policy: Float[Array, "*rows actions"]
    player: Int[Array, "*rows"]
    ended: Bool[Array, "*rows"]
    truncated: Bool[Array, "*rows"]
    """How it ended says nothing about this position and those before."""
    outcome: Float[Array, "*rows"]
    """For whoever moves first in the game, where it has ended."""


class PositionWindow(NamedTuple):
    """Rows of moves, the oldest at `at` once the ring is full, and the outcome of each as far as it is known."""

    moves: PlayedMoves
    outcome: Float[Array, "rows games"]
    """For whoever was to move."""
    known: Float[Array, "rows games"]
    at: Int[Array, ""]
    filled: Int[Array, ""]


def empty(game: Game[Any], rows: int, games: int) -> PositionWindow:
    """A window without positions."""
    shape = (rows, games)
    none = jnp.zeros(shape, bool)
    moves = PlayedMoves(
        jnp.zeros((*shape, *game.observation_shape), PLANES_TYPE),
        jnp.zeros((*shape, game.actions)),
        jnp.zeros(shape, jnp.int8),
        none,
        none,
        jnp.zeros(shape),
    )
    zero = jnp.zeros((), jnp.int32)
    return PositionWindow(moves, jnp.zeros(shape), jnp.zeros(shape), zero, zero)


def add(window: PositionWindow, moves: PlayedMoves) -> PositionWindow:
    """The window with new rows in the place of the oldest; the number of rows is a multiple of theirs."""
    count, rows = moves.player.shape[0], window.outcome.shape[0]

    def write(old: Array, new: Array) -> Array:
        return jax.lax.dynamic_update_slice_in_dim(old, new.astype(old.dtype), window.at, 0)

    written = jax.tree.map(write, window.moves, moves)
    at = (window.at + count) % rows
    outcome, known = outcomes(written, at)
    return PositionWindow(written, outcome, known, at, jnp.minimum(window.filled + count, rows))


def outcomes(
    moves: PlayedMoves, at: Int[Array, ""]
) -> tuple[Float[Array, "rows games"], Float[Array, "rows games"]]:
    """Outcome for whoever was to move, and 1 where there is one: read backwards in time from the ends of games."""
    rows = moves.player.shape[0]

    def earlier(
        later: tuple[Array, Array], i: Array
    ) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
        outcome, known = later
        row = (at + i) % rows  # the oldest row is at `at`
        ended, truncated = moves.ended[row], moves.truncated[row]
        over = ended | truncated
        outcome = jnp.where(over, moves.outcome[row], outcome)
        known = jnp.where(over, ended.astype(known.dtype), known)
        return (outcome, known), (row, outcome, known)

    nothing = jnp.zeros(moves.player.shape[1])
    _, (row, outcome, known) = jax.lax.scan(earlier, (nothing, nothing), jnp.arange(rows), reverse=True)
    seen_by = 1 - 2 * moves.player.astype(jnp.float32)
    in_place = jnp.zeros_like(moves.outcome)
    return in_place.at[row].set(outcome * known) * seen_by, in_place.at[row].set(known)


def draw(key: Key, window: PositionWindow, batch: int) -> Examples:
    """Positions at random, each as likely as any other."""
    games = window.outcome.shape[1]
    which = jax.random.randint(key, (batch,), 0, window.filled * games)
    row, column = which // games, which % games
    return Examples(
        window.moves.planes[row, column].astype(jnp.float32),
        window.moves.policy[row, column],
        window.outcome[row, column],
        window.known[row, column],
    )


__all__ = ["PlayedMoves", "PositionWindow", "add", "draw", "empty", "outcomes"]
