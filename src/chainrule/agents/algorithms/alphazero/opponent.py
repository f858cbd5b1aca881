"""A trained network as an opponent in matches: it searches without noise and plays the best move."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.agents.algorithms.alphazero.config import AlphaZeroConfig
from chainrule.agents.algorithms.alphazero.moves import evaluator, finder
from chainrule.agents.arena.opponents import Opponent
from chainrule.agents.games.base import Game
from chainrule.agents.policy_value.network import PolicyValueNetwork
from chainrule.core.types import Array, Int, Key


@final
class AlphaZeroOpponent(Opponent):
    """Moves by a search that a network guides."""

    game: Game[Any]
    network: PolicyValueNetwork
    config: AlphaZeroConfig = eqx.field(static=True)

    @property
    def name(self) -> str:
        return f"alphazero-{self.config.simulations}"

    def choose(self, key: Key, states: Any) -> Int[Array, " batch"]:
        find = finder(self.config, self.game, noisy=False)
        none_drawn = jnp.zeros(len(jax.tree.leaves(states)[0]), bool)
        return find(key, evaluator(self.game, self.network), states, none_drawn).action


__all__ = ["AlphaZeroOpponent"]
