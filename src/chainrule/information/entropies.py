"""Entropies and mutual information of tables of probabilities, of known distributions and of normal variables.

A table has one axis for each variable; variables are named by the numbers of their axes, and those that are not named
are summed over. 0 log 0 is 0. Everything is exact in double precision on the host.

The differential entropy of a density may be negative and changes with the scale of its variable; mutual information is
never negative and does not.

Reference: Cover and Thomas, Elements of Information Theory, 2nd edition, 2006, chapters 2 and 8.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.information.tables import table
from chainrule.information.units import scale, takes_base
from chainrule.probability.distributions import Distribution

Axis: TypeAlias = int | np.integer[Any]
Axes: TypeAlias = Axis | Sequence[Axis]
"""One variable of a table, or several that are taken together."""


@takes_base
def entropy(p: Any, unit: str = "bits") -> float:
    """The entropy of all variables of a table together; of a distribution with a density, its differential entropy.

    >>> round(entropy([0.9, 0.1]), 6), round(entropy([[0.25, 0.25], [0.5, 0.0]]), 6)
    (0.468996, 1.5)
    >>> from chainrule.probability import Uniform
    >>> round(entropy(Uniform(0.0, 0.25)), 6)  # of a density that lives on less than a unit interval
    -2.0
    """
    factor = scale(unit, "entropy")
    if isinstance(p, Distribution):
        if p.batch_shape:
            raise ArgumentError(
                f"entropy(p): one distribution at a time, not a batch of shape {p.batch_shape}"
            )
        return float(p.entropy()) * factor
    return total(table("entropy", "p", p)) * factor


@takes_base
def conditional_entropy(joint: Any, of: Axes = 0, given: Axes = 1, unit: str = "bits") -> float:
    """What is left to know of some variables once others are known: -sum p(x, y) log p(x given y).

    >>> round(conditional_entropy([[0.45, 0.05], [0.05, 0.45]]), 6)
    0.468996
    """
    factor = scale(unit, "conditional_entropy")
    values = table("conditional_entropy", "joint", joint)
    groups = _groups("conditional_entropy", values.ndim, of=of, given=given)
    return (_of(values, *groups) - _of(values, groups[1])) * factor


@takes_base
def cross_entropy(p: Any, q: Any, unit: str = "bits") -> float:
    """The mean length -sum p log q of outcomes of p in the code made for q; infinite where p > 0 = q.

    >>> round(cross_entropy([0.5, 0.5], [0.9, 0.1]), 6)
    1.736966
    """
    factor = scale(unit, "cross_entropy")
    first, second = table("cross_entropy", "p", p), table("cross_entropy", "q", q)
    if first.shape != second.shape:
        raise ArgumentError(
            f"cross_entropy: p has shape {first.shape}, q has shape {second.shape}: they need the same outcomes"
        )
    likely = first > 0
    with np.errstate(divide="ignore"):
        # Adding zero turns the -0.0 of a certain outcome into 0.
        return float(-(first[likely] * np.log(second[likely])).sum()) * factor + 0.0


@takes_base
def mutual_information(joint: Any, x: Axes = 0, y: Axes = 1, given: Axes = (), unit: str = "bits") -> float:
    """What x and y tell about each other, I(x; y) = H(x) + H(y) - H(x, y), or what they do once `given` is known.

    >>> mutual_information([[0.5, 0.0], [0.0, 0.5]]), round(mutual_information([[0.45, 0.05], [0.05, 0.45]]), 6)
    (1.0, 0.531004)
    >>> parity = np.zeros((2, 2, 2))
    >>> parity[[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]] = 0.25
    >>> mutual_information(parity), mutual_information(parity, 0, 1, given=2)
    (0.0, 1.0)
    """
    factor = scale(unit, "mutual_information")
    values = table("mutual_information", "joint", joint)
    a, b, c = _groups("mutual_information", values.ndim, x=x, y=y, given=given)
    return shared(values, a, b, c) * factor


@takes_base
def interaction_information(joint: Any, x: Axes = 0, y: Axes = 1, z: Axes = 2, unit: str = "bits") -> float:
    """How much z adds to what x and y tell about each other: I(x; y given z) - I(x; y), the same for any order.

    Positive where variables work together (parity: 1 bit), negative where they repeat each other. Some texts have the
    opposite sign.

    >>> copies = np.zeros((2, 2, 2))
    >>> copies[0, 0, 0] = copies[1, 1, 1] = 0.5
    >>> interaction_information(copies)
    -1.0
    """
    factor = scale(unit, "interaction_information")
    values = table("interaction_information", "joint", joint)
    a, b, c = _groups("interaction_information", values.ndim, x=x, y=y, z=z)
    return (shared(values, a, b, c) - shared(values, a, b, ())) * factor


@takes_base
def chain_rule(joint: Any, unit: str = "bits") -> np.ndarray:
    """The terms H(X_1), H(X_2 given X_1), H(X_3 given X_1 and X_2), ... of a table; they sum to its entropy.

    >>> chain_rule([[0.25, 0.25], [0.5, 0.0]]).round(6).tolist()
    [1.0, 0.5]
    """
    factor = scale(unit, "chain_rule")
    values = table("chain_rule", "joint", joint)
    known = [_of(values, tuple(range(k))) for k in range(values.ndim + 1)]
    return np.diff(known) * factor


@takes_base
def gaussian_mutual_information(
    covariance: Any, x: Axes = 0, y: Axes | None = None, given: Axes = (), unit: str = "bits"
) -> float:
    """Mutual information of variables that are normal together: -1/2 log det(1 - Sx⁻¹ Sxy Sy⁻¹ Syx).

    `y` defaults to all that are neither `x` nor `given`. Of two with correlation r it is -1/2 log(1 - r²).

    >>> round(gaussian_mutual_information([[1.0, 0.8], [0.8, 1.0]]), 6)
    0.736966
    """
    where = "gaussian_mutual_information"
    factor = scale(unit, where)
    matrix = covariance_matrix(where, "covariance", covariance)
    if y is None:
        taken = {*_axes(x), *_axes(given)}
        y = tuple(k for k in range(len(matrix)) if k not in taken)
    a, b, c = _groups(where, len(matrix), x=x, y=y, given=given)

    def log_det(kept: Sequence[int]) -> float:
        return float(np.linalg.slogdet(matrix[np.ix_(kept, kept)])[1]) if kept else 0.0

    found = log_det(a + c) + log_det(b + c) - log_det(c) - log_det(a + b + c)
    return max(found / 2, 0.0) * factor


def covariance_matrix(where: str, name: str, given: Any) -> np.ndarray:
    """A symmetric, positive definite matrix in float64, as exact formulas of normal variables need it."""
    matrix = np.asarray(given, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ArgumentError(f"{where}({name}): needs a square matrix, not shape {matrix.shape}")
    if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-12):
        raise ArgumentError(f"{where}({name}): a covariance is finite and symmetric")
    smallest = float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0])
    if smallest <= 1e-14 * np.trace(matrix):
        raise ArgumentError(
            f"{where}({name}): its smallest eigenvalue is {smallest:.3g}; no density, no finite information",
            remedy="leave out variables that are functions of others, or add the noise they are measured with",
        )
    return (matrix + matrix.T) / 2


def total(values: np.ndarray) -> float:
    """The entropy of checked probabilities of any shape, in nats."""
    likely = values[values > 0]
    # Adding zero turns the -0.0 of a certain outcome into 0.
    return float(-(likely * np.log(likely)).sum()) + 0.0


def shared(
    values: np.ndarray, a: Sequence[int] = (0,), b: Sequence[int] = (1,), given: Sequence[int] = ()
) -> float:
    """The mutual information of two groups of axes of a checked table, in nats; rounding never makes it negative."""
    found = _of(values, a, given) + _of(values, b, given) - _of(values, a, b, given) - _of(values, given)
    return max(found, 0.0)


def _of(values: np.ndarray, *groups: Sequence[int]) -> float:
    """The entropy of the axes in all groups, the others summed over, in nats."""
    kept = {axis for group in groups for axis in group}
    return (
        total(np.asarray(values.sum(axis=tuple(k for k in range(values.ndim) if k not in kept))))
        if kept
        else 0.0
    )


def _groups(where: str, count: int, **groups: Axes) -> list[tuple[int, ...]]:
    """Disjoint groups of axes; every group but `given` has to name one."""
    found: list[tuple[int, ...]] = []
    for name, axes in groups.items():
        chosen = _axes(axes)
        for axis in chosen:
            if not 0 <= axis < count:
                raise ArgumentError(
                    f"{where}({name}={axes}): variables are numbered 0 to {count - 1}",
                    remedy="a joint table has one axis for each variable" if count < 2 else "",
                )
            if any(axis in other for other in found) or chosen.count(axis) > 1:
                raise ArgumentError(f"{where}({name}={axes}): variable {axis} is named twice")
        if not chosen and name != "given":
            raise ArgumentError(f"{where}({name}={axes}): name at least one variable")
        found.append(chosen)
    return found


def _axes(axes: Axes) -> tuple[int, ...]:
    return (int(axes),) if isinstance(axes, int | np.integer) else tuple(map(int, axes))


__all__ = [
    "chain_rule",
    "conditional_entropy",
    "covariance_matrix",
    "cross_entropy",
    "entropy",
    "gaussian_mutual_information",
    "interaction_information",
    "mutual_information",
    "shared",
    "total",
]
