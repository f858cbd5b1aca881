"""Formulas of equations: `x ** 2`, `a + b`, `sum(a, axes=(0,))`.

The text is for reading: parameters that only matter to the compiler are left out.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.derive.jaxprs import equations as eqs

_INFIX = {
    "add": "+",
    "add_any": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "pow": "**",
    "rem": "%",
    "gt": ">",
    "lt": "<",
    "ge": ">=",
    "le": "<=",
    "eq": "==",
    "ne": "!=",
    "and": "&",
    "or": "|",
    "xor": "^",
}
_PREFIX = {"neg": "-", "not": "~"}
_CALLED = {
    "reduce_sum": "sum",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_prod": "prod",
    "dot_general": "dot",
    "select_n": "select",
    "convert_element_type": "cast",
    "conv_general_dilated": "convolve",
    "logistic": "sigmoid",
    "dynamic_update_slice": "update_slice",
}
# What a reader needs to tell two operations of one name apart; everything else is for the compiler.
_SHOWN: dict[str, Callable[[Any], str]] = {
    "broadcast_in_dim": lambda p: f"shape={tuple(p['shape'])}",
    "reshape": lambda p: f"shape={tuple(p['new_sizes'])}",
    "transpose": lambda p: f"axes={tuple(p['permutation'])}",
    "convert_element_type": lambda p: str(np.dtype(p["new_dtype"]).name) if _plain(p["new_dtype"]) else "",
    "slice": lambda p: ", ".join(
        f"{a}:{b}" for a, b in zip(p["start_indices"], p["limit_indices"], strict=True)
    ),
    "concatenate": lambda p: f"axis={p['dimension']}",
    "iota": lambda p: f"shape={tuple(p['shape'])}",
    "cumsum": lambda p: f"axis={p['axis']}",
    "dot_general": lambda p: _contraction(p["dimension_numbers"]),
    "scan": lambda p: f"{p['length']} steps",
    "cond": lambda p: f"{len(p['branches'])} branches",
    "reduce_precision": lambda p: f"bits={p['exponent_bits']}e{p['mantissa_bits']}m",
}


def formula(equation: Any, operands: Sequence[str]) -> str:
    """The right-hand side of an equation, given the names of its operands."""
    rank = len(getattr(equation.invars[0].aval, "shape", ())) if equation.invars else 0
    return render(equation.primitive.name, eqs.label(equation), equation.params, operands, rank)


def render(name: str, label: str, params: dict[str, Any], operands: Sequence[str], rank: int) -> str:
    """The same from the parts of an equation; `rank` is that of its first operand.

    >>> render("integer_pow", "integer_pow", {"y": 2}, ["x"], 0), render("mul", "mul", {}, ["a", "2.0"], 0)
    ('x ** 2', 'a * 2.0')
    """
    if name in _INFIX and len(operands) == 2:
        return f"{operands[0]} {_INFIX[name]} {operands[1]}"
    if name in _PREFIX and len(operands) == 1:
        return f"{_PREFIX[name]}{operands[0]}"
    if name == "integer_pow":
        return f"{operands[0]} ** {params['y']}"
    if name == "dot_general" and params["dimension_numbers"] == (((rank - 1,), (0,)), ((), ())):
        return f"{operands[0]} @ {operands[1]}"
    shown = _SHOWN[name](params) if name in _SHOWN else ""
    if not shown and "axes" in params:
        shown = f"axes={tuple(params['axes'])}"
    return f"{_CALLED.get(name, label)}({', '.join([*operands, *([shown] if shown else [])])})"


def literal(value: Any) -> str:
    """A number written into a program.

    >>> literal(np.float32(2.5)), literal(np.int32(3)), literal(np.bool_(True))
    ('2.5', '3', 'True')
    """
    array = np.asarray(value)
    if array.shape:
        return f"{array.dtype.name}{list(array.shape)}"
    number = array.item() if array.dtype.kind in "biufc" else array.astype(np.float64).item()
    return repr(float(f"{number:.6g}")) if isinstance(number, float) else str(number)


def _plain(dtype: Any) -> bool:
    return isinstance(dtype, (np.dtype, type))


def _contraction(numbers: Any) -> str:
    (left, right), (batch, _) = numbers
    text = f"contract {tuple(left)} with {tuple(right)}"
    return f"{text}, batch {tuple(batch)}" if batch else text


__all__ = ["formula", "literal", "render"]
