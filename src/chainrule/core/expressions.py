"""Formulas written by a person, such as `tanh(w*x) + x**2`: read as arithmetic and never evaluated as code.

The text is parsed, and only numbers, variables, arithmetic and a fixed list of functions are let through; everything
else is refused by name. What comes out is an ordinary JAX function of its variables.
"""

import ast
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, suggest

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(jnp, name)
        for name in ("sin", "cos", "tan", "tanh", "sinh", "cosh", "exp", "log", "sqrt")
    },
    **{name: getattr(jnp, name) for name in ("abs", "arctan", "arcsin", "arccos", "sign")},
    **{name: getattr(jax.nn, name) for name in ("sigmoid", "relu", "softplus", "gelu", "elu", "silu")},
    "erf": jax.lax.erf,
    "max": jnp.maximum,
    "min": jnp.minimum,
}
"""Functions a formula may call; all take one number, `max` and `min` two."""
_CONSTANTS = {"pi": math.pi, "e": math.e}
_TWO = ("max", "min")
_LONGEST = 1000
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}


@final
@dataclass(frozen=True)
class Expression:
    """A formula as a function of its variables, in the order in which they appear.

    >>> f = read("w*x + x^2")
    >>> f.variables, float(f(2.0, 3.0))
    (('w', 'x'), 15.0)
    """

    text: str
    variables: tuple[str, ...]
    tree: ast.expr

    def __call__(self, *values: Any) -> Any:
        if len(values) != len(self.variables):
            raise ArgumentError(f"{self.text}: takes {', '.join(self.variables)}, not {len(values)} values")
        return jnp.asarray(_evaluate(self.tree, dict(zip(self.variables, values, strict=True))))

    @property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([inspect.Parameter(name, kind) for name in self.variables])


def read(text: str) -> Expression:
    """The function a formula describes.

    >>> read("open(x)")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: formula 'open(x)': there is no function 'open'
           functions: sin cos tan tanh sinh cosh exp log sqrt abs arctan arcsin arccos sign sigmoid relu softplus ...
    """
    if len(text) > _LONGEST:
        raise ArgumentError(f"formula of {len(text)} characters: at most {_LONGEST} are read")
    try:
        tree = ast.parse(text.strip().replace("^", "**"), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refused(text, "not a formula", "write for example: tanh(w*x) + x**2") from None
    found: dict[str, None] = {}
    _check(text, tree, found)
    return Expression(text.strip(), tuple(found), tree)


def _check(text: str, node: ast.expr, found: dict[str, None]) -> None:
    """Let through what is arithmetic; collect the variables."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            if not abs(value) < 1e300:
                raise _refused(text, "a number is too large", "write numbers below 1e300")
        case ast.Name(id=name):
            if name in FUNCTIONS:
                raise _refused(text, f"{name} is a function", f"write {name}(...)")
            if name not in _CONSTANTS:
                found[name] = None
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            _check(text, left, found)
            _check(text, right, found)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            _check(text, operand, found)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            if name not in FUNCTIONS:
                raise _refused(
                    text,
                    f"there is no function {name!r}{suggest(name, FUNCTIONS)}",
                    f"functions: {' '.join(FUNCTIONS)}",
                )
            if len(args) != 1 + (name in _TWO):
                raise _refused(text, f"{name} takes {1 + (name in _TWO)} and not {len(args)}", "")
            for one in args:
                _check(text, one, found)
        case _:
            raise _refused(
                text,
                f"{ast.unparse(node)!r} is not arithmetic",
                "numbers, variables, + - * / ** and functions such as sin(x)",
            )


def _evaluate(node: ast.expr, values: dict[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name):
            return values[name] if name in values else _CONSTANTS[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _combine(op, _evaluate(left, values), _evaluate(right, values))
        case ast.UnaryOp(op=op, operand=operand):
            found = _evaluate(operand, values)
            return -found if isinstance(op, ast.USub) else found
        case ast.Call(func=ast.Name(id=name), args=args):
            return FUNCTIONS[name](*(_evaluate(one, values) for one in args))
    raise AssertionError(f"{ast.dump(node)} was let through")


def _combine(op: ast.operator, left: Any, right: Any) -> Any:
    numbers = isinstance(left, float) and isinstance(right, float)
    if isinstance(op, ast.Pow) and isinstance(right, float) and right.is_integer() and abs(right) <= 64:
        right = int(right)  # x**2 is a product, also for negative x
    if not numbers:
        return _OPERATORS[type(op)](left, right)
    with np.errstate(all="ignore"):  # as everywhere in arrays, 1/0 is infinite
        return float(_OPERATORS[type(op)](np.float64(left), right))


def _refused(text: str, why: str, remedy: str) -> ArgumentError:
    return ArgumentError(f"formula {text!r}: {why}", remedy=remedy)


__all__ = ["FUNCTIONS", "Expression", "read"]
