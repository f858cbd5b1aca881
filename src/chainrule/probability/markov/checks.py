"""Transition matrices and start distributions as users give them: checked once, in double precision.

Tables of a chain are exact: whatever is given as numbers is computed in float64 on the host or inside
`in_numbers`; values inside a compiled function keep their own precision and are checked as the function runs.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array

TOLERANCE = 1e-6
"""How far the sum of a distribution may be from one."""


def is_traced(*values: Any) -> bool:
    """Whether any of them is known only when a compiled function runs."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


@contextlib.contextmanager
def in_numbers() -> Iterator[None]:
    """Computations in double precision, and at once: inside a compiled function, where numbers are constants, too."""
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        yield


def exactly(compute: Callable[..., Any], *values: Any) -> Any:
    """`compute(*values)` of arrays: of numbers in double precision, as NumPy arrays; of traced values traced."""
    if is_traced(*values):
        return compute(*map(jnp.asarray, values))
    with in_numbers():
        return jax.tree.map(np.asarray, compute(*map(jnp.asarray, values)))


def transition_matrix(where: str, given: Any) -> np.ndarray:
    """A matrix of numbers whose rows are distributions, in float64, each divided by its sum to the last digit.

    >>> transition_matrix("stationary", [[0.5, 0.25], [0.5, 0.75]])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: stationary(transition): row 0 sums to 0.75; rows must sum to 1 within 1e-06
           its columns do: pass the transpose, transition.T
    """
    table = _numbers(where, "transition", given)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not table.size:
        raise ArgumentError(
            f"{where}(transition): needs a square matrix (states, states), not shape {table.shape}",
            remedy="entry (i, j) is the probability of going from state i to state j",
        )
    return _distributions(where, "transition", table)


def transition_matrices(where: str, given: Any) -> Any:
    """One matrix, or one for each step (steps, states, states); traced arrays are checked when they have values."""
    if is_traced(given):
        return _traced(where, "transition", given, (2, 3))
    table = _numbers(where, "transition", given)
    if table.ndim == 3 and table.shape[1] == table.shape[2] and table.size:
        return np.stack([_distributions(where, f"transition[{t}]", one) for t, one in enumerate(table)])
    return transition_matrix(where, table)


def distribution(where: str, name: str, given: Any, states: int) -> Any:
    """One distribution over the states, as a vector; the number of a state stands for certainty of it.

    >>> distribution("sample", "start", 1, 3).tolist()
    [0.0, 1.0, 0.0]
    """
    if is_traced(given):
        vector: Any = _traced(where, name, given, (1,))
    else:
        found = _numbers(where, name, given)
        if found.ndim == 0 and np.issubdtype(np.asarray(given).dtype, np.integer):
            check_state(where, name, int(found), states)
            return np.eye(states)[int(found)]
        vector = found if found.ndim != 1 else _distributions(where, name, found[None])[0]
    if vector.shape != (states,):
        raise ArgumentError(
            f"{where}({name}): shape {vector.shape} for {states} states",
            remedy=f"give {states} probabilities, or the number of a state",
        )
    return vector


def check_state(where: str, name: str, number: int, states: int) -> None:
    """Raise unless the number is that of a state."""
    if not 0 <= number < states:
        raise ArgumentError(f"{where}({name}={number}): the {states} states are numbered 0 to {states - 1}")


def _numbers(where: str, name: str, given: Any) -> np.ndarray:
    dense = given.toarray() if scipy.sparse.issparse(given) else given
    try:
        return np.asarray(dense, np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{where}({name}): needs an array of numbers, not {type(given).__name__}",
            remedy="rows of equal length, one probability an entry",
        ) from None


def _distributions(where: str, name: str, table: np.ndarray) -> np.ndarray:
    of_rows = f"row {{}} of {where}({name})" if len(table) > 1 else f"{where}({name})"
    bad = np.argwhere(~((table >= 0) & np.isfinite(table)))
    if len(bad):
        row, column = bad[0]
        raise ArgumentError(
            f"{of_rows.format(row)} holds {table[row, column]:g} at position {column}: a probability is neither "
            "negative nor missing"
        )
    sums = table.sum(axis=1)
    off = np.flatnonzero(np.abs(sums - 1) > TOLERANCE)
    if len(off):
        row = off[0]
        square = len(table) > 1 and table.shape[0] == table.shape[1]
        if square and (np.abs(table.sum(axis=0) - 1) <= TOLERANCE).all():
            remedy = f"its columns do: pass the transpose, {name}.T"
        else:
            remedy = f"to rescale counts or rounded numbers: {name} / {name}.sum(axis=-1, keepdims=True)"
        at = f"row {row} sums" if len(table) > 1 else "it sums"
        rows = "rows" if len(table) > 1 else "probabilities"
        raise ArgumentError(
            f"{where}({name}): {at} to {sums[row]:.6g}; {rows} must sum to 1 within {TOLERANCE:g}",
            remedy=remedy,
        )
    return table / sums[:, None]


def _traced(where: str, name: str, given: Any, axes: tuple[int, ...]) -> Array:
    array = jnp.asarray(given)
    if array.ndim not in axes:
        raise ArgumentError(f"{where}({name}): needs {axes[0]} axes, not shape {array.shape}")
    array = eqx.error_if(
        array, ~(array >= 0), f"{where}({name}) has a probability that is negative or not a number"
    )
    # Products of a compiled function in single precision are further from one than numbers a person writes.
    return eqx.error_if(
        array, jnp.abs(array.sum(axis=-1) - 1) > 1e-4, f"{where}({name}): a row does not sum to one"
    )


__all__ = [
    "TOLERANCE",
    "check_state",
    "distribution",
    "exactly",
    "in_numbers",
    "is_traced",
    "transition_matrices",
    "transition_matrix",
]
