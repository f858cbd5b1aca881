"""Games to learn from where nobody has any: played by a tree search without a network."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents.arena.opponents import uninformed
from chainrule.agents.games.base import Game
from chainrule.agents.records.positions import GameMoves
from chainrule.agents.tree_search.fast import search_batch
from chainrule.core.types import Array, Key


def searched_games(game: Game[Any], key: Key, *, games: int, simulations: int, drawn: int) -> list[GameMoves]:
    """Games of a search against itself; the first `drawn` moves are drawn from its visits, so that games differ."""
    actions, played = (np.asarray(each) for each in _play(game, key, games, simulations, drawn))
    return [
        GameMoves(f"game {number + 1}", [int(a) for a in row[:length]])
        for number, (row, length) in enumerate(zip(actions, played.sum(1), strict=True))
    ]


@eqx.filter_jit
def _play(game: Game[Any], key: Key, games: int, simulations: int, drawn: int) -> tuple[Array, Array]:
    """Moves (games, moves), and which of them were made before the end."""

    def move(states: Any, step: tuple[Array, Array]) -> tuple[Any, tuple[Array, Array]]:
        number, key = step
        going_on = ~jax.vmap(game.terminated)(states)
        temperature = jnp.where(number < drawn, 1.0, 0.0)
        found = search_batch(
            game, states, uninformed(game), simulations=simulations, temperature=temperature, key=key
        )
        return jax.vmap(game.step)(states, found.action), (found.action, going_on)

    start = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (games, *jnp.shape(leaf))), game.init())
    steps = jnp.arange(game.longest), jax.random.split(key, game.longest)
    _, (actions, played) = jax.lax.scan(move, start, steps)
    return actions.T, played.T


__all__ = ["searched_games"]
