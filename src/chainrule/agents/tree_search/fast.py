"""Compiled tree search of many positions at once, for games and for environments.

`search_batch` is the search of `reference`, visit for visit. `search_gumbel` needs fewer simulations: it tries a few
moves drawn without replacement, halves them as it goes, and returns a policy that is no worse than the prior at any
number of simulations (Danihelka et al., "Policy improvement by planning with Gumbel", 2022). `search_environment` looks
ahead in an environment of one agent. All are pure functions for use inside `jax.jit` and `jax.lax.scan`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, final

import jax
import jax.numpy as jnp

from chainrule.agents.envs.base import Environment
from chainrule.agents.games.base import Game
from chainrule.agents.tree_search import selection
from chainrule.agents.tree_search.engine import Advance, Expansion, Trees, grow, plant, statistics
from chainrule.agents.tree_search.prior import Noise, check_noise, legal_prior, visit_policy, with_noise
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key, Tree

EvaluateBatch: TypeAlias = Callable[[Any], tuple[Array, Array]]
"""From a batch of states to priors (batch, actions) and values (batch,) for who is to move."""


@final
class BatchResult(NamedTuple):
    """What searches found out, one row for each position."""

    visits: Int[Array, "batch actions"]
    policy: Float[Array, "batch actions"]
    """Probability of playing each move; what a network is trained to say."""
    value: Float[Array, " batch"]
    """For who is to move: the mean of all simulations."""
    q: Float[Array, "batch actions"]
    action: Int[Array, " batch"]
    """Drawn from the policy where there was a key, else its first maximum."""
    trees: Trees


def search_batch(
    game: Game[Any],
    states: Any,
    evaluate: EvaluateBatch,
    *,
    simulations: int,
    c: float = 1.0,
    temperature: Float[Array, "..."] | float = 1.0,
    noise: Noise | None = None,
    key: Key | None = None,
    trees: Trees | None = None,
) -> BatchResult:
    """Search of a batch of positions that have not ended; `trees` are those of `reuse.reroot`, to go on with.

    `evaluate` gives priors and values of a batch of states. `temperature` is one number, or a column of numbers.
    """
    _check(simulations, c)
    check_noise(noise, key)
    grow_key, noise_key, move_key = jax.random.split(jax.random.key(0) if key is None else key, 3)
    advance = advance_game(game, evaluate)
    root = _game_root(game, states, evaluate)
    if noise is not None:
        root = root._replace(prior=with_noise(noise_key, root.prior, root.prior > 0, noise))
    select = selection.puct(c)
    trees = _begin(root, trees, simulations)
    trees = grow(grow_key, trees, advance, select, select, simulations, _depth(game, trees))
    return _result(trees, temperature, None if key is None else move_key)


def search_gumbel(
    game: Game[Any],
    states: Any,
    evaluate: EvaluateBatch,
    *,
    simulations: int,
    key: Key,
    considered: int = 16,
    gumbel_scale: Float[Array, ""] | float = 1.0,
) -> BatchResult:
    """Search with Gumbel noise and sequential halving at the root, for few simulations.

    `considered` moves are looked at at most; with `gumbel_scale=0` the search is deterministic, as in matches.
    """
    _check(simulations, 0.0)
    if considered < 1:
        raise ArgumentError(f"search_gumbel(considered={considered}): at least one move must be looked at")
    root = _game_root(game, states, evaluate)
    gumbel_key, grow_key = jax.random.split(key)
    gumbel = gumbel_scale * jax.random.gumbel(gumbel_key, root.prior.shape)
    trees = plant(root, simulations + 1)
    halving = selection.halving(gumbel, min(considered, game.actions), simulations)
    advance = advance_game(game, evaluate)
    trees = grow(grow_key, trees, advance, halving, selection.improved, simulations, _depth(game, trees))
    known = statistics(trees, jnp.zeros_like(trees.size))
    policy = jax.nn.softmax(selection.improved_logits(known), axis=-1)
    action = selection.halving_best(known, gumbel, known.visits.max(-1))
    value = known.totals.sum(-1) / known.visits.sum(-1)
    return BatchResult(known.visits, policy, value, known.q, action, trees)


def search_environment(
    env: Environment[Any],
    states: Any,
    evaluate: EvaluateBatch,
    *,
    simulations: int,
    key: Key,
    gamma: Float[Array, ""] | float = 0.99,
    c: float = 1.25,
    depth: int = 32,
    temperature: Float[Array, ""] | float = 1.0,
    params: Tree = None,
) -> BatchResult:
    """Search ahead in an environment of one agent, with a learned prior and value of its observations' states.

    `evaluate` maps a batch of *states* to priors and values, as for games. Rewards count with `gamma`; values of moves
    are rescaled by node, because rewards may have any size. In an environment of chance, a node is one draw of it.
    """
    _check(simulations, c)
    if depth < 1:
        raise ArgumentError(f"search_environment(depth={depth}): needs at least one step")

    def advance(key: Key, states: Any, actions: Array) -> Expansion:
        keys = jax.random.split(key, actions.size)
        after = jax.vmap(lambda key, state, action: env.step(key, state, action, params))(
            keys, states, actions
        )
        prior, value = evaluate(after.state)
        discount = jnp.where(after.terminated, 0.0, gamma)
        over = after.terminated | after.truncated
        return Expansion(after.state, after.reward, discount, over, legal_prior(prior, prior > 0), value)

    prior, value = evaluate(states)
    still = jnp.zeros_like(value)
    root = Expansion(states, still, still, still.astype(bool), legal_prior(prior, prior > 0), value)
    select = selection.puct(c, rescaled=True)
    grow_key, move_key = jax.random.split(key)
    trees = grow(grow_key, plant(root, simulations + 1), advance, select, select, simulations, depth)
    return _result(trees, temperature, move_key)


def advance_game(game: Game[Any], evaluate: EvaluateBatch) -> Advance:
    """What follows a move of a game: a reward for who moved, the rest through the eyes of who is next."""

    def advance(key: Key, states: Any, actions: Array) -> Expansion:
        del key
        mover = jax.vmap(game.current_player)(states)
        after = jax.vmap(game.step)(states, actions)
        found = _game_root(game, after, evaluate)
        reward = jnp.take_along_axis(jax.vmap(game.rewards)(after), mover[:, None], 1)[:, 0]
        turned = jnp.where(jax.vmap(game.current_player)(after) == mover, 1.0, -1.0)
        return found._replace(reward=reward, discount=jnp.where(found.over, 0.0, turned))

    return advance


def _game_root(game: Game[Any], states: Any, evaluate: EvaluateBatch) -> Expansion:
    prior, value = evaluate(states)
    over = jax.vmap(game.terminated)(states)
    still = jnp.zeros_like(value)
    prior = legal_prior(prior, jax.vmap(game.legal_mask)(states))
    return Expansion(states, still, still, over, prior, jnp.where(over, 0.0, value))


def _begin(root: Expansion, trees: Trees | None, simulations: int) -> Trees:
    """Fresh trees, or those given with their roots evaluated anew and room for what is to come."""
    if trees is None:
        return plant(root, simulations + 1)
    if trees.prior.shape[1] < simulations + 1:
        raise ArgumentError(
            f"search_batch(simulations={simulations}): the trees have room for {trees.prior.shape[1]} nodes",
            remedy="keep room for twice the simulations: reroot(..., room=2 * simulations)",
        )
    return trees._replace(
        states=jax.tree.map(lambda old, new: old.at[:, 0].set(new), trees.states, root.state),
        prior=trees.prior.at[:, 0].set(root.prior),
        values=trees.values.at[:, 0].set(root.value),
        size=jnp.maximum(trees.size, 1),
    )


def _result(trees: Trees, temperature: Any, key: Key | None) -> BatchResult:
    known = statistics(trees, jnp.zeros_like(trees.size))
    policy = visit_policy(known.visits.astype(jnp.float32), temperature)
    action = jnp.argmax(policy, -1) if key is None else jax.random.categorical(key, jnp.log(policy))
    value = known.totals.sum(-1) / known.visits.sum(-1)
    return BatchResult(known.visits, policy, value, known.q, action.astype(jnp.int32), trees)


def _depth(game: Game[Any], trees: Trees) -> int:
    return min(game.longest, trees.prior.shape[1])


def _check(simulations: int, c: float) -> None:
    if simulations < 1 or c < 0:
        raise ArgumentError(f"search(simulations={simulations}, c={c}): needs simulations >= 1 and c >= 0")


__all__ = [
    "BatchResult",
    "EvaluateBatch",
    "advance_game",
    "search_batch",
    "search_environment",
    "search_gumbel",
]
