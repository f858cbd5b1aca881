"""Dual numbers `a + b ε` with `ε² = 0`: forward mode one can hold in the hand.

Arithmetic with them carries an exact derivative along: `f(a + b ε) = f(a) + b f'(a) ε`, with no step size. Parts may be
numbers, arrays or dual numbers again; every level of nesting has its own ε, told apart by a tag, so derivatives of
functions that take derivatives inside come out right. NumPy's functions (`np.sin(x)`, `np.exp(x)`, ...) accept duals;
`lift` makes any JAX function do so.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError

_fresh_tags = itertools.count(1000)  # above the tags that explicit nesting gives


@final
@jax.tree_util.register_pytree_node_class
class Dual:
    """`primal + tangent ε`.

    >>> Dual(2.0, 3.0) * Dual(4.0, 5.0)
    Dual(8.0, 22.0)
    >>> Dual(1.0, 1.0) / Dual(2.0, 0.0)
    Dual(0.5, 0.5)
    >>> np.exp(Dual(0.0, 2.0))
    Dual(1.0, 2.0)
    """

    __slots__ = ("primal", "tag", "tangent")

    def __init__(self, primal: Any, tangent: Any = 0.0, tag: int | None = None) -> None:
        self.primal = primal
        self.tangent = tangent
        self.tag = 1 + max(_tag(primal), _tag(tangent)) if tag is None else tag

    def __repr__(self) -> str:
        return f"Dual({_show(self.primal)}, {_show(self.tangent)})"

    def tree_flatten(self) -> tuple[tuple[Any, Any], int]:
        """Parts, for JAX."""
        return (self.primal, self.tangent), self.tag

    @classmethod
    def tree_unflatten(cls, tag: int, parts: tuple[Any, Any]) -> "Dual":
        """From parts, for JAX."""
        return cls(*parts, tag=tag)

    def __add__(self, other: Any) -> "Dual":
        return _binary(self, other, lambda a, b: a + b, lambda a, b: 1.0, lambda a, b: 1.0)

    def __radd__(self, other: Any) -> "Dual":
        return self + other

    def __neg__(self) -> "Dual":
        return Dual(-self.primal, -self.tangent, self.tag)

    def __pos__(self) -> "Dual":
        return self

    def __sub__(self, other: Any) -> "Dual":
        return _binary(self, other, lambda a, b: a - b, lambda a, b: 1.0, lambda a, b: -1.0)

    def __rsub__(self, other: Any) -> "Dual":
        return -self + other

    def __mul__(self, other: Any) -> "Dual":
        return _binary(self, other, lambda a, b: a * b, lambda a, b: b, lambda a, b: a)

    def __rmul__(self, other: Any) -> "Dual":
        return self * other

    def __truediv__(self, other: Any) -> "Dual":
        _refuse_zero(other)
        return _binary(self, other, lambda a, b: a / b, lambda a, b: 1.0 / b, lambda a, b: -a / (b * b))

    def __rtruediv__(self, other: Any) -> "Dual":
        _refuse_zero(self)
        return _unary(self, lambda b: other / b, lambda b: -other / (b * b))

    def __pow__(self, other: Any) -> "Dual":
        if isinstance(other, Dual):
            return exp(other * log(self))
        return _unary(self, lambda a: a**other, lambda a: other * a ** (other - 1))

    def __rpow__(self, other: Any) -> "Dual":
        return _unary(self, lambda b: other**b, lambda b: other**b * np.log(other))

    def __abs__(self) -> "Dual":
        return absolute(self)

    def __matmul__(self, other: Any) -> "Dual":
        return _bilinear(self, other, lambda a, b: a @ b)

    def __rmatmul__(self, other: Any) -> "Dual":
        return _bilinear(other, self, lambda a, b: a @ b)

    def __getitem__(self, index: Any) -> "Dual":
        return Dual(self.primal[index], self.tangent[index], self.tag)

    # Comparisons look at values only: they decide branches, which have no derivative.
    def __lt__(self, other: Any) -> Any:
        return value(self) < value(other)

    def __le__(self, other: Any) -> Any:
        return value(self) <= value(other)

    def __gt__(self, other: Any) -> Any:
        return value(self) > value(other)

    def __ge__(self, other: Any) -> Any:
        return value(self) >= value(other)

    def sum(self, axis: Any = None) -> "Dual":
        """Sum of the entries."""
        return Dual(self.primal.sum(axis), self.tangent.sum(axis), self.tag)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        rule = _UFUNCS.get(ufunc)
        if method != "__call__" or options or rule is None:
            raise TypeError(
                f"dual numbers do not know np.{ufunc.__name__}; use derive.lift with its JAX version"
            )
        return rule(*inputs)


def value(x: Any) -> Any:
    """The number below all levels of duality."""
    return value(x.primal) if isinstance(x, Dual) else x


def derivative(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`f'` by one evaluation with a fresh ε; may be nested and closed over freely.

    >>> derivative(lambda x: x * derivative(lambda y: x + y)(1.0))(1.0)
    1.0
    """

    def slope(x: Any) -> Any:
        tag = next(_fresh_tags)
        return _tangent(f(Dual(x, jnp.ones_like(x) if isinstance(x, jax.Array) else 1.0, tag)), tag)

    return slope


class HyperDual(NamedTuple):
    """`value + first ε₁ + second ε₂ + mixed ε₁ε₂`."""

    value: Any
    first: Any
    second: Any
    mixed: Any


def hyperdual(f: Callable[[Any], Any], x: Any, v: Any, w: Any) -> HyperDual:
    """`f`, its derivatives along `v` and `w`, and the second derivative along both, by duals of duals.

    >>> hyperdual(lambda x: x**3, 2.0, 1.0, 1.0)
    HyperDual(value=8.0, first=12.0, second=12.0, mixed=12.0)
    """
    one, two = next(_fresh_tags), next(_fresh_tags)
    zero = v * 0.0
    y = f(Dual(Dual(x, v, one), Dual(w, zero, one), two))
    primal, tangent = _primal(y, two), _tangent(y, two)
    return HyperDual(
        _primal(primal, one), _tangent(primal, one), _primal(tangent, one), _tangent(tangent, one)
    )


def lift(f: Callable[..., Any]) -> Callable[..., Any]:
    """Any differentiable JAX function on dual numbers, by its forward derivative.

    >>> lift(jnp.sin)(Dual(0.0, 2.0))
    Dual(0.0, 2.0)
    """

    def lifted(*args: Any) -> Any:
        tag = max(_tag(a) for a in args)
        if tag == 0:
            return f(*args)
        primals = [_primal(a, tag) for a in args]
        tangents = [_tangent(a, tag) for a in args]

        def push(*both: Any) -> Any:
            """The derivative of `f`, itself a JAX function of points and directions, so that it can be lifted again."""
            points = [jnp.asarray(p, jnp.result_type(p, float)) for p in both[: len(args)]]
            moves = [
                jnp.broadcast_to(jnp.asarray(t, p.dtype), p.shape)
                for t, p in zip(both[len(args) :], points, strict=True)
            ]
            return jax.jvp(f, points, moves)[1]

        return Dual(lift(f)(*primals), lift(push)(*primals, *tangents), tag)

    return lifted


# ---------------------------------------------------------------------- the rules


def _tag(x: Any) -> int:
    return x.tag if isinstance(x, Dual) else 0


def _primal(x: Any, tag: int) -> Any:
    return x.primal if _tag(x) == tag else x


def _tangent(x: Any, tag: int) -> Any:
    return x.tangent if _tag(x) == tag else 0.0


def _unary(x: Dual, f: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Dual:
    return Dual(f(x.primal), x.tangent * slope(x.primal), x.tag)


def _binary(
    x: Any,
    y: Any,
    f: Callable[[Any, Any], Any],
    slope_x: Callable[[Any, Any], Any],
    slope_y: Callable[[Any, Any], Any],
) -> Dual:
    """The higher level decides; whatever belongs to a lower one is a constant to it."""
    tag = max(_tag(x), _tag(y))
    a, b = _primal(x, tag), _primal(y, tag)
    parts = []
    if _tag(x) == tag:
        parts.append(x.tangent * slope_x(a, b))
    if _tag(y) == tag:
        parts.append(y.tangent * slope_y(a, b))
    return Dual(f(a, b), parts[0] if len(parts) == 1 else parts[0] + parts[1], tag)


def _bilinear(x: Any, y: Any, product: Callable[[Any, Any], Any]) -> Dual:
    tag = max(_tag(x), _tag(y))
    a, b = _primal(x, tag), _primal(y, tag)
    parts = []
    if _tag(x) == tag:
        parts.append(product(x.tangent, b))
    if _tag(y) == tag:
        parts.append(product(a, y.tangent))
    return Dual(product(a, b), parts[0] if len(parts) == 1 else parts[0] + parts[1], tag)


def _refuse_zero(x: Any) -> None:
    bottom = value(x)
    if not isinstance(bottom, jax.core.Tracer) and np.any(np.asarray(bottom) == 0):
        raise ArgumentError(
            "division by a dual number whose real part is zero: it has no inverse",
            remedy="move the point, or divide out the common factor first",
        )


Elementary = Callable[[Any], Any]


def _elementary(name: str, f: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of numbers, arrays and duals; `slope` is written with such functions, so that it nests."""

    def function(x: Any) -> Any:
        if isinstance(x, Dual):
            return Dual(function(x.primal), x.tangent * slope(x.primal), x.tag)
        return f(x)

    function.__name__ = name
    function.__doc__ = f"{name} of a number, an array or a dual number."
    return function


def _plain(numpy_function: Any, jax_function: Any) -> Callable[[Any], Any]:
    return lambda x: jax_function(x) if isinstance(x, jax.Array) else _python(numpy_function(x))


def _python(x: Any) -> Any:
    return float(x) if isinstance(x, np.floating) else x


exp: Elementary = _elementary("exp", _plain(np.exp, jnp.exp), lambda a: exp(a))
log: Elementary = _elementary("log", _plain(np.log, jnp.log), lambda a: 1.0 / a)
sin: Elementary = _elementary("sin", _plain(np.sin, jnp.sin), lambda a: cos(a))
cos: Elementary = _elementary("cos", _plain(np.cos, jnp.cos), lambda a: -sin(a))
tan: Elementary = _elementary("tan", _plain(np.tan, jnp.tan), lambda a: 1.0 + tan(a) ** 2)
sinh: Elementary = _elementary("sinh", _plain(np.sinh, jnp.sinh), lambda a: cosh(a))
cosh: Elementary = _elementary("cosh", _plain(np.cosh, jnp.cosh), lambda a: sinh(a))
tanh: Elementary = _elementary("tanh", _plain(np.tanh, jnp.tanh), lambda a: 1.0 - tanh(a) ** 2)
arctan: Elementary = _elementary("arctan", _plain(np.arctan, jnp.arctan), lambda a: 1.0 / (1.0 + a * a))
arcsin: Elementary = _elementary("arcsin", _plain(np.arcsin, jnp.arcsin), lambda a: 1.0 / sqrt(1.0 - a * a))
arccos: Elementary = _elementary("arccos", _plain(np.arccos, jnp.arccos), lambda a: -1.0 / sqrt(1.0 - a * a))
sqrt: Elementary = _elementary("sqrt", _plain(np.sqrt, jnp.sqrt), lambda a: 0.5 / sqrt(a))
square: Elementary = _elementary("square", lambda a: a * a, lambda a: 2.0 * a)
absolute: Elementary = _elementary("absolute", abs, lambda a: np.sign(value(a)))

_UFUNCS: dict[Any, Callable[..., Any]] = {
    np.exp: exp,
    np.log: log,
    np.sin: sin,
    np.cos: cos,
    np.tan: tan,
    np.sinh: sinh,
    np.cosh: cosh,
    np.tanh: tanh,
    np.arctan: arctan,
    np.arcsin: arcsin,
    np.arccos: arccos,
    np.sqrt: sqrt,
    np.square: square,
    np.absolute: absolute,
    np.negative: lambda x: -x,
    # NumPy numbers and arrays on the left hand these over.
    np.add: lambda a, b: b + a if isinstance(b, Dual) else a + b,
    np.subtract: lambda a, b: b.__rsub__(a) if not isinstance(a, Dual) else a - b,
    np.multiply: lambda a, b: b * a if isinstance(b, Dual) else a * b,
    np.divide: lambda a, b: b.__rtruediv__(a) if not isinstance(a, Dual) else a / b,
    np.power: lambda a, b: b.__rpow__(a) if not isinstance(a, Dual) else a**b,
    np.matmul: lambda a, b: _bilinear(a, b, lambda x, y: x @ y),
}


def _show(part: Any) -> str:
    return repr(part.tolist()) if isinstance(part, jax.Array | np.ndarray) and part.ndim == 0 else repr(part)


__all__ = [
    "Dual",
    "HyperDual",
    "absolute",
    "arccos",
    "arcsin",
    "arctan",
    "cos",
    "cosh",
    "derivative",
    "exp",
    "hyperdual",
    "lift",
    "log",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "value",
]
