"""Gating: a candidate takes the place of the best network when it beats it in a match (AlphaGo Zero).

Moves are searched without noise. Games begin with a few moves at random, so that they differ; every beginning is played
with both colours. A draw is half a point.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chainrule.agents.algorithms.alphazero.config import AlphaZeroConfig
from chainrule.agents.algorithms.alphazero.opponent import AlphaZeroOpponent
from chainrule.agents.arena.matches import play_games
from chainrule.agents.arena.opponents import Opponent
from chainrule.agents.games.base import Game
from chainrule.agents.policy_value.network import PolicyValueNetwork
from chainrule.agents.policy_value.training import restore
from chainrule.core.types import Array, Key, Scalar, Tree


class GateState(NamedTuple):
    """The best weights so far, and how often they were replaced."""

    best: Tree
    promotions: Array


class Shares(NamedTuple):
    """Shares of the games of a match, as the first of the two sees it."""

    won: Scalar
    drawn: Scalar
    lost: Scalar
    margin: Scalar
    """Won less lost, by counting: two equal shares that are subtracted may leave a rounding."""

    @property
    def points(self) -> Scalar:
        """Won games, and half of the drawn ones."""
        return self.won + self.drawn / 2


def begin_gate(weights: Tree) -> GateState:
    """The gate before any match."""
    return GateState(weights, jnp.zeros((), jnp.int32))


def meet(
    config: AlphaZeroConfig,
    game: Game[Any],
    like: PolicyValueNetwork,
    gate: GateState,
    candidate: Tree,
    key: Key,
) -> tuple[GateState, dict[str, Array]]:
    """A match of a candidate against the best, and the gate after it."""
    ours, theirs = (
        AlphaZeroOpponent(game, restore(like, weights), config) for weights in (candidate, gate.best)
    )
    score = shares(game, ours, theirs, config.gate_games, config.match_opening, key).points
    promoted = score >= config.gate_share
    best = jax.tree.map(lambda new, old: jnp.where(promoted, new, old), candidate, gate.best)
    after = GateState(best, gate.promotions + promoted)
    return after, {"gate_score": score, "promotions": after.promotions.astype(jnp.float32)}


def shares(game: Game[Any], one: Opponent, other: Opponent, games: int, opening: int, key: Key) -> Shares:
    """How a match goes for the first of the two, as a pure function; games are rounded up to an even number."""
    half = -(-games // 2)
    rewards = play_games(game, one, other, half, opening, key)[0]
    mine = jnp.concatenate([rewards[:half, 0], rewards[half:, 1]])
    return Shares((mine > 0).mean(), (mine == 0).mean(), (mine < 0).mean(), jnp.sign(mine).mean())


__all__ = ["GateState", "Shares", "begin_gate", "meet", "shares"]
