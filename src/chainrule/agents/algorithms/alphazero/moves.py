"""How AlphaZero finds its moves: a search guided by a network, with or without noise."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.agents.algorithms.alphazero.config import GUMBEL_UP_TO, AlphaZeroConfig
from chainrule.agents.games.base import Game
from chainrule.agents.policy_value.network import PolicyValueNetwork
from chainrule.agents.tree_search.fast import EvaluateBatch, search_batch, search_gumbel
from chainrule.agents.tree_search.prior import Noise
from chainrule.core.types import Array, Float, Int, Key, Tree


class SearchedMoves(NamedTuple):
    """What searches found, one row for each position."""

    action: Int[Array, " batch"]
    policy: Float[Array, "batch actions"]
    """What the network is to learn: shares of visits, or the improved policy of Gumbel's search."""
    value: Float[Array, " batch"]


Find: TypeAlias = Callable[[Key, EvaluateBatch, Tree, Bool[Array, " batch"]], SearchedMoves]
"""From (key, what is thought of positions, states, where the move is to be drawn) to what was found."""


def by_gumbel(config: AlphaZeroConfig) -> bool:
    """Whether moves are searched by Gumbel's way."""
    return config.search == "gumbel" or (config.search == "auto" and config.simulations <= GUMBEL_UP_TO)


def finder(config: AlphaZeroConfig, game: Game[Any], *, noisy: bool) -> Find:
    """The search of these settings: with the noise of self-play, or without, as in matches."""
    return _gumbel(config, game, noisy) if by_gumbel(config) else _puct(config, game, noisy)


def evaluator(game: Game[Any], network: PolicyValueNetwork) -> EvaluateBatch:
    """What a network thinks of states: probabilities of the moves, legal or not, and values for who is to move."""

    def evaluate(states: Tree) -> tuple[Array, Array]:
        planes = jax.vmap(lambda state: game.observe(state, game.current_player(state)))(states)
        logits, value = network(planes)
        # Only legal moves compete: all of the probability might lie elsewhere before much has been learnt.
        logits = jnp.where(jax.vmap(game.legal_mask)(states), logits, -jnp.inf)
        return jax.nn.softmax(logits), value

    return evaluate


def _gumbel(config: AlphaZeroConfig, game: Game[Any], noisy: bool) -> Find:
    def find(key: Key, evaluate: EvaluateBatch, states: Tree, drawn: Array) -> SearchedMoves:
        result = search_gumbel(
            game,
            states,
            evaluate,
            simulations=config.simulations,
            key=key,
            gumbel_scale=1.0 if noisy else 0.0,
        )
        # With noise the search has drawn its move; where it is to be the best one, the improved policy tells.
        best = jnp.argmax(result.policy, -1).astype(jnp.int32) if noisy else result.action
        return SearchedMoves(jnp.where(drawn, result.action, best), result.policy, result.value)

    return find


def _puct(config: AlphaZeroConfig, game: Game[Any], noisy: bool) -> Find:
    published = Noise.for_game(game)
    noise = Noise(config.concentration or published.concentration, config.noise)

    def find(key: Key, evaluate: EvaluateBatch, states: Tree, drawn: Array) -> SearchedMoves:
        result = search_batch(
            game,
            states,
            evaluate,
            simulations=config.simulations,
            c=config.exploration,
            temperature=drawn.astype(jnp.float32)[:, None],
            noise=noise if noisy else None,
            key=key,
        )
        visits = result.visits.astype(jnp.float32)
        return SearchedMoves(result.action, visits / visits.sum(-1, keepdims=True), result.value)

    return find


__all__ = ["Find", "SearchedMoves", "by_gumbel", "evaluator", "finder"]
