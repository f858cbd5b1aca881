"""Decisions with a given number of steps left: backward induction, exact for every discount."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from chainrule.agents.mdp import checks
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError

_EQUAL = 1e-12


@final
@dataclass(frozen=True)
class HorizonSolution:
    """What is optimal at times 0 to `horizon`; at the last one nothing is left to decide."""

    values: Float[np.ndarray, "times states"]
    """Expected return from each time and state on; the last row is what the end is worth."""
    q: Float[np.ndarray, "steps states actions"]
    policy: Int[np.ndarray, "steps states"]
    """The first of the optimal actions."""
    actions: tuple[tuple[tuple[int, ...], ...], ...]
    """All optimal actions, by time and state."""


def finite_horizon(P: Any, r: Any, horizon: int, *, gamma: Any = 1.0, final: Any = None) -> HorizonSolution:
    """The optimum where `horizon` steps are left, and then `final[s]` (default 0) is paid.

    >>> found = finite_horizon([[0.5, 0.5], [0.0, 0.0]], [1.0, 0.0], 3)
    >>> found.values[:, 0].tolist()
    [1.75, 1.5, 1.0, 0.0]
    """
    transition, rewards = checks.process_arrays("finite_horizon", P, r)
    gamma, horizon = checks.discount("finite_horizon", gamma), whole("finite_horizon", "horizon", horizon)
    states, actions = rewards.shape
    last = np.zeros(states) if final is None else np.asarray(final, np.float64)
    if last.shape != (states,) or not np.isfinite(last).all():
        raise ArgumentError(f"finite_horizon(final): needs {states} finite numbers, one for each state")
    flat = transition.reshape(-1, states)
    values, q = np.empty((horizon + 1, states)), np.empty((horizon, states, actions))
    values[-1] = last
    for time in range(horizon - 1, -1, -1):
        q[time] = rewards + gamma * (flat @ values[time + 1]).reshape(states, actions)
        values[time] = q[time].max(axis=1)
    good = q >= values[:-1, :, None] - _EQUAL * max(1.0, float(np.abs(q).max()))
    every = tuple(tuple(tuple(int(a) for a in np.flatnonzero(row)) for row in one) for one in good)
    return HorizonSolution(values, q, good.argmax(axis=2), every)


__all__ = ["HorizonSolution", "finite_horizon"]
