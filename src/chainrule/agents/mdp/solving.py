"""Solving decision processes: one call, three methods that agree, and a bound on what is left of the error.

Reference: Puterman, Markov Decision Processes, 1994, chapters 4, 6 and 7.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from chainrule.agents.mdp import checks, choices, undiscounted
from chainrule.agents.mdp.choices import Choices
from chainrule.agents.mdp.linear_programme import linear_programme
from chainrule.agents.mdp.policy_iteration import policy_iteration
from chainrule.agents.mdp.reward_process import RewardProcess
from chainrule.agents.mdp.value_iteration import value_iteration
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice

METHODS = ("auto", "value-iteration", "policy-iteration", "linear-programme")
_MOST_STATES = 2_000
"""Problems with more states are solved by sweeps, whose cost grows with the moves that are possible, not by cubes."""
_EQUAL = 1e-9
"""Actions whose values differ by less, relative to the largest, are equally good."""


@final
@dataclass(frozen=True)
class DecisionSolution:
    """What is optimal in every state."""

    values: Float[np.ndarray, "states"]
    """Expected return from each state on."""
    q: Float[np.ndarray, "states actions"]
    """Expected return of each action, and the best ones after it."""
    policy: Int[np.ndarray, "states"]
    """An optimal action for each state; without a discount one that also leads to where nothing more is lost."""
    actions: tuple[tuple[int, ...], ...]
    """All optimal actions of each state."""
    bound: float
    """No value is further from the optimum."""
    iterations: int
    """Sweeps of values, or policies that were valued; 1 where equations were solved at once."""
    method: str


def solve(
    P: Any,
    r: Any,
    gamma: Any,
    *,
    method: str = "auto",
    tolerance: float = 1e-9,
    iterations: int = 100_000,
    names: Sequence[str] = (),
) -> DecisionSolution:
    """The optimal values, Q-values and actions of a decision process, in double precision.

    `P[s, a, t]` is the probability of going from state s to state t by action a; a row of zeros ends the episode. `r`
    is r[s, a] or r[s]. `P[s, t]` with r[s] is a reward process, whose values are found all the same.

    `method` is "policy-iteration", "linear-programme", or "value-iteration", which stops when it can prove an error
    below `tolerance`; "auto" chooses by size. With gamma=1 every state must be able to end, and no loop may pay.
    `names` of states are used in messages.

    >>> P = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]]     # stay, or go to where it ends
    >>> found = solve(P, [[1.0, 5.0], [0.0, 0.0]], 0.9)
    >>> found.values.round(6).tolist(), found.actions
    ([10.0, 0.0], ((0,), (0, 1)))
    """
    check_choice("solve", "method", method, METHODS)
    if not tolerance > 0:
        raise ArgumentError(f"solve(tolerance={tolerance}): tolerance must be above 0")
    most = whole("solve", "iterations", iterations)
    if np.ndim(P) == 2 and method == "auto":
        return _of_chain(RewardProcess(P, r, gamma, names=names))
    process = checks.process_arrays("solve", P, r)
    gamma = checks.discount("solve", gamma)
    names = checks.state_names("solve", names, len(process.rewards))
    problem = choices.of_process(process)
    if method == "auto":
        few = problem.states <= _MOST_STATES or gamma == 1
        method = "policy-iteration" if few else "value-iteration"
    chosen = None
    if method == "value-iteration":
        values, bound, taken = value_iteration(problem, gamma, tolerance, most)
    elif gamma < 1:
        values, _, taken = _exactly(problem, gamma, method, problem.starts, most)
        bound = _residual(problem, values, gamma) / (1 - gamma)
    else:
        found = undiscounted.grouped(problem, names)
        of_groups, best, taken = _exactly(found.problem, gamma, method, found.start, most)
        longest = float(undiscounted.steps_to_end(found.problem, best).max())
        bound = _residual(found.problem, of_groups, gamma) * longest
        values, chosen = of_groups[found.group], undiscounted.spread(problem, found, best)
    return _solution(problem, values, gamma, bound, taken, method, chosen)


def _exactly(
    problem: Choices, gamma: float, method: str, start: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, int]:
    if method == "linear-programme":
        return *linear_programme(problem, gamma), 1
    return policy_iteration(problem, gamma, start, most)


def _residual(problem: Choices, values: np.ndarray, gamma: float) -> float:
    """By how much one more sweep would change the values, the rounding of this sum included."""
    q = problem.q(values, gamma)
    return float(np.abs(problem.best(q) - values).max() + np.finfo(float).eps * np.abs(q).max())


def _solution(
    problem: Choices,
    values: np.ndarray,
    gamma: float,
    bound: float,
    taken: int,
    method: str,
    chosen: np.ndarray | None,
) -> DecisionSolution:
    q = problem.q(values, gamma).reshape(problem.states, -1)
    slack = 2 * bound + _EQUAL * max(1.0, float(np.abs(q).max()))
    good = q >= q.max(axis=1, keepdims=True) - slack
    policy = good.argmax(axis=1) if chosen is None else chosen % q.shape[1]
    actions = tuple(tuple(int(a) for a in np.flatnonzero(row)) for row in good)
    return DecisionSolution(values, q, policy, actions, bound, taken, method)


def _of_chain(process: RewardProcess) -> DecisionSolution:
    values, states = process.values, len(process.rewards)
    ahead = process.rewards + process.gamma * process.transition @ values
    # Without a discount an error lives as long as an episode, at most.
    passing = np.isfinite(process.steps) & ~process.ends
    longest = 1 / (1 - process.gamma) if process.gamma < 1 else process.steps[passing].max(initial=1.0)
    rounding = np.finfo(float).eps * np.abs(values).max()
    bound = float((np.abs(ahead - values).max() + rounding) * longest)
    alone = np.zeros(states, np.int64)
    return DecisionSolution(values, ahead[:, None], alone, ((0,),) * states, bound, 1, "linear-system")


__all__ = ["METHODS", "DecisionSolution", "solve"]
