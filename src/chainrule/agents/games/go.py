"""Go, on boards of 5 by 5 to 19 by 19: captures, no suicide, no position twice, area scoring.

Every stone carries the number of its group, so that a move merges and captures groups by comparing numbers, without
following them stone by stone: a group is numbered by the last stone that was put to it, which it contains as long as it
lives, so that no two groups share a number. Positions are compared by a sum of random numbers, one for each stone
(Zobrist, 1970), 64 bits wide; sums instead of exclusive or, because the stones of a group can be summed by one scatter.

Black, who moves first, is player 0. Observations are those of AlphaGo Zero: the last eight positions, own stones first,
and a plane that is 1 where black is to move.
"""

from typing import Annotated, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, UInt32
from pydantic import Field

from chainrule.agents.games.base import AnyArray, Symmetry
from chainrule.agents.games.boards import BoardGame, cell_name, check_size, square_symmetries, win_rewards
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int

_SEEN = 8
"""Positions that an observation shows."""
_ZOBRIST = np.random.default_rng(0).integers(0, 2**32, (2, 19 * 19, 2), dtype=np.uint32)
"""By colour and cell."""


class GoState(NamedTuple):
    """A position, and what of its history matters."""

    groups: Int[Array, " cells"]
    """The number of the group of each stone, from 1; positive for black, negative for white; 0 where no stone lies."""
    recent: Int[Array, "8 cells"]
    """The last positions as stones (1, -1, 0), the present one first."""
    hashes: UInt32[Array, "moves 2"]
    """Of all positions so far, in order; zeros, which no position but the empty one has, behind them."""
    moves: Int[Array, ""]
    passes: Int[Array, ""]
    """In a row, at the end of the moves so far."""


@final
class Go(BoardGame[GoState]):
    """An action for every cell, row by row, and one to pass; two passes in a row, or too many moves, end the game."""

    size: Annotated[int, Field(ge=5, le=19, description="cells a side")] = eqx.field(default=9, static=True)
    komi: Annotated[float, Field(description="points for white, who moves second")] = eqx.field(
        default=7.5, static=True
    )
    superko: Annotated[
        bool,
        Field(description="no position may come again; else only the one before the last move may not"),
    ] = eqx.field(default=True, static=True)
    limit: Annotated[
        int | None,
        Field(
            ge=1,
            description="moves after which a game ends and is scored as it stands; twice the cells unless told",
        ),
    ] = eqx.field(default=None, static=True)

    def __check_init__(self) -> None:
        check_size("go", self.size, 5, 19)
        if not np.isfinite(self.komi) or self.longest < 1:
            raise ArgumentError(
                f"go(komi={self.komi}, limit={self.limit}): needs a finite komi and limit >= 1"
            )

    @property
    def name(self) -> str:
        return "go"

    @property
    def actions(self) -> int:
        return self.size**2 + 1

    @property
    def longest(self) -> int:
        return 2 * self.size**2 if self.limit is None else self.limit

    @property
    def typical_moves(self) -> float:
        return 0.92 * self.size**2

    @property
    def board_shape(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        return self.size, self.size, 2 * _SEEN + 1

    def init(self) -> GoState:
        cells, zero = self.size**2, jnp.zeros((), jnp.int32)
        hashes = jnp.zeros((self.longest + 1, 2), jnp.uint32)
        return GoState(jnp.zeros(cells, jnp.int16), jnp.zeros((_SEEN, cells), jnp.int8), hashes, zero, zero)

    def advance(self, state: GoState, action: Int[Array, ""]) -> GoState:
        cells = self.size**2
        passed = action == cells
        cell = jnp.minimum(action, cells - 1)
        color = 1 - 2 * self.current_player(state)
        around = self._around(state.groups)[cell]  # of the four neighbours
        in_atari = self._liberties(state.groups)[jnp.abs(around)] == 1
        captured = (around * color < 0) & in_atari
        joined = around * color > 0
        gone = ((state.groups[:, None] == around[None]) & captured[None]).any(1)
        merged = ((state.groups[:, None] == around[None]) & joined[None]).any(1)
        merged = merged | (jnp.arange(cells) == cell)
        number = (color * (cell + 1)).astype(jnp.int16)
        groups = jnp.where(gone, 0, jnp.where(merged, number, state.groups)).astype(jnp.int16)
        groups = jnp.where(passed, state.groups, groups)
        stones = jnp.sign(groups).astype(jnp.int8)
        moves = state.moves + 1
        return GoState(
            groups,
            jnp.concatenate([stones[None], state.recent[:-1]]),
            state.hashes.at[moves].set(_hash(stones)),
            moves,
            jnp.where(passed, state.passes + 1, 0),
        )

    def legal_mask(self, state: GoState) -> Bool[Array, " actions"]:
        color = 1 - 2 * self.current_player(state)
        around = self._around(state.groups)
        liberties = self._liberties(state.groups)[jnp.abs(around)]
        own, other = around * color > 0, (around * color < 0) & (around != _WALL)
        captured = other & (liberties == 1)
        breathes = (around == 0) | (own & (liberties > 1) & (around != _WALL)) | captured
        free = (state.groups == 0) & breathes.any(1) & ~self._repeats(state, around, captured)
        return jnp.append(free, True) | self.terminated(state)

    def current_player(self, state: GoState) -> Int[Array, ""]:
        return state.moves % 2

    def terminated(self, state: GoState) -> Bool[Array, ""]:
        return (state.passes >= 2) | (state.moves >= self.longest)

    def rewards(self, state: GoState) -> Float[Array, "2"]:
        over = self.terminated(state)
        return win_rewards(jnp.where(over, jnp.sign(self.score(state, only=over)), 0))

    def score(self, state: GoState, only: Bool[Array, ""] | bool = True) -> Float[Array, ""]:
        """Stones and surrounded cells of black less those of white, and less komi; undefined where `only` is false."""
        stones = state.recent[0].reshape(self.board_shape)
        # Nothing spreads where the score is not asked for: a batch of games waits for those that have ended alone.
        empty = (stones == 0) & jnp.asarray(only)
        black, white = _spread(stones == 1, empty), _spread(stones == -1, empty)
        return (black & ~white).sum() - (white & ~black).sum() - self.komi

    def observe(self, state: GoState, player: Int[Array, ""]) -> Float[Array, "height width planes"]:
        own = state.recent * (1 - 2 * player)
        # Positions from before the first move are empty boards.
        to_move = jnp.full((1, self.size**2), self.current_player(state) == 0)
        planes = jnp.concatenate([own == 1, own == -1, to_move])
        return planes.T.reshape(self.observation_shape).astype(jnp.float32)

    def symmetries(self) -> tuple[Symmetry, ...]:
        return square_symmetries(self.size, more=1)

    def move_name(self, action: int) -> str:
        return "pass" if action == self.size**2 else cell_name(action, self.board_shape)

    def stones(self, state: GoState) -> Int[AnyArray, "height width"]:
        return state.recent[0].reshape(self.board_shape)

    def _around(self, groups: Int[Array, " cells"]) -> Int[Array, "cells 4"]:
        """The groups of the four neighbours of each cell; beyond the edge, a number that no group has."""
        board = jnp.pad(groups.reshape(self.board_shape), 1, constant_values=_WALL)
        sides = board[:-2, 1:-1], board[2:, 1:-1], board[1:-1, :-2], board[1:-1, 2:]
        return jnp.stack(sides, -1).reshape(self.size**2, 4).astype(jnp.int32)

    def _liberties(self, groups: Int[Array, " cells"]) -> Int[Array, " numbers"]:
        """How many free cells each group touches, by its number; a free cell counts once for a group."""
        around = jnp.abs(self._around(groups))
        counted = (groups == 0)[:, None] & _first_of_equals(around)
        return jnp.zeros(_WALL + 1, jnp.int32).at[around].add(counted.astype(jnp.int32))

    def _repeats(
        self, state: GoState, around: Int[Array, "cells 4"], captured: Bool[Array, "cells 4"]
    ) -> Bool[Array, " cells"]:
        """Whether a stone on each cell would make a position that may not come again."""
        cells = self.size**2
        player = self.current_player(state)
        of_stones = jnp.where(
            (state.groups != 0)[:, None], _zobrist(jnp.sign(state.groups).astype(jnp.int32), cells), 0
        )
        of_groups = jnp.zeros((_WALL + 1, 2), jnp.uint32).at[jnp.abs(state.groups)].add(of_stones)
        taken = jnp.where((captured & _first_of_equals(around))[:, :, None], of_groups[jnp.abs(around)], 0)
        added = jnp.asarray(_ZOBRIST[:, :cells])[player]
        after = state.hashes[state.moves][None] + added - taken.sum(1, dtype=jnp.uint32)
        if not self.superko:
            before = state.hashes[state.moves - 1][None]
            return (after == before).all(1) & (state.moves > 0)
        # The empty board never comes again by a stone, so that zeros behind the history do no harm.
        return (after[:, None] == state.hashes[None]).all(2).any(1)


_WALL = 19 * 19 + 1


def _first_of_equals(around: Int[Array, "cells 4"]) -> Bool[Array, "cells 4"]:
    """Which of the four neighbours are the first of their group."""
    earlier = np.tril(np.ones((4, 4), bool), -1)
    return ~((around[:, :, None] == around[:, None]) & earlier[None]).any(2)


def _zobrist(stones: Int[Array, " cells"], cells: int) -> UInt32[Array, "cells 2"]:
    table = jnp.asarray(_ZOBRIST[:, :cells])
    return jnp.where((stones == 1)[:, None], table[0], table[1])


def _hash(stones: Int[Array, " cells"]) -> UInt32[Array, "2"]:
    numbers = _zobrist(stones.astype(jnp.int32), stones.size)
    return jnp.where((stones != 0)[:, None], numbers, 0).sum(0, dtype=jnp.uint32)


def _spread(
    stones: Bool[Array, "height width"], empty: Bool[Array, "height width"]
) -> Bool[Array, "height width"]:
    """The stones and all empty cells that a path of empty cells joins to them."""

    def grown(reached: Array) -> Array:
        padded = jnp.pad(reached, 1)
        near = padded[:-2, 1:-1] | padded[2:, 1:-1] | padded[1:-1, :-2] | padded[1:-1, 2:]
        return reached | (near & empty)

    def step(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        return carry[1], grown(carry[1])

    start = stones, grown(stones)
    return jax.lax.while_loop(lambda carry: (carry[0] != carry[1]).any(), step, start)[1]


GAME = Go
__all__ = ["GAME", "Go", "GoState"]
