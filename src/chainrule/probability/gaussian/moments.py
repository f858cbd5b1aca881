"""Moments of normal variables: by pairings (Isserlis, Wick), and as derivatives of the moment generating function.

E exp<a, X> = exp(<a, m> + aᵀ C a / 2). Its mixed derivatives at a = 0 are the moments, those of its logarithm
the cumulants: mean, covariance, and zero from the third order on. For a centred X the moment of X_i1 ... X_in is the
sum over all (n - 1)!! ways to pair the factors of the products of their covariances.

Reference: Isserlis, On a formula for the product-moment coefficient of any order of a normal frequency distribution,
Biometrika 12, 1918.
"""

import functools
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.core.types import Array, Float, Scalar
from chainrule.probability.distributions.parameters import floating
from chainrule.probability.gaussian.covariances import checked_normal

ENUMERATED = 12
"""Products of up to so many factors are expanded into pairings: there are 10,395 of twelve, 135,135 of fourteen."""
_COEFFICIENTS = 2**22


def moment_generating_function(a: Any, mean: Any, covariance: Any) -> Scalar:
    """E exp<a, X> = exp(<a, mean> + aᵀ covariance a / 2).

    >>> round(float(moment_generating_function([1.0], [1.0], [[2.0]])), 4)
    7.3891
    """
    return jnp.exp(cumulant_generating_function(a, mean, covariance))


def cumulant_generating_function(a: Any, mean: Any, covariance: Any) -> Scalar:
    """Logarithm of the moment generating function: <a, mean> + aᵀ covariance a / 2.

    >>> float(cumulant_generating_function([1.0], [1.0], [[2.0]]))
    2.0
    """
    centre, spread = checked_normal("cumulant_generating_function", mean, covariance)
    at = floating(a)
    if at.shape != centre.shape:
        raise ArgumentError(
            f"cumulant_generating_function(a): shape {at.shape} does not fit a mean of shape {centre.shape}",
            remedy="for several points: jax.vmap over a",
        )
    return at @ centre + at @ spread @ at / 2


def derivative_at_zero(generating: Callable[[Array], Scalar], indices: Sequence[int], size: int) -> Scalar:
    """The mixed partial derivative along `indices` at zero of a function of `size` variables, by nested forward mode.

    Of a moment generating function it is E[X_i1 ... X_in], of its logarithm the joint cumulant. The work doubles with
    every factor.

    >>> poisson = lambda a: 3.0 * (jnp.exp(a[0]) - 1)  # all cumulants of Poisson(3) are 3
    >>> float(derivative_at_zero(poisson, [0, 0, 0, 0], 1))
    3.0
    """
    chosen = _indices("derivative_at_zero", indices, size)
    derivative = generating
    for index in chosen:
        direction = np.zeros(size)
        direction[index] = 1.0
        derivative = functools.partial(_along, derivative, direction)
    return jax.jit(derivative)(jnp.zeros(size))


def _along(function: Callable[[Array], Scalar], direction: np.ndarray, at: Array) -> Scalar:
    return jax.jvp(function, (at,), (jnp.asarray(direction, at.dtype),))[1]


def cumulant(mean: Any, covariance: Any, indices: Sequence[int]) -> Scalar:
    """The joint cumulant of the variables at `indices`: mean, covariance, then zero.

    >>> [float(cumulant([1.0], [[2.0]], [0] * order)) for order in (1, 2, 3)]
    [1.0, 2.0, 0.0]
    """
    centre, spread = checked_normal("cumulant", mean, covariance)
    if not len(indices):
        raise ArgumentError("cumulant(indices): at least one variable is needed")
    return derivative_at_zero(lambda a: cumulant_generating_function(a, centre, spread), indices, len(centre))


def moment(covariance: Any, indices: Sequence[Any], mean: Any = None) -> Scalar:
    """E[X_i1 ... X_in] of normal X; indices may repeat, and `mean` is zero unless given.

    Up to twelve factors by pairings; beyond that, with a warning that says so, from the derivatives of the moment
    generating function, all orders up to the wanted one together.

    >>> float(moment([[1.0, 0.5], [0.5, 1.0]], [0, 0, 1, 1]))  # 1 + 2 * 0.5²
    1.5
    >>> float(moment([[1.0]], [0, 0, 0], mean=[2.0]))  # 2³ + 3 * 2
    14.0
    """
    given = mean is not None
    centre, spread = checked_normal(
        "moment", mean if given else jnp.zeros(floating(covariance).shape[:1]), covariance
    )
    chosen = _indices("moment", indices, len(centre))
    if not given and len(chosen) % 2:
        return jnp.zeros((), spread.dtype)
    if len(chosen) > ENUMERATED:
        warnings.warn(
            f"moment(indices): {len(chosen)} factors have {pairing_count(len(chosen) // 2 * 2):,} pairings; taken "
            "from the derivatives of the moment generating function instead",
            ChainruleWarning,
            stacklevel=2,
        )
        return _by_taylor_coefficients(centre, spread, chosen)
    total = jnp.zeros((), spread.dtype)
    for alone in range(len(chosen) % 2, len(chosen) + 1 if given else 1, 2):
        paired, single = _pairings(len(chosen), alone)
        pairs, singles = chosen[paired], chosen[single]
        terms = spread[pairs[..., 0], pairs[..., 1]].prod(axis=1) * centre[singles].prod(axis=1)
        total = total + terms.sum()
    return total


def pairings(count: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Every way to pair the numbers 0 to count - 1; none for an odd count.

    >>> list(pairings(4))
    [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]
    """
    return _paired(tuple(range(whole("pairings", "count", count, least=0))))


def pairing_count(count: int) -> int:
    """How many there are: (count - 1)!! for an even count, none for an odd one.

    >>> [pairing_count(count) for count in (2, 4, 6, 8)]
    [1, 3, 15, 105]
    """
    return 0 if count % 2 else math.prod(range(count - 1, 0, -2))


def _paired(numbers: tuple[int, ...]) -> Iterator[tuple[tuple[int, int], ...]]:
    if not numbers:
        yield ()
        return
    first, *others = numbers
    for other in others:
        rest = tuple(number for number in others if number != other)
        for pairs in _paired(rest):
            yield ((first, other), *pairs)


@functools.cache
def _pairings(count: int, alone: int) -> tuple[np.ndarray, np.ndarray]:
    """Every choice of `alone` factors with every pairing of the others: arrays (ways, pairs, 2) and (ways, alone)."""
    patterns = np.array(list(pairings(count - alone)), dtype=np.int64).reshape(
        pairing_count(count - alone), (count - alone) // 2, 2
    )
    paired, single = [], []
    for chosen in itertools.combinations(range(count), alone):
        others = np.setdiff1d(np.arange(count), chosen)
        paired.append(others[patterns])
        single.append(np.tile(np.array(chosen, dtype=np.int64), (len(patterns), 1)))
    return np.concatenate(paired), np.concatenate(single)


def _by_taylor_coefficients(
    mean: Float[Array, " size"], covariance: Float[Array, "size size"], indices: np.ndarray
) -> Scalar:
    """The moment from the Taylor coefficients c_k of the generating function, all k up to the wanted powers.

    Its derivative along a_i is (m_i + sum_j C_ij a_j) times itself, so that
    k_i c_k = m_i c_{k - e_i} + sum_j C_ij c_{k - e_i - e_j}: coefficients of one degree come from the two before it.
    """
    variables, powers = np.unique(indices, return_counts=True)
    mean, covariance = mean[variables], covariance[variables[:, None], variables[None]]
    shape = tuple(int(power) + 1 for power in powers)
    if math.prod(shape) > _COEFFICIENTS:
        raise ArgumentError(
            f"moment(indices): {len(indices)} factors of {len(variables)} variables need {math.prod(shape):,} "
            f"derivatives; at most {_COEFFICIENTS:,} are computed",
            remedy="use fewer different variables, or estimate the moment from samples",
        )
    exponents = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=-1)
    degrees = exponents.sum(axis=1)
    steps = np.array([math.prod(shape[axis + 1 :]) for axis in range(len(shape))])
    found = (
        jnp.zeros(len(exponents) + 1, covariance.dtype).at[0].set(1.0)
    )  # the last one stands for negative powers
    for degree in range(1, int(powers.sum()) + 1):
        at = np.flatnonzero(degrees == degree)
        lead = (exponents[at] > 0).argmax(axis=1)
        lower = exponents[at].copy()
        lower[np.arange(len(at)), lead] -= 1
        before = at - steps[lead]
        twice = np.where(lower > 0, before[:, None] - steps[None], len(exponents))
        values = mean[lead] * found[before] + (covariance[lead] * found[twice]).sum(axis=1)
        found = found.at[at].set(values / exponents[at, lead])
    return found[-2] * math.prod(math.factorial(power) for power in powers)


def _indices(where: str, indices: Sequence[Any], size: int) -> np.ndarray:
    found = np.array([whole(where, "indices", index, least=0) for index in indices], dtype=np.int64)
    if (found >= size).any():
        raise ArgumentError(
            f"{where}(indices): there is no variable {found.max()} among {size}",
            remedy=f"variables are numbered 0 to {size - 1}",
        )
    return found


__all__ = [
    "cumulant",
    "cumulant_generating_function",
    "derivative_at_zero",
    "moment",
    "moment_generating_function",
    "pairing_count",
    "pairings",
]
