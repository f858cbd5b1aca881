"""Opponents of known strength: random, greedy, minimax, search without a network, and any function of states.

Each chooses for a batch of positions at once, as a pure function, so that whole matches are one compiled program.
"""

import abc
from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.agents.games.base import Game
from chainrule.agents.tree_search.fast import EvaluateBatch, search_batch
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key

_SOONER = 0.99
"""What a result is worth a move later: wins are taken at once, and losses put off."""
_MOST_LEAVES = 2_000_000
_DEEPEST = 20
"""Deeper trees have more leaves than that even where every position has two moves only."""


class Opponent(eqx.Module):
    """A way of playing a game."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """In tables."""

    @abc.abstractmethod
    def choose(self, key: Key, states: Any) -> Int[Array, " batch"]:
        """A legal action for each of a batch of states; anything where a game has ended."""


@final
class RandomOpponent(Opponent):
    """Any legal move, all equally likely: what ratings are measured from."""

    game: Game[Any]

    @property
    def name(self) -> str:
        return "random"

    def choose(self, key: Key, states: Any) -> Int[Array, " batch"]:
        return _any_of(key, jax.vmap(self.game.legal_mask)(states))


@final
class MinimaxOpponent(Opponent):
    """All moves to a depth, by negamax; beyond it a position is worth nothing, or what `evaluate` says.

    The tree is looked at level by level and whole, because vectorised steps of small games cost less than the branches
    that pruning would save. Of equally good moves, any.
    """

    game: Game[Any]
    depth: int = eqx.field(static=True)
    evaluate: EvaluateBatch | None = None

    def __check_init__(self) -> None:
        # Powers of larger depths are numbers of any length.
        leaves = self.game.actions ** min(self.depth, _DEEPEST + 1)
        if self.depth < 1 or leaves > _MOST_LEAVES:
            deepest = max(d for d in range(1, _DEEPEST + 1) if d == 1 or self.game.actions**d <= _MOST_LEAVES)
            raise ArgumentError(
                f"minimax(depth={self.depth}): needs depth >= 1 and at most {_MOST_LEAVES} positions",
                remedy=f"a depth of 1 to {deepest} serves {self.game.name}",
            )

    @property
    def name(self) -> str:
        return "greedy" if self.depth == 1 else f"minimax-{self.depth}"

    def choose(self, key: Key, states: Any) -> Int[Array, " batch"]:
        # One position at a time: the trees of a whole batch would not fit into memory.
        values = jax.lax.map(lambda state: self._of_moves(state, self.depth), states)
        values = jnp.where(jax.vmap(self.game.legal_mask)(states), values, -jnp.inf)
        return _any_of(key, values >= values.max(-1, keepdims=True) - 1e-6)

    def _of_moves(self, state: Any, depth: int) -> Float[Array, " actions"]:
        """Values of all actions for who is to move, legal or not."""
        mover = self.game.current_player(state)
        after = jax.vmap(lambda action: self.game.step(state, action))(jnp.arange(self.game.actions))
        values = jax.vmap(lambda child: self._of_state(child, depth - 1))(after)
        turned = jnp.where(jax.vmap(self.game.current_player)(after) == mover, 1.0, -1.0)
        return _SOONER * turned * values

    def _of_state(self, state: Any, depth: int) -> Float[Array, ""]:
        """Value for who is to move."""
        over = self.game.terminated(state)
        if depth:
            moves = jnp.where(self.game.legal_mask(state), self._of_moves(state, depth), -jnp.inf)
            value = moves.max()
        elif self.evaluate is not None:
            value = self.evaluate(jax.tree.map(lambda x: x[None], state))[1][0]
        else:
            value = jnp.zeros(())
        result = self.game.rewards(state)[self.game.current_player(state)]
        return jnp.where(over, result, value)


@final
class SearchOpponent(Opponent):
    """Tree search; without an evaluation of its own it plays out every new position at random."""

    game: Game[Any]
    simulations: int = eqx.field(static=True)
    evaluate: EvaluateBatch | None = None
    c: float = 1.0
    temperature: float = 0.0
    title: str = eqx.field(default="search", static=True)

    @property
    def name(self) -> str:
        return f"{self.title}-{self.simulations}"

    def choose(self, key: Key, states: Any) -> Int[Array, " batch"]:
        evaluate = playouts(self.game) if self.evaluate is None else self.evaluate
        found = search_batch(
            self.game,
            states,
            evaluate,
            simulations=self.simulations,
            c=self.c,
            temperature=self.temperature,
            key=key,
        )
        return found.action


@final
class FunctionOpponent(Opponent):
    """Any function of a key and a batch of states."""

    function: Callable[[Key, Any], Array]
    title: str = eqx.field(static=True)

    @property
    def name(self) -> str:
        return self.title

    def choose(self, key: Key, states: Any) -> Int[Array, " batch"]:
        return self.function(key, states).astype(jnp.int32)


def greedy(game: Game[Any]) -> MinimaxOpponent:
    """Wins where one move wins; else any move."""
    return MinimaxOpponent(game, 1)


def uninformed(game: Game[Any]) -> EvaluateBatch:
    """An evaluation without knowledge that costs nothing: all moves alike, and no result expected."""

    def evaluate(states: Any) -> tuple[Array, Array]:
        count = jax.tree.leaves(states)[0].shape[0]
        return jnp.ones((count, game.actions)) / game.actions, jnp.zeros(count)

    return evaluate


def playouts(game: Game[Any]) -> EvaluateBatch:
    """An evaluation without knowledge: all moves alike, and the result of one random game from the position.

    The game is drawn from the position itself, so that the same position always has the same value.
    """

    def evaluate(states: Any) -> tuple[Array, Array]:
        legal = jax.vmap(game.legal_mask)(states)
        player = jax.vmap(game.current_player)(states)
        keys = jax.vmap(_key_of)(states)

        def step(carry: tuple[Any, Any]) -> tuple[Any, Any]:
            states, keys = carry
            keys, now = jnp.unstack(jax.vmap(jax.random.split)(keys), axis=1)
            actions = jax.vmap(_any_of)(now, jax.vmap(game.legal_mask)(states))
            return jax.vmap(game.step)(states, actions), keys

        def going(carry: tuple[Any, Any]) -> Array:
            return ~jax.vmap(game.terminated)(carry[0]).all()

        ends, _ = jax.lax.while_loop(going, step, (states, keys))
        results = jnp.take_along_axis(jax.vmap(game.rewards)(ends), player[:, None], 1)[:, 0]
        return legal.astype(jnp.float32), results

    return evaluate


def _key_of(state: Any) -> Key:
    """A key made of the numbers of a state."""
    total = jnp.zeros((), jnp.uint32)
    for i, leaf in enumerate(jax.tree.leaves(state)):
        numbers = leaf.reshape(-1).astype(jnp.int32).astype(jnp.uint32)
        weights = (jnp.arange(numbers.size, dtype=jnp.uint32) * 2 + 1) * jnp.uint32(2654435761 + 2 * i)
        total = total + (numbers * weights).sum(dtype=jnp.uint32)
    return jax.random.key(total)


def _any_of(key: Key, allowed: Array) -> Int[Array, " *batch"]:
    """One of those that are allowed, all equally likely."""
    return jax.random.categorical(key, jnp.where(allowed, 0.0, -jnp.inf)).astype(jnp.int32)


__all__ = [
    "FunctionOpponent",
    "MinimaxOpponent",
    "Opponent",
    "RandomOpponent",
    "SearchOpponent",
    "greedy",
    "playouts",
    "uninformed",
]
