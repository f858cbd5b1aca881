"""Variable elimination: exact marginals of finite factors without ever forming the whole joint table."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from chainrule.core.errors import ArgumentError

_LARGEST = 10**8
"""Entries of a factor beyond which it would not fit into memory."""


class TableFactor(NamedTuple):
    """A table of numbers over named variables."""

    names: tuple[str, ...]
    values: np.ndarray


def eliminate(factors: Iterable[TableFactor], keep: Sequence[str]) -> np.ndarray:
    """The product of all factors, summed over every variable that is not kept; axes in the order of `keep`.

    Variables go in the order in which the next one makes the smallest factor.
    """
    left = list(factors)
    sizes = {name: n for factor in left for name, n in zip(factor.names, factor.values.shape, strict=True)}
    going = [name for name in sizes if name not in keep]
    while going:
        name = min(going, key=lambda one: _cost(one, left, sizes))
        going.remove(name)
        touched = [factor for factor in left if name in factor.names]
        rest = tuple(dict.fromkeys(one for factor in touched for one in factor.names if one != name))
        left = [factor for factor in left if name not in factor.names]
        left.append(TableFactor(rest, _product(touched, rest, sizes)))
    return _product(left, tuple(keep), sizes)


def _cost(name: str, factors: Sequence[TableFactor], sizes: dict[str, int]) -> int:
    joined = {one for factor in factors if name in factor.names for one in factor.names}
    cost = 1
    for one in joined:
        cost *= sizes[one]
    return cost


def _product(factors: Sequence[TableFactor], keep: tuple[str, ...], sizes: dict[str, int]) -> np.ndarray:
    """The product of factors, summed over what is not kept."""
    names = list(dict.fromkeys([*keep, *(one for factor in factors for one in factor.names)]))
    entries = 1
    for name in names:
        entries *= sizes[name]
    if entries > _LARGEST:
        raise ArgumentError(
            f"marginal: a factor of {entries:,} entries over {', '.join(names)} would not fit into memory",
            remedy="ask for fewer variables at once, condition on more, or estimate from draws: sample(key, (10000,))",
        )
    number = {name: k for k, name in enumerate(names)}
    operands: list[object] = []
    for factor in factors:
        operands += [factor.values, [number[name] for name in factor.names]]
    if not operands:
        return np.ones(())
    found: np.ndarray = np.einsum(*operands, [number[name] for name in keep], optimize=True)  # type: ignore[call-overload]
    return found


__all__ = ["TableFactor", "eliminate"]
