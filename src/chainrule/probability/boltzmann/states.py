"""All vectors of zeros and ones, and sums over them in pieces that fit into memory."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float

MOST_UNITS = 20
"""Units whose states are all visited: a million."""
_AT_ONCE = 12
"""Units whose states are in memory together: 4,096."""


def binary_states(units: int, dtype: Any = None) -> Float[Array, "states units"]:
    """Every vector of so many zeros and ones; the last unit changes fastest.

    >>> binary_states(2).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    check_countable("binary_states", units)
    return _bits(jnp.arange(2**units), units, dtype or jnp.result_type(float))


def log_sum_over_states(
    log_terms: Callable[[Float[Array, "states units"]], Float[Array, "states *batch"]],
    units: int,
    dtype: Any = None,
) -> Float[Array, "*batch"]:
    """`log sum_x exp(log_terms(x))` over all vectors of zeros and ones, 4,096 of them at a time.

    Its gradient visits them again instead of keeping what was computed on the way.

    >>> float(log_sum_over_states(lambda x: jnp.log(2.0) * x.sum(axis=1), 3))  # log of (1 + 2)^3
    3.295836925506592
    """
    check_countable("log_sum_over_states", units)
    together = min(units, _AT_ONCE)

    @jax.checkpoint
    def piece(number: Array) -> Array:
        states = _bits(number * 2**together + jnp.arange(2**together), units, dtype or jnp.result_type(float))
        return jax.nn.logsumexp(log_terms(states), axis=0)

    return jax.nn.logsumexp(jax.lax.map(piece, jnp.arange(2 ** (units - together))), axis=0)


def _bits(numbers: Array, units: int, dtype: Any) -> Array:
    shifts = jnp.arange(units - 1, -1, -1)
    return ((numbers[:, None] >> shifts[None, :]) & 1).astype(dtype)


def check_countable(where: str, units: int) -> None:
    """Raise where there are too many states to visit."""
    if units > MOST_UNITS:
        raise ArgumentError(
            f"{where}: {units} units have 2^{units} states; at most {MOST_UNITS} units can be enumerated",
            remedy="use annealed_log_partition, an estimate with a standard error",
        )


def check_binary(where: str, x: Any) -> None:
    """Raise unless all entries are zero or one; inside compiled code, where they are unknown, nothing happens.

    >>> check_binary("BoltzmannMachine.log_prob", np.array([0.0, 0.3]))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: BoltzmannMachine.log_prob: x holds 0.3; its entries are zeros and ones
           binarise the data first, for example (x > 0.5)
    """
    if isinstance(x, jax.core.Tracer):
        return
    found = np.asarray(x)
    other = found[(found != 0) & (found != 1)]
    if other.size:
        raise ArgumentError(
            f"{where}: x holds {other[0]:g}; its entries are zeros and ones",
            remedy="binarise the data first, for example (x > 0.5)",
        )


__all__ = ["MOST_UNITS", "binary_states", "check_binary", "check_countable", "log_sum_over_states"]
