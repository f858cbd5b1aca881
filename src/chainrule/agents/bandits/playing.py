"""Playing bandits: whole runs compiled, thousands of them at once, and the regret they leave behind."""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents.bandits.problems import BanditProblem, entry_of
from chainrule.agents.bandits.strategies import BanditStrategy
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key

_NORMAL_95 = 1.959964


class BanditTrace(NamedTuple):
    """What happened at each step."""

    arm: Int[Array, "steps"]
    reward: Float[Array, "steps"]
    gap: Float[Array, "steps"]
    """By how much the mean of the arm was below the best."""


def play(strategy: BanditStrategy, problem: BanditProblem, key: Key, steps: int) -> BanditTrace:
    """One run; a pure function, for `jax.jit` with `steps` static and `jax.vmap`."""
    gaps = problem.gaps()

    def step(known: Any, key: Key) -> tuple[Any, BanditTrace]:
        choose_key, reward_key = jax.random.split(key)
        arm = strategy.choose(choose_key, known)
        reward = problem.reward(reward_key, arm)
        return strategy.learn(known, arm, reward), BanditTrace(arm, reward, entry_of(gaps, arm))

    return jax.lax.scan(step, strategy.start(len(gaps)), jax.random.split(key, steps))[1]


@final
@dataclass(frozen=True)
class RegretCurve:
    """Regret over time, as a mean over runs with a 95 % interval."""

    steps: Int[np.ndarray, "points"]
    mean: Float[np.ndarray, "points"]
    """What was missed up to each step by not pulling the best arm, in means: luck with rewards does not count."""
    low: Float[np.ndarray, "points"]
    high: Float[np.ndarray, "points"]
    best_share: Float[np.ndarray, "points"]
    """How often the best arm was pulled at each step."""
    final: Float[np.ndarray, "runs"]
    """Regret of each run at the end."""


def regret(
    strategy: BanditStrategy, problems: BanditProblem, key: Key, steps: int, *, points: int = 200
) -> RegretCurve:
    """The regret of a strategy on problems with a leading axis, one run on each."""
    steps, points = whole("regret", "steps", steps), whole("regret", "points", points, least=2)
    if jnp.ndim(problems.means) != 2 or len(problems.means) < 2:
        raise ArgumentError(
            f"regret(problems): means of shape {jnp.shape(problems.means)}",
            remedy="give means of shape (problems, arms), two problems at least",
        )
    runs = len(problems.means)
    at = np.unique(np.linspace(1, steps, points).round().astype(int))
    total, best = jax.tree.map(
        np.asarray, _curves(strategy, problems, jax.random.split(key, runs), steps, at)
    )
    total = total.astype(np.float64)
    mean = total.mean(0)
    half = _NORMAL_95 * total.std(0, ddof=1) / np.sqrt(runs)
    return RegretCurve(at, mean, mean - half, mean + half, best.mean(0), total[:, -1])


@eqx.filter_jit
def _curves(
    strategy: BanditStrategy, problems: BanditProblem, keys: Array, steps: int, at: Any
) -> tuple[Array, Array]:
    axes = jax.tree.map(lambda leaf: 0 if jnp.ndim(leaf) > 0 else None, problems)

    def one(problem: BanditProblem, key: Key) -> tuple[Array, Array]:
        gaps = play(strategy, problem, key, steps).gap
        return jnp.cumsum(gaps)[at - 1], (gaps == 0)[at - 1]

    return jax.vmap(one, (axes, 0))(problems, keys)


__all__ = ["BanditTrace", "RegretCurve", "play", "regret"]
