"""Value iteration: values of one more step ahead, again and again (Bellman, 1957).

A sweep brings every value closer to the optimum by a factor gamma at least, so that the last change says how far there
is still to go: at most gamma / (1 - gamma) times it.
"""

from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float

from chainrule.agents.mdp import checks, choices
from chainrule.agents.mdp.choices import Choices
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError

_SPARSE = 0.2
"""Share of moves that are possible below which zeros are not multiplied."""


def value_iteration(
    problem: Choices, gamma: float, tolerance: float, most: int
) -> tuple[Float[np.ndarray, "states"], float, int]:
    """Values within `tolerance` of the optimum, the bound that says so, and the sweeps that took."""
    if gamma == 1:
        raise ArgumentError(
            'solve(method="value-iteration", gamma=1): without a discount no sweep tells how far the optimum is',
            remedy='use method="policy-iteration" or method="linear-programme"',
        )
    matrix = _compact(problem.transition)
    starts, values = problem.starts, np.zeros(problem.states)
    for sweep in range(1, most + 1):
        after = np.maximum.reduceat(problem.rewards + gamma * (matrix @ values), starts)
        rounding = np.finfo(float).eps * float(np.abs(after).max())
        bound = gamma / (1 - gamma) * (float(np.abs(after - values).max()) + rounding)
        values = after
        if bound <= tolerance:
            return values, bound, sweep
    raise ArgumentError(
        f"solve(tolerance={tolerance:g}): after {most} sweeps values may still be off by {bound:.3g}",
        remedy='use method="policy-iteration", a larger tolerance, or more sweeps: iterations=...',
    )


def sweeps(P: Any, r: Any, gamma: Any, count: int) -> Float[np.ndarray, "sweeps_and_start states"]:
    """Values after 0, 1, ..., `count` sweeps from 0: the best that can be had in so many steps.

    >>> sweeps([[0.5, 0.5], [0.0, 0.0]], [1.0, 0.0], 1.0, 3)[:, 0].tolist()
    [0.0, 1.0, 1.5, 1.75]
    """
    problem = choices.of_process(checks.process_arrays("sweeps", P, r))
    gamma, count = checks.discount("sweeps", gamma), whole("sweeps", "count", count, least=0)
    found = np.zeros((count + 1, problem.states))
    for sweep in range(count):
        found[sweep + 1] = problem.best(problem.q(found[sweep], gamma))
    return found


def _compact(transition: np.ndarray) -> Any:
    share = np.count_nonzero(transition) / transition.size
    return scipy.sparse.csr_array(transition) if share < _SPARSE else transition


__all__ = ["sweeps", "value_iteration"]
