"""Sets of examples as everything here reads them: rows of finite numbers, of two sets equally many columns."""

from typing import Any

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError


def rows_of(where: str, name: str, x: Any) -> Float[np.ndarray, "examples features"]:
    """Examples as rows in double precision; raises for anything that is no table of finite numbers.

    >>> rows_of("spread", "x", [[1, 2], [3, 4]]).dtype.name
    'float64'
    >>> rows_of("spread", "x", [1.0, 2.0])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: spread(x): shape (2,); examples are rows of numbers
           numbers: x[:, None]; images: x.reshape(len(x), -1)
    """
    found = np.asarray(x, np.float64)
    if found.ndim != 2:
        raise ArgumentError(
            f"{where}({name}): shape {found.shape}; examples are rows of numbers",
            remedy=f"numbers: {name}[:, None]; images: {name}.reshape(len({name}), -1)",
        )
    if not np.isfinite(found.sum()):  # a tenth of the time of looking at every entry
        wrong = ~np.isfinite(found).all(axis=1)
        if wrong.any():
            raise ArgumentError(
                f"{where}({name}): example {int(np.argmax(wrong))} has an entry that is not finite",
                remedy="leave such examples out, and say how many they were",
            )
    return found


def two_sets(
    where: str, one: Any, other: Any, least: int, names: tuple[str, str] = ("one", "other")
) -> tuple[Float[np.ndarray, "some features"], Float[np.ndarray, "others features"]]:
    """Two sets of rows with the same columns and at least so many rows each.

    >>> [len(rows) for rows in two_sets("fidelity", [[1.0]], [[2.0], [3.0]], 1)]
    [1, 2]
    """
    first, second = (rows_of(where, name, x) for name, x in zip(names, (one, other), strict=True))
    if first.shape[1] != second.shape[1]:
        raise ArgumentError(
            f"{where}: examples of {names[0]} have {first.shape[1]} entries, those of {names[1]} {second.shape[1]}",
            remedy="compare both in the same features",
        )
    if min(len(first), len(second)) < least:
        raise ArgumentError(
            f"{where}: {len(first)} and {len(second)} examples are too few",
            remedy=f"give {least} or more of each kind",
        )
    return first, second


__all__ = ["rows_of", "two_sets"]
