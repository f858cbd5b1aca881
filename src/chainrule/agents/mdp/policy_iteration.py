"""Policy iteration: value a policy exactly, take what is better everywhere, until nothing is (Howard, 1960)."""

import numpy as np
from jaxtyping import Float, Int

from chainrule.agents.mdp.choices import Choices
from chainrule.core.errors import ArgumentError

_GAIN = 1e-10
"""What counts as better, relative to the largest value: above rounding, so that equal choices never alternate."""


def policy_iteration(
    problem: Choices, gamma: float, start: Int[np.ndarray, "states"], most: int
) -> tuple[Float[np.ndarray, "states"], Int[np.ndarray, "states"], int]:
    """Optimal values, a choice for each state that attains them, and how often policies were valued.

    Without a discount, every choice of `start` must lead to the end sooner or later.
    """
    chosen = start
    for iteration in range(1, most + 1):
        values = problem.followed(chosen, gamma)
        q = problem.q(values, gamma)
        better = problem.best(q) > q[chosen] + _GAIN * max(1.0, float(np.abs(values).max()))
        if not better.any():
            return values, chosen, iteration
        chosen = np.where(better, problem.first_best(q), chosen)
    raise ArgumentError(
        f"solve(iterations={most}): policies still become better after {most} iterations",
        remedy="allow more of them",
    )


__all__ = ["policy_iteration"]
