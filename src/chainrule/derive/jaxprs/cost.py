"""Cost model of equations: floating-point operations and bytes, before any fusion.

| operation | flops |
|---|---|
| matrix product (`dot_general`) | 2 per multiply-add: twice the result's entries times the contracted length |
| convolution | 2 per multiply-add, zero padding counted like data |
| elementwise (any function, cheap or not) | 1 per entry of the result |
| reduction, cumulative sum or product, scatter with a sum | 1 per entry of the operand (of the update) |
| moving data: reshape, broadcast, slice, gather, transpose, pad, copy, cast, select, constants | 0 |
| sort, Fourier transform | n log2 n, 5 n log2 n along the axis |
| Cholesky, LU, QR, triangular solve | n^3/3, 2n^3/3, 2n^2(m - n/3), n^2 per right-hand side |
| eigenvalues, singular values | 9 n^3, 14 m n^2: what the usual algorithms take, not exact |
| call, loop, branch | the inside, times the number of steps, of the dearest branch |

A `while` loop counts one step where the number of steps is not known.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr

from chainrule.derive.jaxprs import equations as eqs

# fmt: off
_FREE = frozenset((
    "broadcast_in_dim", "reshape", "transpose", "squeeze", "slice", "dynamic_slice",
    "dynamic_update_slice", "gather", "scatter", "pad", "concatenate", "rev", "copy",
    "convert_element_type", "bitcast_convert_type", "iota", "select_n", "stop_gradient", "real", "imag",
    "complex", "split", "device_put", "name", "sharding_constraint", "optimization_barrier",
    "reduce_precision", "random_wrap", "random_unwrap", "random_seed", "debug_callback",
))
# fmt: on


def flops(equation: Any, steps: int | None = None) -> int:
    """Floating-point operations of one equation; `steps` is how often a `while` loop ran, where that is known."""
    name = equation.primitive.name
    if name in _FREE:
        return 0
    if name in _RULES:
        return int(_RULES[name](equation))
    inner = [program_flops(program) for program in eqs.inner_programs(equation)]
    if name == "scan":
        return int(equation.params["length"]) * inner[0]
    if name == "while":
        return (1 if steps is None else steps) * program_flops(eqs.closed(equation.params["body_jaxpr"]))
    if name == "cond":
        return max(inner)
    if eqs.body(equation) is not None:
        return inner[0]
    if name.startswith(("reduce_", "cum", "argm")):
        return _entries(equation.invars[:1])
    if name.startswith("scatter"):
        return _entries(equation.invars[2:3])
    return _entries(equation.outvars[:1])


def program_flops(program: ClosedJaxpr) -> int:
    """Floating-point operations of a whole program."""
    return sum(flops(equation) for equation in program.eqns)


def nbytes(atoms: Sequence[Any]) -> int:
    """Bytes of some variables."""
    return sum(math.prod(atom.aval.shape) * _itemsize(atom.aval) for atom in atoms if _is_array(atom))


def _is_array(atom: Any) -> bool:
    return hasattr(atom.aval, "shape") and hasattr(atom.aval, "dtype")


def _itemsize(aval: Any) -> int:
    return int(aval.dtype.itemsize)


def _entries(atoms: Sequence[Any]) -> int:
    return sum(math.prod(atom.aval.shape) for atom in atoms if _is_array(atom))


def _dot(equation: Any) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return 2 * _entries(equation.outvars) * math.prod(left[axis] for axis in contracted)


def _convolution(equation: Any) -> int:
    kernel = equation.invars[1].aval.shape
    outputs = kernel[equation.params["dimension_numbers"].rhs_spec[0]]
    per_entry = math.prod(kernel) // outputs if outputs else 0
    return 2 * _entries(equation.outvars) * per_entry


def _sort(equation: Any) -> int:
    length = equation.invars[0].aval.shape[equation.params["dimension"]]
    return int(_entries(equation.invars[:1]) * math.log2(max(length, 2)))


def _fft(equation: Any) -> int:
    points = math.prod(equation.params["fft_lengths"])
    return int(5 * _entries(equation.invars[:1]) * math.log2(max(points, 2)))


def _matrices(equation: Any) -> tuple[int, int, int]:
    """How many matrices the first operand holds, their larger and their smaller side."""
    *batch, rows, columns = equation.invars[0].aval.shape
    return math.prod(batch), max(rows, columns), min(rows, columns)


def _cubic(factor: float) -> Callable[[Any], int]:
    def count(equation: Any) -> int:
        batch, long, short = _matrices(equation)
        return int(np.ceil(factor * batch * long * short**2))

    return count


def _qr(equation: Any) -> int:
    batch, long, short = _matrices(equation)
    return int(batch * 2 * short**2 * (long - short / 3))


def _triangular(equation: Any) -> int:
    return int(_entries(equation.outvars) * equation.invars[0].aval.shape[-1])


_RULES: dict[str, Callable[[Any], int]] = {
    "dot_general": _dot,
    "conv_general_dilated": _convolution,
    "sort": _sort,
    "fft": _fft,
    "cholesky": _cubic(1 / 3),
    "lu": _cubic(2 / 3),
    "geqrf": _qr,
    "qr": _qr,
    "householder_product": _qr,
    "triangular_solve": _triangular,
    "eigh": _cubic(9),
    "eig": _cubic(9),
    "svd": _cubic(14),
}

__all__ = ["flops", "nbytes", "program_flops"]
