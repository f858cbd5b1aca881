"""Positions of stored games: moves are replayed through the rules, many games at once, in compiled programs.

A game is kept as what it was: its moves. Every position is seen by who is to move, with the move that was made and the
outcome for that one. Planes of boards are zeros and ones and are kept as bits, so that 150,000 positions of Go take a
tenth of a gigabyte.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents.games.base import Game
from chainrule.agents.policy_value.training import Examples
from chainrule.core.errors import ArgumentError, DataError
from chainrule.core.types import Array, Float, Int

_CHUNK_BYTES = 1 << 24
"""What the bits of the games that are replayed at a time may take: more would not fit into caches."""


Bad: TypeAlias = Literal["refuse", "skip"]
"""What becomes of games that cannot be used."""


class GameMoves(NamedTuple):
    """A stored game."""

    name: str
    """To be named in errors."""
    moves: Sequence[int]
    outcome: float | None = None
    """1 won by who moved first, -1 lost, 0 drawn, None where nobody knows; not needed where the rules say it."""


class StoredPositions(NamedTuple):
    """Positions, each of one row."""

    bits: Int[Array, "positions bytes"]
    """Planes, eight entries in a byte."""
    action: Int[Array, " positions"]
    outcome: Float[Array, " positions"]
    """For who is to move; 0 where it is not known."""
    known: Float[Array, " positions"]
    game: Int[Array, " positions"]
    """Which game it is from."""

    def __len__(self) -> int:
        return self.action.shape[0]


def replayed(game: Game[Any], records: Sequence[GameMoves], bad: Bad = "refuse") -> StoredPositions:
    """All positions of stored games; a game with a move that the rules do not allow is refused, or left out."""
    if not records:
        raise ArgumentError("there are no games to replay")
    longest = max(len(record.moves) for record in records)
    if not longest:
        raise DataError("none of the games has a move")
    actions = np.zeros((len(records), longest), np.int32)
    played = np.zeros((len(records), longest), bool)
    for row, record in enumerate(records):
        actions[row, : len(record.moves)] = record.moves
        played[row, : len(record.moves)] = True
    _check_range(game, records, actions)
    each = longest * -(-math.prod(game.observation_shape) // 8)
    at_a_time = max(1, min(len(records), _CHUNK_BYTES // each))
    parts, problems = [], []
    for start in range(0, len(records), at_a_time):
        # The last chunk is filled up with its last game, so that one program serves all.
        chosen = np.minimum(np.arange(start, start + at_a_time), len(records) - 1)
        real = np.arange(at_a_time) < len(records) - start
        found = _replay(game, jnp.asarray(actions[chosen]), jnp.asarray(played[chosen]))
        found = jax.tree.map(np.asarray, found)
        if not found.binary[played[chosen]].all():
            raise DataError(f"planes of {game.name} are not zeros and ones: they cannot be kept as bits")
        illegal = played[chosen] & ~found.legal & real[:, None]
        problems += [
            _problem(game, records[chosen[row]], int(illegal[row].argmax())) for row in _any(illegal)
        ]
        kept = played[chosen] & (real & ~illegal.any(1))[:, None]
        parts.append(_collected(found, [records[row] for row in chosen], actions[chosen], chosen, kept))
    if problems and (bad == "refuse" or len(problems) == len(records)):
        raise DataError(
            f"{len(problems)} of {len(records)} games break the rules; first: {problems[0]}",
            remedy="leave them out: bad=skip"
            if len(problems) < len(records)
            else "are these games of this board?",
        )
    return StoredPositions(*(jnp.asarray(np.concatenate(column)) for column in zip(*parts, strict=True)))


def examples_of(positions: StoredPositions, rows: Int[Array, " batch"], game: Game[Any]) -> Examples:
    """Some positions as a network is trained on them: the move that was made has all of the probability."""
    shape = game.observation_shape
    size = math.prod(shape)
    planes = jnp.unpackbits(positions.bits[rows], axis=1, count=size)
    return Examples(
        planes.reshape(len(rows), *shape).astype(jnp.float32),
        jax.nn.one_hot(positions.action[rows], game.actions),
        positions.outcome[rows],
        positions.known[rows],
    )


class _Replay(NamedTuple):
    bits: Array
    player: Array
    legal: Array
    binary: Array
    ended: Array
    outcome: Array


@eqx.filter_jit
def _replay(game: Game[Any], actions: Array, played: Array) -> _Replay:
    """Games move by move: arrays of (games, moves, ...), and whether and how the rules ended each game."""

    def one(actions: Array, played: Array) -> _Replay:
        def move(state: Any, step: tuple[Array, Array]) -> tuple[Any, tuple[Array, Array, Array, Array]]:
            action, real = step
            player = game.current_player(state)
            planes = game.observe(state, player)
            legal = game.legal_mask(state)[action] & ~game.terminated(state)
            binary = ((planes == 0) | (planes == 1)).all()
            after = game.step(state, action)
            state = jax.tree.map(lambda new, old: jnp.where(real & legal, new, old), after, state)
            return state, (jnp.packbits(planes.reshape(-1) != 0), player, legal, binary)

        end, (bits, player, legal, binary) = jax.lax.scan(move, game.init(), (actions, played))
        return _Replay(bits, player, legal, binary, game.terminated(end), game.rewards(end)[0])

    return jax.vmap(one)(actions, played)


def _collected(
    found: _Replay, records: Sequence[GameMoves], actions: np.ndarray, numbers: np.ndarray, kept: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Columns of the positions that are kept."""
    stated = np.array([np.nan if record.outcome is None else record.outcome for record in records])
    # What the record says comes first: games are given up long before the rules end them.
    outcome = np.where(np.isnan(stated) & found.ended, found.outcome, stated)[:, None]
    known = np.broadcast_to(~np.isnan(outcome), kept.shape)
    seen = np.nan_to_num(outcome) * (1 - 2 * np.asarray(found.player))
    return (
        np.asarray(found.bits)[kept],
        actions[kept],
        seen[kept].astype(np.float32),
        known[kept].astype(np.float32),
        np.repeat(numbers, kept.sum(1)).astype(np.int32),
    )


def _any(illegal: np.ndarray) -> np.ndarray:
    return np.flatnonzero(illegal.any(1))


def _problem(game: Game[Any], record: GameMoves, at: int) -> str:
    return f"{record.name} (move {at + 1}, {game.move_name(int(record.moves[at]))}, is not legal)"


def _check_range(game: Game[Any], records: Sequence[GameMoves], actions: np.ndarray) -> None:
    rows, at = np.nonzero((actions < 0) | (actions >= game.actions))
    if len(rows):
        raise DataError(
            f"{records[rows[0]].name}: move {at[0] + 1} is number {actions[rows[0], at[0]]}, and {game.name} has "
            f"actions 0 to {game.actions - 1}",
            remedy="are these games of another board?",
        )


__all__ = ["Bad", "GameMoves", "StoredPositions", "examples_of", "replayed"]
