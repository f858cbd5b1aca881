"""Matches between two ways of playing: all games at once, each side as often first as second."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents.arena.opponents import Opponent, RandomOpponent
from chainrule.agents.games.base import Game
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Tree


@final
class Match(NamedTuple):
    """Results of one side against another, and the games."""

    wins: int
    draws: int
    losses: int
    wins_first: int
    """Of the wins, those in which it moved first."""
    wins_second: int
    lengths: np.ndarray
    """Moves of each game; the first half are those in which it moved first."""
    actions: np.ndarray
    """By game and move; -1 behind its end."""

    @property
    def games(self) -> int:
        """How many were played."""
        return self.wins + self.draws + self.losses

    @property
    def points(self) -> float:
        """Wins, and half the draws."""
        return self.wins + self.draws / 2


def play_match(
    game: Game[Any], one: Opponent, other: Opponent, *, games: int, key: Key, opening: int = 0
) -> Match:
    """Games between two opponents, half of them with `one` to move first.

    Deterministic opponents play the same game over and over: `opening` says after how many random moves they take over,
    an even number; the same beginnings are played with both colours.
    """
    if games < 2 or games % 2:
        raise ArgumentError(
            f"play_match(games={games}): colours are balanced for an even number of games only"
        )
    if opening < 0 or opening % 2:
        raise ArgumentError(f"play_match(opening={opening}): must be an even number of moves")
    rewards, lengths, actions = jax.device_get(_played(game, one, other, games // 2, opening, key, _on_host))
    results = np.concatenate([rewards[: games // 2, 0], rewards[games // 2 :, 1]])
    won = results > 0
    return Match(
        int(won.sum()),
        int((results == 0).sum()),
        int((results < 0).sum()),
        int(won[: games // 2].sum()),
        int(won[games // 2 :].sum()),
        lengths,
        actions,
    )


def play_games(
    game: Game[Any], one: Opponent, other: Opponent, half: int, opening: int, key: Key
) -> tuple[Array, Array, Array]:
    """Rewards (games, 2), lengths and moves of `half` games that `one` begins and as many that `other` begins.

    This is the match as a pure function, for use inside of larger programs.
    """
    return _played(game, one, other, half, opening, key, jax.lax.while_loop)


class _Board(NamedTuple):
    """All games of a match, at one moment."""

    t: Array
    states: Tree
    lengths: Array
    actions: Array


_Repeat: TypeAlias = Callable[[Callable[[_Board], Array], Callable[[_Board], _Board], _Board], _Board]
"""From (whether it goes on, what is done over and over, the beginning) to the end, as `jax.lax.while_loop`."""


def _on_host(going: Callable[[_Board], Array], body: Callable[[_Board], _Board], board: _Board) -> _Board:
    """A loop in Python: sides are compiled one by one, not once for every pair that meets."""
    while going(board):
        board = body(board)
    return board


def _played(
    game: Game[Any], one: Opponent, other: Opponent, half: int, opening: int, key: Key, repeat: _Repeat
) -> tuple[Array, Array, Array]:
    key, opening_key = jax.random.split(key)
    board = _opened(game, half, opening, opening_key)

    def two(board: _Board) -> _Board:
        first_key, second_key = jax.random.split(jax.random.fold_in(key, board.t))
        return ply(ply(board, one, other, first_key), other, one, second_key)

    def ply(board: _Board, first: Opponent, second: Opponent, key: Key) -> _Board:
        """One move in all games; `first` moves in the half of the games that `one` began."""
        sides = zip((first, second), jax.random.split(key), _halves(board.states, half), strict=True)
        return _moved(game, board, jnp.concatenate([_chosen(*side) for side in sides]))

    end = repeat(lambda board: _going(game, board), two, board)
    return jax.vmap(game.rewards)(end.states), end.lengths, end.actions[: game.longest].T


@eqx.filter_jit
def _opened(game: Game[Any], half: int, opening: int, key: Key) -> _Board:
    """The games after their random beginnings, each of which both sides begin with."""
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (half, *x.shape)), game.init())
    blank = jnp.full((game.longest + 1, half), -1, jnp.int32)
    board = _Board(jnp.zeros((), jnp.int32), states, jnp.zeros(half, jnp.int32), blank)
    chance = RandomOpponent(game)
    for t in range(opening):
        board = _moved(game, board, chance.choose(jax.random.fold_in(key, t), board.states))
    states, lengths = jax.tree.map(lambda x: jnp.concatenate([x, x]), (board.states, board.lengths))
    return _Board(board.t, states, lengths, jnp.tile(board.actions, (1, 2)))


@eqx.filter_jit
def _halves(states: Tree, half: int) -> tuple[Tree, Tree]:
    first, second = (jax.tree.map(lambda x, of=of: x[of], states) for of in (slice(half), slice(half, None)))
    return first, second


@eqx.filter_jit
def _chosen(side: Opponent, key: Key, states: Tree) -> Array:
    return side.choose(key, states)


@eqx.filter_jit
def _moved(game: Game[Any], board: _Board, moves: Array) -> _Board:
    """All games that have not ended, a move later."""
    over = jax.vmap(game.terminated)(board.states)
    moves = jnp.where(over, -1, moves)
    states = jax.vmap(game.step)(board.states, jnp.maximum(moves, 0))
    return _Board(board.t + 1, states, board.lengths + ~over, board.actions.at[board.t].set(moves))


@eqx.filter_jit
def _going(game: Game[Any], board: _Board) -> Array:
    return ~jax.vmap(game.terminated)(board.states).all() & (board.t < game.longest)


def tournament(
    game: Game[Any], sides: Sequence[Opponent], *, games: int, key: Key, opening: int = 0
) -> dict[tuple[str, str], Match]:
    """Every side against every other, by their names."""
    names = [side.name for side in sides]
    if len(set(names)) < len(names):
        raise ArgumentError(f"tournament: names must differ: {', '.join(names)}")
    return {
        (one.name, other.name): play_match(
            game, one, other, games=games, key=jax.random.fold_in(key, i * len(sides) + j), opening=opening
        )
        for i, one in enumerate(sides)
        for j, other in enumerate(sides)
        if i < j
    }


__all__ = ["Match", "play_games", "play_match", "tournament"]
