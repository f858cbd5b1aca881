"""How long a finite chain takes: until it is absorbed, hits a set of states, has forgotten its start."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float
from scipy.sparse import csgraph

from chainrule.core.errors import ArgumentError
from chainrule.probability.markov import structure
from chainrule.probability.markov.checks import check_state, distribution, transition_matrix
from chainrule.probability.markov.finite import distributions


@final
@dataclass(frozen=True)
class Absorption:
    """Where a chain ends, and when, from each of its transient states."""

    transient: tuple[int, ...]
    closed: tuple[tuple[int, ...], ...]
    """The states of each closed class."""
    probabilities: Float[np.ndarray, "transient closed"]
    """Of ending in each closed class."""
    steps: Float[np.ndarray, " transient"]
    """Expected number until a closed class is entered."""
    visits: Float[np.ndarray, "transient transient"]
    """Expected number of times in each transient state, the start counted: the fundamental matrix."""


def absorption(transition: Any) -> Absorption:
    """Absorption of a chain in its closed classes.

    >>> gambler = [[1, 0, 0, 0], [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5], [0, 0, 0, 1]]
    >>> found = absorption(gambler)
    >>> found.steps.round(6).tolist(), found.probabilities.round(6).tolist()
    ([2.0, 2.0], [[0.666667, 0.333333], [0.333333, 0.666667]])
    """
    matrix = transition_matrix("absorption", transition)
    found = structure.classes(matrix)
    closed = tuple(one.states for one in found if one.is_closed)
    transient = np.array(sorted(s for one in found if not one.is_closed for s in one.states), dtype=int)
    within = matrix[np.ix_(transient, transient)]
    visits = np.linalg.inv(np.eye(len(transient)) - within)
    into = np.stack([matrix[np.ix_(transient, np.array(one))].sum(axis=1) for one in closed], axis=1)
    return Absorption(tuple(int(s) for s in transient), closed, visits @ into, visits.sum(axis=1), visits)


@final
@dataclass(frozen=True)
class Hitting:
    """Whether and when a chain reaches a set of states, from every state."""

    probabilities: Float[np.ndarray, " states"]
    steps: Float[np.ndarray, " states"]
    """Expected number of steps; infinite where it may never happen."""


def hitting(transition: Any, targets: Any) -> Hitting:
    """The chance of ever reaching one of `targets` and the expected number of steps until then.

    >>> found = hitting([[1, 0, 0], [0.5, 0, 0.5], [0, 0, 1]], [2])
    >>> found.probabilities.tolist(), found.steps.tolist()
    ([0.0, 0.5, 1.0], [inf, inf, 0.0])
    """
    matrix = transition_matrix("hitting", transition)
    goal = np.zeros(len(matrix), bool)
    for state in np.atleast_1d(np.asarray(targets, dtype=int)):
        check_state("hitting", "targets", int(state), len(matrix))
        goal[state] = True
    if not goal.any():
        raise ArgumentError("hitting(targets): names no state", remedy="pass targets=[0], for example")
    # Beyond the targets nothing matters: they are made to absorb, and every question is one about the graph first.
    stopped = np.where(goal[:, None], np.eye(len(matrix)), matrix)
    reach = np.isfinite(csgraph.shortest_path((stopped > 0).astype(float), unweighted=True))
    can = reach[:, goal].any(axis=1)
    surely = can & ~reach[:, ~can].any(axis=1)
    probabilities = np.where(surely, 1.0, 0.0)
    unsure = can & ~surely
    probabilities[unsure] = _solve(matrix, unsure, matrix[np.ix_(unsure, surely)].sum(axis=1))
    steps = np.where(goal, 0.0, np.inf)
    waiting = surely & ~goal
    steps[waiting] = _solve(matrix, waiting, np.ones(waiting.sum()))
    return Hitting(probabilities, steps)


def mixing(start: Any, transition: Any, steps: int, class_: int | None = None) -> Float[np.ndarray, " times"]:
    """Total variation between the distribution at times 0 to `steps` and the stationary one.

    It falls to zero if the chain is aperiodic and reaches one closed class only; a periodic chain keeps its distance.

    >>> mixing(0, [[0.75, 0.25], [0.25, 0.75]], 3).tolist()
    [0.5, 0.25, 0.125, 0.0625]
    """
    matrix = transition_matrix("mixing", transition)
    start = distribution("mixing", "start", start, len(matrix))
    over_time = np.asarray(distributions(start, matrix, steps))
    return np.abs(over_time - np.asarray(structure.stationary(matrix, class_))).sum(axis=1) / 2


def _solve(matrix: np.ndarray, among: np.ndarray, right: np.ndarray) -> np.ndarray:
    """What satisfies `x = A x + right` on some of the states."""
    return np.linalg.solve(np.eye(among.sum()) - matrix[np.ix_(among, among)], right)


__all__ = ["Absorption", "Hitting", "absorption", "hitting", "mixing"]
