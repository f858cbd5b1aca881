"""Dual numbers `a + b ε` with `ε² = 0`: forward mode by operator overloading.

Arithmetic with them carries an exact derivative along: `f(a + b ε) = f(a) + b f'(a) ε`, with no step size. Parts may be
numbers, arrays or dual numbers again; every level of nesting has its own ε, told apart by a tag, so derivatives of
functions that take derivatives inside come out right. NumPy's functions (`np.sin(x)`, `np.exp(x)`, ...) accept duals;
`lift` in `dual_mode` makes any JAX function do so.
"""

from collections.abc import Callable, Iterator
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError


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
        self.tangent = _spread(tangent, primal)
        self.tag = 1 + max(tag_of(primal), tag_of(tangent)) if tag is None else tag

    def __repr__(self) -> str:
        return f"Dual({_show(self.primal)}, {_show(self.tangent)})"

    def tree_flatten(self) -> tuple[tuple[Any, Any], int]:
        """Parts, for JAX."""
        return (self.primal, self.tangent), self.tag

    @classmethod
    def tree_unflatten(cls, tag: int, parts: tuple[Any, Any]) -> "Dual":
        """From parts, for JAX, which also puts things here that are not numbers."""
        dual = object.__new__(cls)
        dual.primal, dual.tangent = parts
        dual.tag = tag
        return dual

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
        return _binary(other, self, lambda a, b: a / b, lambda a, b: 1.0 / b, lambda a, b: -a / (b * b))

    def __pow__(self, other: Any) -> "Dual":
        return _power(self, other)

    def __rpow__(self, other: Any) -> "Dual":
        return _power(other, self)

    def __abs__(self) -> "Dual":
        return absolute(self)

    def __matmul__(self, other: Any) -> "Dual":
        return _bilinear(self, other, lambda a, b: a @ b)

    def __rmatmul__(self, other: Any) -> "Dual":
        return _bilinear(other, self, lambda a, b: a @ b)

    def __getitem__(self, index: Any) -> "Dual":
        return Dual(self.primal[index], self.tangent[index], self.tag)

    def __len__(self) -> int:
        return len(self.primal)

    def __iter__(self) -> Iterator["Dual"]:
        return (self[i] for i in range(len(self)))

    # Comparisons look at values only: they decide branches, which have no derivative.
    def __eq__(self, other: object) -> Any:
        return value(self) == value(other)

    def __ne__(self, other: object) -> Any:
        return value(self) != value(other)

    __hash__ = None  # type: ignore[assignment]  # as for other things that compare by value and can change

    def __lt__(self, other: Any) -> Any:
        return value(self) < value(other)

    def __le__(self, other: Any) -> Any:
        return value(self) <= value(other)

    def __gt__(self, other: Any) -> Any:
        return value(self) > value(other)

    def __ge__(self, other: Any) -> Any:
        return value(self) >= value(other)

    def sum(self, axis: Any = None, dtype: None = None, out: None = None) -> "Dual":
        """Sum of the entries; `np.sum` comes here too, with arguments that only arrays can use."""
        if dtype is not None or out is not None:
            raise TypeError("the sum of a dual number takes an axis only")
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


# ---------------------------------------------------------------------- the rules


def tag_of(x: Any) -> int:
    """Which ε belongs to a number; 0 if none."""
    return x.tag if isinstance(x, Dual) else 0


def is_dual(x: Any) -> bool:
    """Whether a thing is a dual number."""
    return isinstance(x, Dual)


def primal_of(x: Any, tag: int) -> Any:
    """What is left of `x` when the ε of that tag is zero."""
    if tag_of(x) > tag:
        return Dual(primal_of(x.primal, tag), primal_of(x.tangent, tag), x.tag)
    return x.primal if tag_of(x) == tag else x


def tangent_of(x: Any, tag: int) -> Any:
    """What stands in front of the ε of that tag."""
    if tag_of(x) > tag:
        return Dual(tangent_of(x.primal, tag), tangent_of(x.tangent, tag), x.tag)
    return x.tangent if tag_of(x) == tag else 0.0


def _spread(tangent: Any, primal: Any) -> Any:
    """A tangent as large as its primal: numbers move all entries of an array alike."""
    wanted, found = _shape(primal), _shape(tangent)
    if wanted == found:
        return tangent
    if isinstance(tangent, Dual):
        return Dual(_spread(tangent.primal, primal), _spread(tangent.tangent, primal), tangent.tag)
    try:
        if np.broadcast_shapes(wanted, found) == wanted:
            inside = isinstance(value(primal), jax.Array) or isinstance(tangent, jax.Array)
            return (jnp if inside else np).broadcast_to(tangent, wanted)
    except ValueError:  # how NumPy says that shapes do not go together
        pass
    raise ArgumentError(f"Dual: the tangent has shape {found}, the primal {wanted}")


def _shape(x: Any) -> tuple[int, ...]:
    return () if isinstance(x, float | int) else tuple(np.shape(value(x)))


def _binary(
    x: Any,
    y: Any,
    f: Callable[[Any, Any], Any],
    slope_x: Callable[[Any, Any], Any],
    slope_y: Callable[[Any, Any], Any],
) -> Dual:
    """The higher level decides; whatever belongs to a lower one is a constant to it."""
    tag = max(tag_of(x), tag_of(y))
    a, b = primal_of(x, tag), primal_of(y, tag)
    parts = []
    if tag_of(x) == tag:
        parts.append(x.tangent * slope_x(a, b))
    if tag_of(y) == tag:
        parts.append(y.tangent * slope_y(a, b))
    return Dual(f(a, b), parts[0] if len(parts) == 1 else parts[0] + parts[1], tag)


def _power(x: Any, y: Any) -> Dual:
    return _binary(x, y, lambda a, b: a**b, _base_slope, _exponent_slope)


def _base_slope(a: Any, b: Any) -> Any:
    """`b a^(b-1)`, also where the exponent vanishes."""
    if isinstance(b, float | int):
        if b == 0:
            return 0.0
        if b < 1:
            _refuse_zero(a, f"x**{b:g} has no derivative at zero")
    return b * a ** (b - 1)


def _exponent_slope(a: Any, b: Any) -> Any:
    """`a^b log a`, which tends to zero with a."""
    if isinstance(a, float | int) and a == 0:
        return 0.0
    return a**b * log(a)


def _larger(x: Any, y: Any) -> Any:
    """The larger of two numbers; where they are equal they share the derivative."""
    if not (is_dual(x) or is_dual(y)):
        inside = isinstance(x, jax.Array) or isinstance(y, jax.Array)
        return jnp.maximum(x, y) if inside else _python(np.maximum(x, y))
    share = lambda a, b: 0.5 + 0.5 * sign(value(a) - value(b))  # noqa: E731
    return _binary(x, y, _larger, share, lambda a, b: share(b, a))


def _bilinear(x: Any, y: Any, product: Callable[[Any, Any], Any]) -> Dual:
    tag = max(tag_of(x), tag_of(y))
    a, b = primal_of(x, tag), primal_of(y, tag)
    parts = []
    if tag_of(x) == tag:
        parts.append(product(x.tangent, b))
    if tag_of(y) == tag:
        parts.append(product(a, y.tangent))
    return Dual(product(a, b), parts[0] if len(parts) == 1 else parts[0] + parts[1], tag)


def _refuse_zero(x: Any, problem: str = "") -> None:
    bottom = value(x)
    if not isinstance(bottom, jax.core.Tracer) and np.any(np.asarray(bottom) == 0):
        raise ArgumentError(
            problem or "division by a dual number whose real part is zero: it has no inverse",
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


def _inverse(a: Any, name: str) -> Any:
    _refuse_zero(a, f"{name} has no derivative here")
    return 1.0 / a


def _plain(numpy_function: Any, jax_function: Any) -> Callable[[Any], Any]:
    return lambda x: jax_function(x) if isinstance(x, jax.Array) else _python(numpy_function(x))


def _python(x: Any) -> Any:
    return float(x) if isinstance(x, np.floating) else x


exp: Elementary = _elementary("exp", _plain(np.exp, jnp.exp), lambda a: exp(a))
log: Elementary = _elementary("log", _plain(np.log, jnp.log), lambda a: _inverse(a, "log"))
sin: Elementary = _elementary("sin", _plain(np.sin, jnp.sin), lambda a: cos(a))
cos: Elementary = _elementary("cos", _plain(np.cos, jnp.cos), lambda a: -sin(a))
tan: Elementary = _elementary("tan", _plain(np.tan, jnp.tan), lambda a: 1.0 + tan(a) ** 2)
sinh: Elementary = _elementary("sinh", _plain(np.sinh, jnp.sinh), lambda a: cosh(a))
cosh: Elementary = _elementary("cosh", _plain(np.cosh, jnp.cosh), lambda a: sinh(a))
tanh: Elementary = _elementary("tanh", _plain(np.tanh, jnp.tanh), lambda a: 1.0 - tanh(a) ** 2)
arctan: Elementary = _elementary("arctan", _plain(np.arctan, jnp.arctan), lambda a: 1.0 / (1.0 + a * a))
arcsin: Elementary = _elementary(
    "arcsin", _plain(np.arcsin, jnp.arcsin), lambda a: _inverse(sqrt(1.0 - a * a), "arcsin")
)
arccos: Elementary = _elementary(
    "arccos", _plain(np.arccos, jnp.arccos), lambda a: -_inverse(sqrt(1.0 - a * a), "arccos")
)
sqrt: Elementary = _elementary("sqrt", _plain(np.sqrt, jnp.sqrt), lambda a: 0.5 * _inverse(sqrt(a), "sqrt"))
square: Elementary = _elementary("square", lambda a: a * a, lambda a: 2.0 * a)
log1p: Elementary = _elementary("log1p", _plain(np.log1p, jnp.log1p), lambda a: _inverse(1.0 + a, "log1p"))
expm1: Elementary = _elementary("expm1", _plain(np.expm1, jnp.expm1), lambda a: exp(a))
sign: Elementary = _elementary("sign", _plain(np.sign, jnp.sign), lambda a: 0.0)
absolute: Elementary = _elementary("absolute", abs, lambda a: sign(value(a)))

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
    np.log1p: log1p,
    np.expm1: expm1,
    np.sign: sign,
    np.negative: lambda x: -x,
    np.maximum: _larger,
    np.minimum: lambda a, b: -_larger(-a, -b),
    # NumPy numbers and arrays on the left hand these over.
    np.add: lambda a, b: b + a if isinstance(b, Dual) else a + b,
    np.subtract: lambda a, b: b.__rsub__(a) if not isinstance(a, Dual) else a - b,
    np.multiply: lambda a, b: b * a if isinstance(b, Dual) else a * b,
    np.divide: lambda a, b: b.__rtruediv__(a) if not isinstance(a, Dual) else a / b,
    np.power: _power,
    np.matmul: lambda a, b: _bilinear(a, b, lambda x, y: x @ y),
    np.equal: lambda a, b: value(a) == value(b),
    np.not_equal: lambda a, b: value(a) != value(b),
    np.less: lambda a, b: value(a) < value(b),
    np.less_equal: lambda a, b: value(a) <= value(b),
    np.greater: lambda a, b: value(a) > value(b),
    np.greater_equal: lambda a, b: value(a) >= value(b),
}


def _show(part: Any) -> str:
    return repr(part.tolist()) if isinstance(part, jax.Array | np.ndarray) and part.ndim == 0 else repr(part)


__all__ = [
    "Dual",
    "absolute",
    "arccos",
    "arcsin",
    "arctan",
    "cos",
    "cosh",
    "exp",
    "expm1",
    "is_dual",
    "log",
    "log1p",
    "primal_of",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tag_of",
    "tan",
    "tangent_of",
    "tanh",
    "value",
]
