"""Markov reward processes: a chain that earns r[s] in state s, valued exactly.

Values solve V = r + gamma P V. The variance of the return and the discounted visits to each state solve equations with
the same structure, and simulation is held against all of them with its standard errors (Sobel, The variance of
discounted Markov decision processes, 1982; Sutton and Barto, Reinforcement Learning, 2018, chapter 3).
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csgraph

from chainrule.agents.mdp import checks
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key
from chainrule.probability import markov

_TAIL = 1e-9
"""Simulated returns are cut off where the rest is discounted below this."""
_LONGEST = 100_000
"""Steps of a simulated path at most, where nothing is discounted."""
_REMAINING = 1e-9
"""Share of undiscounted paths that may still be under way when they are cut off."""


@final
@dataclass(frozen=True)
class SimulatedReturns:
    """Returns of simulated paths from every state beside the exact ones."""

    mean: Float[np.ndarray, "states"]
    standard_error: Float[np.ndarray, "states"]
    exact: Float[np.ndarray, "states"]
    paths: int
    """From each state."""
    steps: int
    """Of the longest path that was followed."""

    @property
    def deviations(self) -> Float[np.ndarray, "states"]:
        """By how many standard errors simulation is off; 0 where both are certain and equal."""
        off = self.mean - self.exact
        certain = np.isclose(off, 0.0, atol=1e-4) & (self.standard_error == 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(certain, 0.0, off / self.standard_error)


@final
class RewardProcess:
    """A Markov chain with a reward for every state, and a discount; a row of zeros is an end.

    >>> process = RewardProcess([[0.5, 0.5], [0.0, 0.0]], [1.0, 0.0], gamma=1.0)
    >>> process.values.tolist(), process.variance.tolist(), process.steps.tolist()
    ([2.0, 0.0], [2.0, 0.0], [2.0, 0.0])
    """

    def __init__(self, P: Any, r: Any, gamma: Any, *, names: Sequence[str] = ()) -> None:
        where = "RewardProcess"
        if np.ndim(P) != 2:
            raise ArgumentError(
                f"{where}(P): a reward process has transitions of shape (states, states), not {np.shape(P)}",
                remedy="with actions use mdp.solve(P, r, gamma)",
            )
        transition, rewards = checks.process_arrays(where, P, r)
        self.transition: Float[np.ndarray, "states states"] = transition[:, 0]
        self.rewards: Float[np.ndarray, states] = rewards[:, 0]
        self.gamma = checks.discount(where, gamma)
        self.names = checks.state_names(where, names, len(self.rewards))
        if self.gamma == 1:
            for states in _recurrent(self.transition):
                if self.rewards[states].any():
                    raise checks.endless(
                        where, states, self.names, "rewards are not 0 in the recurrent class"
                    )

    @functools.cached_property
    def values(self) -> Float[np.ndarray, "states"]:
        """Expected return from each state."""
        return _accumulated(self.transition, self.rewards, self.gamma)

    @functools.cached_property
    def variance(self) -> Float[np.ndarray, "states"]:
        """Variance of the return from each state."""
        # The return after a step has the variance of where one goes, and the variance from there on.
        ahead = self.transition @ np.square(self.values) - np.square(self.transition @ self.values)
        fresh = self.gamma**2 * np.maximum(ahead, 0.0)
        return np.maximum(_accumulated(self.transition, fresh, self.gamma**2), 0.0)

    @functools.cached_property
    def ends(self) -> Bool[np.ndarray, "states"]:
        """Which states are an end: those that lead nowhere, and classes that are never left and earn nothing."""
        found = self.transition.sum(1) == 0
        for states in _recurrent(self.transition):
            found[states] = not self.rewards[states].any()
        return found

    @functools.cached_property
    def steps(self) -> Float[np.ndarray, "states"]:
        """Expected steps until the end from each state; infinite where it may never come."""
        if not self.ends.any():
            return np.full(len(self.rewards), np.inf)
        return self.hitting(np.flatnonzero(self.ends)).steps

    def hitting(self, targets: Any) -> markov.Hitting:
        """Whether and when one of some states is reached, from each state."""
        return markov.hitting(_closed(self.transition), targets)

    @functools.cached_property
    def occupancy(self) -> Float[np.ndarray, "states states"]:
        """Expected discounted visits: entry (s, t) counts those to t from s, the first moment included.

        Without a discount those to states that are never left are infinite.
        """
        if self.gamma < 1:
            return np.linalg.inv(np.eye(len(self.rewards)) - self.gamma * self.transition)
        lasting = np.zeros(len(self.rewards), bool)
        for states in _recurrent(self.transition):
            lasting[states] = True
        passing = ~lasting
        found = np.eye(len(self.rewards))
        found[np.ix_(passing, passing)] = np.linalg.inv(
            np.eye(passing.sum()) - self.transition[np.ix_(passing, passing)]
        )
        ways = csgraph.shortest_path((self.transition > 0).astype(float), unweighted=True)
        found[:, lasting] = np.where(np.isfinite(ways[:, lasting]), np.inf, 0.0)
        return found

    def path_return(self, path: Sequence[int | str]) -> float:
        """The discounted sum of rewards along a path of states, by number or name."""
        states = [self.names.index(one) if isinstance(one, str) else int(one) for one in path]
        return float(self.rewards[states] @ self.gamma ** np.arange(len(states)))

    def simulate(self, key: Key, paths: int = 10_000) -> SimulatedReturns:
        """Returns of paths from every state, all at once on the device."""
        paths = whole("simulate", "paths", paths, least=2)
        steps = self._steps_that_matter()
        ended = self.transition.sum(1) == 0
        total = np.asarray(
            _simulated(key, _closed(self.transition), self.rewards, ended, self.gamma, paths, steps),
            np.float64,
        )
        return SimulatedReturns(
            total.mean(1), total.std(1, ddof=1) / np.sqrt(paths), self.values, paths, steps
        )

    def _steps_that_matter(self) -> int:
        if self.gamma < 1:
            return max(1, int(np.ceil(np.log(_TAIL) / np.log(max(self.gamma, 1e-12)))))
        # Among states that are left again, the chance of still being there falls by its largest eigenvalue each step.
        passing = np.ones(len(self.rewards), bool)
        for states in _recurrent(self.transition):
            passing[states] = False
        passing &= self.transition.sum(1) > 0
        within = self.transition[np.ix_(passing, passing)]
        radius = np.abs(np.linalg.eigvals(within)).max(initial=0.0)
        wanted = 1 if radius == 0 else np.log(_REMAINING) / np.log(min(radius, 1 - 1e-12)) + len(within)
        return int(np.clip(np.ceil(wanted), len(self.rewards), _LONGEST))


@functools.partial(jax.jit, static_argnames=("paths", "steps"))
def _simulated(
    key: Key, transition: Array, rewards: Array, ended: Array, gamma: Array, paths: int, steps: int
) -> Float[Array, "states paths"]:
    """Returns of paths from every state; a state that ends an episode pays on arrival, and never again."""
    cumulated = jnp.cumsum(transition, axis=1)
    start = jnp.broadcast_to(jnp.arange(len(rewards))[:, None], (len(rewards), paths))

    def step(carry: Any, key: Key) -> tuple[Any, None]:
        state, total, weight, over = carry
        total = total + jnp.where(over, 0.0, weight * rewards[state])
        over = over | ended[state]
        level = jax.random.uniform(key, state.shape) * cumulated[state, -1]
        then = (cumulated[state] <= level[..., None]).sum(-1)
        return (then, total, weight * gamma, over), None

    nothing = jnp.zeros(start.shape)
    first = (start, nothing, jnp.ones(()), jnp.zeros(start.shape, bool))
    return jax.lax.scan(step, first, jax.random.split(key, steps))[0][1]


def _closed(transition: np.ndarray) -> np.ndarray:
    """The chain that stays where it ends."""
    ended = transition.sum(1) == 0
    rows = np.where(ended[:, None], np.eye(len(transition)), transition)
    return rows / rows.sum(1, keepdims=True)


def _recurrent(transition: np.ndarray) -> list[Int[np.ndarray, " members"]]:
    """The classes that are never left, ends not counted."""
    ended = transition.sum(1) == 0
    return [
        np.array(one.states)
        for one in markov.classes(_closed(transition))
        if one.is_closed and not ended[one.states[0]]
    ]


def _accumulated(transition: np.ndarray, gains: np.ndarray, gamma: float) -> np.ndarray:
    """What solves x = gains + gamma P x; without a discount 0 where a recurrent class gains nothing."""
    wanted = np.ones(len(gains), bool)
    if gamma == 1:
        for states in _recurrent(transition):
            wanted[states] = False
    found = np.zeros(len(gains))
    within = transition[np.ix_(wanted, wanted)]
    found[wanted] = np.linalg.solve(np.eye(wanted.sum()) - gamma * within, gains[wanted])
    return found


__all__ = ["RewardProcess", "SimulatedReturns"]
