"""Matches between two ways of playing: all games at once, each side as often first as second."""

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents.arena.opponents import Opponent, RandomOpponent
from chainrule.agents.games.base import Game
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key


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
    rewards, lengths, actions = jax.device_get(play_games(game, one, other, games // 2, opening, key))
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


@eqx.filter_jit
def play_games(
    game: Game[Any], one: Opponent, other: Opponent, half: int, opening: int, key: Key
) -> tuple[Array, Array, Array]:
    """Rewards (games, 2), lengths and moves of `half` games that `one` begins and as many that `other` begins.

    This is the match as a pure function, for use inside of larger programs.
    """
    begin = jax.tree.map(lambda x: jnp.broadcast_to(x, (half, *x.shape)), game.init())
    chance = RandomOpponent(game)
    key, opening_key = jax.random.split(key)
    blank = jnp.full((game.longest + 1, 2 * half), -1, jnp.int32)

    def ply(carry: Any, first: Opponent, second: Opponent, key: Key) -> Any:
        """One move in all games; `first` moves in the half of the games that `one` began."""
        t, states, lengths, actions = carry
        over = jax.vmap(game.terminated)(states)
        keys = jax.random.split(key)
        chosen = [
            each.choose(each_key, jax.tree.map(lambda x, side=side: x[side], states))
            for each, each_key, side in zip(
                (first, second), keys, (slice(half), slice(half, None)), strict=True
            )
        ]
        moves = jnp.where(over, -1, jnp.concatenate(chosen))
        states = jax.vmap(game.step)(states, jnp.maximum(moves, 0))
        return t + 1, states, lengths + ~over, actions.at[t].set(moves)

    def two(carry: Any) -> Any:
        t, key = carry[0][0], carry[1]
        first_key, second_key = jax.random.split(jax.random.fold_in(key, t))
        after = ply(ply(carry[0], one, other, first_key), other, one, second_key)
        return after, key

    def going(carry: Any) -> Array:
        return ~jax.vmap(game.terminated)(carry[0][1]).all() & (carry[0][0] < game.longest)

    def begun(t: int, states: Any) -> tuple[Any, Array]:
        moves = chance.choose(jax.random.fold_in(opening_key, t), states)
        over = jax.vmap(game.terminated)(states)
        return jax.vmap(game.step)(states, moves), jnp.where(over, -1, moves)

    for t in range(opening):
        begin, moves = begun(t, begin)
        blank = blank.at[t].set(jnp.tile(moves, 2))
    states = jax.tree.map(lambda x: jnp.concatenate([x, x]), begin)
    lengths = (blank >= 0).sum(0)
    start = (jnp.full((), opening, jnp.int32), states, lengths, blank)
    (_, ends, lengths, actions), _ = jax.lax.while_loop(going, two, (start, key))
    return jax.vmap(game.rewards)(ends), lengths, actions[: game.longest].T


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
