"""Policies of decision processes, valued exactly: values, advantages, variance of the return, visits."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float

from chainrule.agents.mdp import checks
from chainrule.agents.mdp.reward_process import RewardProcess
from chainrule.core.errors import ArgumentError


@final
@dataclass(frozen=True)
class PolicyValues:
    """What following a policy is worth."""

    policy: Float[np.ndarray, "states actions"]
    values: Float[np.ndarray, "states"]
    q: Float[np.ndarray, "states actions"]
    """Of doing something else once, and following the policy from then on."""
    occupancy: Float[np.ndarray, "states states"]
    """Expected discounted visits: entry (s, t) counts those to t from s."""

    @property
    def advantages(self) -> Float[np.ndarray, "states actions"]:
        """By how much each action is better than what the policy does."""
        return self.q - self.values[:, None]


def evaluate(P: Any, r: Any, policy: Any, gamma: Any) -> PolicyValues:
    """The exact values of a policy: an action for each state, or probabilities of actions.

    >>> P = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]]
    >>> evaluate(P, [[1.0, 5.0], [0.0, 0.0]], [[0.5, 0.5], [1.0, 0.0]], 0.5).values.tolist()
    [4.0, 0.0]
    """
    transition, rewards = checks.process_arrays("evaluate", P, r)
    gamma = checks.discount("evaluate", gamma)
    weights = policy_probabilities("evaluate", policy, rewards.shape)
    # A row that only may end is no row of a chain: what is missing goes to a last state, the end.
    states = len(rewards)
    moves = np.zeros((states + 1, states + 1))
    moves[:states, :states] = np.einsum("sa,sat->st", weights, transition)
    moves[:states, states] = np.maximum(1.0 - moves[:states, :states].sum(1), 0.0)
    earned = np.append((weights * rewards).sum(1), 0.0)
    process = RewardProcess(moves, earned, gamma)
    values = process.values[:states]
    q = rewards + gamma * transition @ values
    return PolicyValues(weights, values, q, process.occupancy[:states, :states])


def policy_probabilities(
    where: str, policy: Any, shape: tuple[int, int]
) -> Float[np.ndarray, "states actions"]:
    """Probabilities of actions in each state; an action for each state stands for certainty of it."""
    found = np.asarray(policy)
    states, actions = shape
    if found.shape == (states,) and np.issubdtype(found.dtype, np.integer):
        if ((found < 0) | (found >= actions)).any():
            raise ArgumentError(
                f"{where}(policy): actions are numbered 0 to {actions - 1}, not {found.max()}"
            )
        return np.eye(actions)[found]
    found = np.asarray(found, np.float64)
    if found.shape != (states, actions):
        raise ArgumentError(
            f"{where}(policy): shape {found.shape}",
            remedy=f"give an action for each of {states} states, or probabilities of shape ({states}, {actions})",
        )
    sums = found.sum(1)
    off = np.flatnonzero((np.abs(sums - 1) > checks.TOLERANCE) | (found < 0).any(1))
    if len(off):
        raise ArgumentError(
            f"{where}(policy): row {off[0]} is no distribution: it sums to {sums[off[0]]:.6g}"
        )
    return found / sums[:, None]


__all__ = ["PolicyValues", "evaluate", "policy_probabilities"]
