"""Self-play: many games side by side, one move of each at a time; a game that ends makes room for the next.

A network that plays well meets good moves only and forgets what to do about others. So games may begin with a few moves
at random, a different number in each. What the search says of those positions is learnt as well; how the game ended is
not, because a move that nobody chose came in between.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.agents.algorithms.alphazero.config import AlphaZeroConfig
from chainrule.agents.algorithms.alphazero.moves import SearchedMoves, evaluator, finder
from chainrule.agents.algorithms.alphazero.window import PlayedMoves
from chainrule.agents.games.base import Game
from chainrule.agents.policy_value.network import PolicyValueNetwork
from chainrule.core.types import Array, Int, Key, Tree

PLAYED_ON = 0.1
"""Share of games that are never given up, to see how often giving up would have been wrong."""


class Games(NamedTuple):
    """Games that are being played, side by side."""

    state: Tree
    moves: Int[Array, " games"]
    """How many moves each has had."""
    opening: Int[Array, " games"]
    """How many moves at its beginning are at random."""
    played_on: Bool[Array, " games"]
    """Never given up."""
    would_resign: Int[Array, " games"]
    """Who would have given up first, had the game not been played on; -1 for nobody."""


class GameSums(NamedTuple):
    """Sums over the games that ended."""

    games: Array
    moves: Array
    first: Array
    drawn: Array
    truncated: Array
    hopeless: Array
    """Games played on in which somebody would have given up,"""
    recovered: Array
    """and in which that one did not lose after all."""
    entropy: Array
    """Of the probabilities that the search gave, summed over moves."""


def begin_games(key: Key, game: Game[Any], config: AlphaZeroConfig) -> Games:
    """As many games as are played side by side, at their beginning."""
    count = config.games
    opening_key, key = jax.random.split(key)
    state = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *jnp.shape(leaf))), game.init())
    none = jnp.zeros(count, jnp.int32)
    opening = jax.random.randint(opening_key, (count,), 0, config.opening + 1)
    return Games(state, none, opening, jax.random.uniform(key, (count,)) < PLAYED_ON, none - 1)


def play(
    config: AlphaZeroConfig,
    game: Game[Any],
    resign: Array | float,
    network: PolicyValueNetwork,
    games: Games,
    key: Key,
) -> tuple[Games, PlayedMoves, GameSums]:
    """A number of moves of every game, with what was found at each, and sums over the games that ended."""
    find, evaluate = finder(config, game, noisy=True), evaluator(game, network)

    def move(games: Games, key: Key) -> tuple[Games, tuple[PlayedMoves, GameSums]]:
        search_key, fresh_key = jax.random.split(key)
        found = find(search_key, evaluate, games.state, games.moves < config.exploring)
        return advance_games(config, game, resign, games, found, fresh_key)

    after, (moves, sums) = jax.lax.scan(move, games, jax.random.split(key, config.moves))
    return after, moves, jax.tree.map(lambda leaf: leaf.sum(0), sums)


def advance_games(
    config: AlphaZeroConfig,
    game: Game[Any],
    resign: Array | float,
    games: Games,
    found: SearchedMoves,
    key: Key,
) -> tuple[Games, tuple[PlayedMoves, GameSums]]:
    """Every game after the move that was found, and the next game where one ended with it."""
    random_key, fresh_key = jax.random.split(key)
    player = jax.vmap(game.current_player)(games.state)
    at_random = games.moves < games.opening
    legal = jax.vmap(game.legal_mask)(games.state)
    any_move = jax.random.categorical(random_key, jnp.where(legal, 0.0, -jnp.inf)).astype(jnp.int32)
    after = jax.vmap(game.step)(games.state, jnp.where(at_random, any_move, found.action))
    hopeless = (jnp.asarray(resign) > 0) & (found.value < -jnp.asarray(resign))
    resigned = hopeless & ~games.played_on & ~at_random
    would_resign = jnp.where(hopeless & (games.would_resign < 0), player, games.would_resign)
    ended = resigned | jax.vmap(game.terminated)(after)
    outcome = jax.vmap(game.rewards)(after)[:, 0]
    outcome = jnp.where(resigned, jnp.where(player == 0, -1.0, 1.0), outcome)
    count = games.moves + 1
    truncated = ~ended & (count >= config.limit) if config.limit else jnp.zeros_like(ended)
    planes = jax.vmap(game.observe)(games.state, player)
    record = PlayedMoves(planes, found.policy, player, ended & ~at_random, truncated | at_random, outcome)

    over = ended | truncated
    fresh = begin_games(fresh_key, game, config)
    gone_on = Games(after, count, games.opening, games.played_on, would_resign)
    next_games = jax.tree.map(
        lambda new, old: jnp.where(over.reshape(-1, *(1,) * (old.ndim - 1)), new, old), fresh, gone_on
    )
    control = ended & games.played_on & (would_resign >= 0)
    its_outcome = jnp.where(would_resign == 0, outcome, -outcome)
    p = found.policy
    sums = GameSums(
        games=over.sum(),
        moves=(over * count).sum(),
        first=(ended & (outcome > 0)).sum(),
        drawn=(ended & (outcome == 0)).sum(),
        truncated=truncated.sum(),
        hopeless=control.sum(),
        recovered=(control & (its_outcome >= 0)).sum(),
        entropy=-(p * jnp.log(jnp.maximum(p, 1e-30))).sum(),
    )
    return next_games, (record, sums)


__all__ = ["GameSums", "Games", "advance_games", "begin_games", "play"]
