"""Decision problems as one list of choices: the form in which they are solved.

A choice belongs to a state and has a reward and a row of probabilities of what comes next; a row may sum to less than
1, the rest is the end. A list, not a table, because states need not have equally many choices: problems without a
discount are solved with some states taken together (`undiscounted.py`).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from chainrule.agents.mdp.checks import ProcessArrays


class Choices(NamedTuple):
    """Choices of all states, in the order of their states; every state has one at least."""

    owner: Int[np.ndarray, "choices"]
    transition: Float[np.ndarray, "choices states"]
    rewards: Float[np.ndarray, "choices"]

    @property
    def states(self) -> int:
        """How many states there are."""
        return self.transition.shape[1]

    @property
    def starts(self) -> Int[np.ndarray, "states"]:
        """The first choice of each state."""
        return np.searchsorted(self.owner, np.arange(self.states))

    def q(self, values: Float[np.ndarray, "states"], gamma: float) -> Float[np.ndarray, "choices"]:
        """What each choice is worth where states are worth these values."""
        return self.rewards + gamma * (self.transition @ values)

    def best(self, q: Float[np.ndarray, "choices"]) -> Float[np.ndarray, "states"]:
        """What the best choice of each state is worth."""
        return np.maximum.reduceat(q, self.starts)

    def first_best(self, q: Float[np.ndarray, "choices"]) -> Int[np.ndarray, "states"]:
        """The first of the best choices of each state."""
        order = np.flatnonzero(q == self.best(q)[self.owner])
        return order[np.searchsorted(self.owner[order], np.arange(self.states))]

    def followed(self, chosen: Int[np.ndarray, "states"], gamma: float) -> Float[np.ndarray, "states"]:
        """Values of states where one choice is made in each."""
        matrix = np.eye(self.states) - gamma * self.transition[chosen]
        return np.linalg.solve(matrix, self.rewards[chosen])

    def kept(self, which: Bool[np.ndarray, "choices"]) -> "Choices":
        """Some of the choices."""
        return Choices(self.owner[which], self.transition[which], self.rewards[which])


def of_process(process: ProcessArrays) -> Choices:
    """The choices of a process: action a of state s has number s * actions + a."""
    states, actions = process.rewards.shape
    owner = np.repeat(np.arange(states), actions)
    return Choices(owner, process.transition.reshape(-1, states), process.rewards.reshape(-1))


__all__ = ["Choices", "of_process"]
