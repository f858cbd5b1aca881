"""Kinds of numbers: discrete, exact, floating; and the types of bounds and masks."""

import functools
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.derive.jaxprs.equations import inner_programs

Bounds: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Smallest and largest possible numbers: int64, bool or float64."""
Mask: TypeAlias = np.ndarray
"""False where an element is certainly zero."""

_WIDE = {"f": np.float64, "i": np.int64, "u": np.int64, "b": np.bool_}


@functools.cache
def kind(dtype: Any) -> str:
    """One letter: f (floating), c (complex), i, u (whole), b (truth), x (anything else, such as random keys)."""
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        return "x"
    letter = np.dtype(dtype).kind
    if letter == "V":  # bfloat16 and its like call themselves void
        return "f" if jnp.issubdtype(dtype, jnp.floating) else "i"
    return letter if letter in "fciub" else "x"


def is_inexact(aval: Any) -> bool:
    """Whether derivatives of such a variable exist: floating-point or complex."""
    return kind(getattr(aval, "dtype", None)) in "fc" if hasattr(aval, "dtype") else False


def is_discrete(aval: Any) -> bool:
    """Whether such a variable holds whole numbers or truth values."""
    return kind(aval.dtype) in "iub" if hasattr(aval, "dtype") else False


def calls_back(equation: Any) -> bool:
    """Whether running an equation would call Python code of the user's: callbacks, also those inside inner programs."""
    if "callback" in equation.primitive.name:
        return True
    return any(calls_back(one) for program in inner_programs(equation) for one in program.eqns)


def as_bounds(number: Any) -> Bounds | None:
    """Bounds of known numbers; `None` for complex numbers, random keys and whole numbers beyond 63 bits."""
    letter = kind(number.dtype if hasattr(number, "dtype") else np.asarray(number).dtype)
    if letter in "xc":
        return None
    array = np.asarray(number)
    if letter == "u" and array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        return None
    wide: np.ndarray = array.astype(_WIDE[letter], copy=False)
    return wide, wide


def is_exact(bounds: Bounds) -> bool:
    """Whether the numbers are known."""
    return bounds[0] is bounds[1] or bool((bounds[0] == bounds[1]).all())


__all__ = ["Bounds", "Mask", "as_bounds", "calls_back", "is_discrete", "is_exact", "is_inexact", "kind"]
