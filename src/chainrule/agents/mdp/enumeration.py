"""Environments as arrays: every state, every action, and where it leads, to be solved exactly.

An environment that says its outcomes (`FiniteEnvironment`) is written down as it is. Any other is walked through from
its first states; two states are one when they look the same, so that clocks do not count. Its steps must be certain, or
their probabilities are estimated from draws, and the result says so. A last state, the end, is added: it follows what
terminates, is worth nothing, and leads nowhere. Limits of time are no part of it: what is cut off would have gone on.
"""

import functools
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.agents.envs.base import Environment
from chainrule.agents.envs.finite import FiniteEnvironment
from chainrule.agents.envs.spaces import Discrete
from chainrule.agents.mdp.horizon import finite_horizon
from chainrule.agents.mdp.solving import DecisionSolution, solve
from chainrule.core import random
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Tree

_MOST_ENTRIES = 2**27
"""Of the array of transitions: a gigabyte in double precision."""
_TRIALS = 32
"""Draws of a step that must be certain; each state and action has its own, so that chance shows somewhere."""
_STARTS = 256
_BATCH = 64
"""States that are stepped together, always as many, so that one program serves them all."""


@final
@dataclass(frozen=True)
class EnumeratedEnvironment:
    """An environment written down; the last state is the end."""

    transition: Float[np.ndarray, "states actions states"]
    rewards: Float[np.ndarray, "states actions"]
    """Expected, of each action."""
    start: Float[np.ndarray, "states"]
    """How likely an episode begins in each state."""
    states: tuple[str, ...]
    actions: tuple[str, ...]
    exact: bool
    """Whether probabilities of steps are known; otherwise they are estimates."""
    observations: np.ndarray
    """What is seen in each state but the last."""

    def solve(self, gamma: Any, **options: Any) -> DecisionSolution:
        """The optimum: see `mdp.solve`."""
        return solve(self.transition, self.rewards, gamma, names=self.states, **options)


def enumerated(
    env: Environment[Any], *, params: Tree = None, most: int = 10_000, draws: int | None = None
) -> EnumeratedEnvironment:
    """The arrays of an environment with at most `most` states.

    `draws` allows steps to be random in environments that do not say their outcomes: so many draws of every step
    estimate its probabilities.

    >>> from chainrule.agents import envs
    >>> lake = enumerated(envs.make("frozen-lake"))
    >>> round(float(lake.start @ lake.solve(0.99).values), 6)
    0.542026
    """
    if not isinstance(env.action_space, Discrete):
        raise ArgumentError(
            f"enumerated({type(env).__name__}): actions must be 0, 1, ..., not {type(env.action_space).__name__}"
        )
    params = env.params if params is None else params
    most = whole("enumerated", "most", most)
    if isinstance(env, FiniteEnvironment):
        return _written_down(env, params, most)
    draws = None if draws is None else whole("enumerated", "draws", draws)
    return _walked_through(env, env.action_space.n, params, most, draws)


def optimal_return(env: FiniteEnvironment, params: Tree = None) -> float:
    """The largest expected return of an episode, not discounted, with the environment's limit of time.

    >>> from chainrule.agents import envs
    >>> optimal_return(envs.make("cliff-walking"))
    -13.0
    """
    params = env.params if params is None else params
    found = enumerated(env, params=params)
    limit = int(np.asarray(env.limit(params)))
    return float(found.start @ finite_horizon(found.transition, found.rewards, limit).values[0])


def _check_size(states: int, actions: int, most: int) -> None:
    if states > most or (states + 1) ** 2 * actions > _MOST_ENTRIES:
        raise ArgumentError(
            f"enumerated: the environment has {states} states or more, and {actions} actions",
            remedy=f"small ones only: at most most={most} states, and arrays of a gigabyte",
        )


def _written_down(env: FiniteEnvironment, params: Tree, most: int) -> EnumeratedEnvironment:
    count, actions = env.states, env.actions
    _check_size(count, actions, most)

    @jax.jit
    def every(params: Tree) -> Any:
        one = functools.partial(env.outcomes, params=params)
        pairs = jax.vmap(jax.vmap(one, (None, 0)), (0, None))
        return pairs(jnp.arange(count), jnp.arange(actions)), env.start(params)

    found, start = jax.tree.map(np.asarray, every(params))
    transition = np.zeros((count + 1, actions, count + 1))
    state, action, _ = np.indices(found.probability.shape)
    after = np.where(found.terminated, count, found.successor)
    chance = found.probability.astype(np.float64)
    chance /= chance.sum(-1, keepdims=True)
    np.add.at(transition, (state, action, after), chance)
    rewards = np.zeros((count + 1, actions))
    rewards[:-1] = (chance * found.reward).sum(-1)
    first = np.append(start.astype(np.float64), 0.0)
    return EnumeratedEnvironment(
        transition,
        rewards,
        first / first.sum(),
        (*(env.state_name(state) for state in range(count)), "end"),
        tuple(env.action_name(action) for action in range(actions)),
        True,
        np.arange(count),
    )


def _walked_through(
    env: Environment[Any], actions: int, params: Tree, most: int, draws: int | None
) -> EnumeratedEnvironment:
    trials = _TRIALS if draws is None else draws
    step = jax.jit(_steps(env, actions, params, trials))
    root = random.key(0, "enumeration")
    begin = jax.jit(jax.vmap(lambda key: env.reset(key, params)))
    first, seen = jax.tree.map(np.asarray, begin(jax.random.split(random.named(root, "starts"), _STARTS)))
    numbers: dict[bytes, int] = {}
    states: list[Tree] = []
    observations: list[np.ndarray] = []

    def number(tree: Tree, observation: np.ndarray, at: Any) -> int:
        known = numbers.setdefault(observation[at].tobytes(), len(numbers))
        if known == len(states):
            _check_size(len(numbers), actions, most)
            states.append(jax.tree.map(lambda leaf: leaf[at], tree))
            observations.append(observation[at])
        return known

    starts = [number(first, seen, i) for i in range(_STARTS)]
    moves: dict[tuple[int, int, int], float] = {}
    earned: dict[tuple[int, int], float] = {}
    done, certain = 0, True
    while done < len(states):
        batch = states[done : done + _BATCH]
        padded = batch + [batch[0]] * (_BATCH - len(batch))
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *padded)
        after = jax.tree.map(np.asarray, step(stacked, random.at(root, done)))
        for state, action, trial in np.ndindex(len(batch), actions, trials):
            at = (state, action, trial)
            over = bool(after.terminated[at])
            then = -1 if over else number(after.state, after.observation, at)
            move = (done + state, action, then)
            moves[move] = moves.get(move, 0.0) + 1 / trials
            earned[move[:2]] = earned.get(move[:2], 0.0) + float(after.reward[at]) / trials
            certain = certain and moves[move] >= (trial + 0.5) / trials
        if draws is None and not certain:
            raise ArgumentError(
                f"enumerated({type(env).__name__}): steps are random, and the environment does not say how",
                remedy="estimate their probabilities: enumerated(env, draws=1000); or write a FiniteEnvironment",
            )
        done += len(batch)
    return _assembled(moves, earned, starts, np.stack(observations), actions, certain)


def _steps(env: Environment[Any], actions: int, params: Tree, trials: int) -> Any:
    """Steps from states by every action, several times each: axes (state, action, trial)."""

    def one(state: Tree, action: Array, key: Array) -> Any:
        return env.step(key, state, action, params)

    by_trial = jax.vmap(one, (None, None, 0))
    by_action = jax.vmap(by_trial, (None, 0, 0))
    by_state = jax.vmap(by_action, (0, None, 0))
    return lambda states, key: by_state(
        states, jnp.arange(actions), jax.random.split(key, (_BATCH, actions, trials))
    )


def _assembled(
    moves: dict[tuple[int, int, int], float],
    earned: dict[tuple[int, int], float],
    starts: list[int],
    observations: np.ndarray,
    actions: int,
    certain: bool,
) -> EnumeratedEnvironment:
    count = len(observations)
    transition, rewards = np.zeros((count + 1, actions, count + 1)), np.zeros((count + 1, actions))
    for (state, action, after), chance in moves.items():
        transition[state, action, after] = chance
    for (state, action), reward in earned.items():
        rewards[state, action] = reward
    start = np.bincount(starts, minlength=count + 1) / len(starts)
    names = (*(str(state) for state in range(count)), "end")
    return EnumeratedEnvironment(
        transition, rewards, start, names, tuple(str(a) for a in range(actions)), certain, observations
    )


__all__ = ["EnumeratedEnvironment", "enumerated", "optimal_return"]
