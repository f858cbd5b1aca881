"""What a finite chain does in the long run: communicating classes, periods, stationary distributions, reversibility.

Classes and periods are questions about the graph of possible moves and are answered on it (scipy.sparse.csgraph).

Reference: Norris, Markov Chains, 1997, chapter 1; Grassmann, Taksar and Heyman, Regenerative analysis and steady state
distributions for Markov chains, Operations Research 33, 1985.
"""

from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.sparse import csgraph

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array
from chainrule.probability.markov.checks import is_traced, transition_matrices, transition_matrix


@final
@dataclass(frozen=True)
class CommunicatingClass:
    """States that all lead to each other."""

    states: tuple[int, ...]
    is_closed: bool
    """Whether the chain never leaves it; closed classes are recurrent, all others transient."""
    period: int
    """Returns to a state take multiples of this many steps; 0 for a state to which the chain never returns."""


@final
class NotUniqueError(ArgumentError):
    """A chain has several stationary distributions: one for each closed class, and every mixture of them."""

    def __init__(self, classes: tuple[CommunicatingClass, ...], basis: np.ndarray) -> None:
        self.classes = classes
        """The closed classes."""
        self.basis = basis
        """The stationary distribution of each, one a row."""
        shown = "; ".join(f"class_={k}: {_spelled(one.states)}" for k, one in enumerate(classes[:6]))
        more = f"; and {len(classes) - 6} more" if len(classes) > 6 else ""
        super().__init__(
            f"stationary(transition): {len(classes)} closed classes, each with a stationary distribution of its own",
            remedy=f"name one of them ({shown}{more}), or take all: stationary_basis(transition)",
        )


def classes(transition: Any) -> tuple[CommunicatingClass, ...]:
    """The communicating classes, in the order of their first states.

    >>> [(one.states, one.is_closed, one.period) for one in classes([[0.5, 0.5, 0], [0, 0, 1], [0, 1, 0]])]
    [((0,), False, 1), ((1, 2), True, 2)]
    """
    return _classes(transition_matrix("classes", transition))


def period(transition: Any) -> int:
    """The period of an irreducible chain: 1 if it is aperiodic.

    >>> period([[0, 1], [1, 0]])
    2
    """
    found = classes(transition)
    if len(found) > 1:
        raise ArgumentError(
            f"period(transition): the chain has {len(found)} communicating classes, each with its own period",
            remedy="read them from classes(transition)",
        )
    return found[0].period


def stationary(transition: Any, class_: int | None = None) -> Float[Array | np.ndarray, " states"]:
    """The distribution `pi` with `pi @ transition == pi`, to the last digits of every entry.

    Elimination without subtractions (Grassmann, Taksar and Heyman) keeps even tiny probabilities accurate. A chain with
    several closed classes has a stationary distribution for each: `class_` is the number of the one that is meant.
    Inside a compiled function, where a chain must have one only, the linear equations are solved; derivatives follow.

    >>> stationary([[0.9, 0.1], [0.5, 0.5]]).round(4).tolist()
    [0.8333, 0.1667]
    """
    if is_traced(transition):
        return _solved(transition_matrices("stationary", transition))
    matrix = transition_matrix("stationary", transition)
    closed, basis = _basis(matrix)
    if class_ is None:
        if len(basis) > 1:
            raise NotUniqueError(closed, basis)
        return basis[0]
    if not 0 <= class_ < len(basis):
        raise ArgumentError(
            f"stationary(class_={class_}): the {len(basis)} closed classes are numbered from 0",
            remedy="read them from classes(transition): those with is_closed, in their order",
        )
    return basis[class_]


def stationary_basis(transition: Any) -> Float[np.ndarray, "classes states"]:
    """The stationary distribution of every closed class, one a row; all others are mixtures of these.

    >>> stationary_basis([[1, 0], [0, 1]]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _basis(transition_matrix("stationary_basis", transition))[1]


@final
@dataclass(frozen=True)
class Reversibility:
    """Whether a chain in equilibrium looks the same in both directions of time."""

    value: bool
    witness: tuple[int, int] | None
    """Two states between which more flows in one direction than back; none if there are none."""
    flows: tuple[float, float] | None
    """Probability of the witness's move, and of the move back, in equilibrium."""

    def __bool__(self) -> bool:
        return self.value


def is_reversible(transition: Any, tolerance: float = 1e-10) -> Reversibility:
    """Whether detailed balance holds: `pi[i] transition[i, j] == pi[j] transition[j, i]` for all i, j.

    >>> found = is_reversible([[0, 0.9, 0.1], [0.1, 0, 0.9], [0.9, 0.1, 0]])
    >>> found.value, found.witness, tuple(round(flow, 4) for flow in found.flows)
    (False, (0, 1), (0.3, 0.0333))
    """
    matrix = transition_matrix("is_reversible", transition)
    flows = np.asarray(stationary(matrix))[:, None] * matrix
    excess = flows - flows.T
    i, j = (int(k) for k in np.unravel_index(np.argmax(excess), excess.shape))
    if excess[i, j] <= tolerance:
        return Reversibility(True, None, None)
    return Reversibility(False, (i, j), (float(flows[i, j]), float(flows[j, i])))


def _classes(matrix: np.ndarray) -> tuple[CommunicatingClass, ...]:
    graph = matrix > 0
    count, labels = csgraph.connected_components(graph.astype(float), directed=True, connection="strong")
    members = [np.flatnonzero(labels == label) for label in range(count)]
    found = []
    for states in sorted(members, key=lambda one: one[0]):
        outside = np.ones(len(graph), bool)
        outside[states] = False
        within = graph[np.ix_(states, states)]
        closed = not graph[np.ix_(states, outside)].any()
        found.append(CommunicatingClass(tuple(int(s) for s in states), closed, _period(within)))
    return tuple(found)


def _period(within: np.ndarray) -> int:
    """The greatest common divisor of the lengths of all cycles: of `depth(i) + 1 - depth(j)` over the moves i to j."""
    depth = csgraph.shortest_path(within.astype(float), unweighted=True, indices=0)
    i, j = np.nonzero(within)
    if not len(i):
        return 0
    return int(np.gcd.reduce(np.abs(depth[i] + 1 - depth[j]).astype(int)))


def _basis(matrix: np.ndarray) -> tuple[tuple[CommunicatingClass, ...], np.ndarray]:
    closed = tuple(one for one in _classes(matrix) if one.is_closed)
    basis = np.zeros((len(closed), len(matrix)))
    for row, one in zip(basis, closed, strict=True):
        row[list(one.states)] = _eliminated(matrix[np.ix_(one.states, one.states)])
    return closed, basis


def _eliminated(matrix: np.ndarray) -> np.ndarray:
    """The stationary distribution of an irreducible chain: states are cut out one by one, then put back."""
    left = matrix.copy()
    for last in range(len(left) - 1, 0, -1):
        left[:last, last] /= left[last, :last].sum()
        left[:last, :last] += np.outer(left[:last, last], left[last, :last])
    weights = np.ones(len(left))
    for state in range(1, len(left)):
        weights[state] = weights[:state] @ left[:state, state]
    return weights / weights.sum()


def _solved(matrix: Array) -> Array:
    """`pi (1 - A + E) = e`, where E and e are all ones: regular if and only if there is one closed class."""
    size = matrix.shape[-1]
    if matrix.ndim != 2:
        raise ArgumentError(f"stationary(transition): needs a square matrix, not shape {matrix.shape}")
    found = jnp.linalg.solve(
        (jnp.eye(size, dtype=matrix.dtype) - matrix + 1.0).T, jnp.ones(size, matrix.dtype)
    )
    return eqx.error_if(
        found, ~(found >= -1e-4), "stationary(transition): the stationary distribution is not unique"
    )


def _spelled(states: tuple[int, ...]) -> str:
    shown = ", ".join(str(state) for state in states[:6])
    return f"states {{{shown}{', ...' if len(states) > 6 else ''}}}"


__all__ = [
    "CommunicatingClass",
    "NotUniqueError",
    "Reversibility",
    "classes",
    "is_reversible",
    "period",
    "stationary",
    "stationary_basis",
]
