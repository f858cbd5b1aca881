"""Array summaries: entries while they are few, statistics when they are many, as text and as plain data."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SHOWN = 4
"""Entries written out in tables and pictures."""
KEPT = 16
"""Entries written out in JSON."""


def is_numeric(value: Any) -> bool:
    """Whether a value holds numbers (random keys do not)."""
    dtype = getattr(value, "dtype", None)
    return dtype is not None and bool(jnp.issubdtype(dtype, jnp.number) or jnp.issubdtype(dtype, jnp.bool_))


def to_host(value: Any) -> np.ndarray:
    """A numeric array on the host in a type NumPy can compute with."""
    array = np.asarray(value)
    return array if array.dtype.kind in "biufc" else array.astype(np.float64)


def number(value: Any) -> str:
    """One number with up to five significant digits.

    >>> number(7.0), number(0.39322386), number(-1.5e-9), number(True), number(12345678)
    ('7', '0.39322', '-1.5e-09', 'True', '12345678')
    """
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (complex, np.complexfloating)):
        return f"{value.real:.4g}{value.imag:+.4g}j"
    return f"{float(value) + 0.0:.5g}"  # adding zero takes the sign off a negative zero


def brief(value: Any) -> str:
    """A value in a few characters; more than four entries, or long ones, become their mean and norm.

    >>> brief(jnp.array([1.0, 2.5])), brief(jnp.zeros((0, 3)))
    ('[1, 2.5]', 'empty (0, 3)')
    >>> brief(jnp.arange(6.0))
    'mean 2.5, norm 7.42'
    """
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return "; ".join(brief(one) for one in value)
    if not is_numeric(value):
        return str(jax.typeof(value))
    array = to_host(value)
    if array.ndim == 0:
        return number(array[()])
    if array.size == 0:
        return f"empty {array.shape}"
    if array.size <= SHOWN:
        written = "[" + ", ".join(number(entry) for entry in array.ravel()) + "]"
        if len(written) <= 28:
            return written
    facts = statistics(array)
    if not facts["finite"]:
        return f"{facts['nonfinite']} of {array.size} not finite"
    if array.dtype.kind == "b":
        return f"{int(array.sum())} of {array.size} true"
    return f"mean {facts['mean']:.3g}, norm {facts['norm']:.3g}"


def statistics(value: Any) -> dict[str, Any]:
    """Minimum, mean, maximum and norm of an array (of absolute values, if complex), and how many are not finite."""
    array = to_host(value)
    size = np.abs(array) if array.dtype.kind == "c" else array.astype(np.float64)
    finite = np.isfinite(size)
    facts: dict[str, Any] = {
        "size": int(array.size),
        "finite": bool(finite.all()),
        "nonfinite": int((~finite).sum()),
    }
    if array.size and facts["finite"]:
        facts |= {
            "min": float(size.min()),
            "mean": float(size.mean()),
            "max": float(size.max()),
            "norm": float(np.linalg.norm(size)),
        }
    return facts


def plain(value: Any) -> Any:
    """A value as JSON: numbers while there are at most sixteen, statistics otherwise; not-finite numbers as text."""
    if value is None:
        return None
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if not is_numeric(value):
        return str(jax.typeof(value))
    array = to_host(value)
    return _strict(array.tolist()) if array.size <= KEPT else statistics(array)


def pairing(adjoint: Any, tangent: Any) -> float:
    """The product r·t: the real part of the sum of entrywise products, accumulated in double precision."""
    if adjoint is None or tangent is None:
        return 0.0
    left, right = to_host(adjoint), to_host(tangent)
    wide = np.complex128 if "c" in (left.dtype.kind, right.dtype.kind) else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.real(np.sum(left.astype(wide) * right.astype(wide))))


def _strict(entry: Any) -> Any:
    if isinstance(entry, list):
        return [_strict(one) for one in entry]
    if isinstance(entry, complex):
        return {"real": _strict(entry.real), "imag": _strict(entry.imag)}
    return str(entry) if isinstance(entry, float) and not np.isfinite(entry) else entry


__all__ = ["KEPT", "SHOWN", "brief", "is_numeric", "number", "pairing", "plain", "statistics", "to_host"]
