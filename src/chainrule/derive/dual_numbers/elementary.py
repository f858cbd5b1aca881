"""Elementary functions of dual numbers: NumPy's, entry by entry, each with its slope.

Slopes are written with functions of this module, so that they work on duals of duals.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.derive.dual_numbers.dual import (
    UFUNCS,
    Dual,
    bilinear,
    binary,
    is_dual,
    primal_of,
    refuse,
    refuse_zero,
    select,
    tag_of,
    value,
)

Elementary = Callable[[Any], Any]
OfTwo = Callable[[Any, Any], Any]


def _elementary(ufunc: Any, slope: Callable[[Any], Any]) -> Elementary:
    """One of NumPy's functions, of numbers, arrays and duals."""
    name = ufunc.__name__

    def function(x: Any) -> Any:
        if isinstance(x, Dual):
            return Dual(function(x.primal), x.tangent * slope(x.primal), x.tag)
        return getattr(jnp, name)(x) if isinstance(x, jax.Array) else _python(ufunc(x))

    function.__name__ = name
    function.__doc__ = f"{name} of a number, an array or a dual number."
    UFUNCS[ufunc] = function
    return function


def _python(x: Any) -> Any:
    return float(x) if isinstance(x, np.floating) else x


def _inverse(a: Any, name: str) -> Any:
    refuse_zero(a, f"{name} has no derivative here")
    return 1.0 / a


def _constant(_: Any) -> float:
    return 0.0


exp: Elementary = _elementary(np.exp, lambda a: exp(a))
exp2: Elementary = _elementary(np.exp2, lambda a: math.log(2.0) * exp2(a))
expm1: Elementary = _elementary(np.expm1, lambda a: exp(a))
log: Elementary = _elementary(np.log, lambda a: _inverse(a, "log"))
log2: Elementary = _elementary(np.log2, lambda a: _inverse(a, "log2") / math.log(2.0))
log10: Elementary = _elementary(np.log10, lambda a: _inverse(a, "log10") / math.log(10.0))
log1p: Elementary = _elementary(np.log1p, lambda a: _inverse(1.0 + a, "log1p"))
sin: Elementary = _elementary(np.sin, lambda a: cos(a))
cos: Elementary = _elementary(np.cos, lambda a: -sin(a))
tan: Elementary = _elementary(np.tan, lambda a: 1.0 + tan(a) * tan(a))
arcsin: Elementary = _elementary(np.arcsin, lambda a: _inverse(sqrt(1.0 - a * a), "arcsin"))
arccos: Elementary = _elementary(np.arccos, lambda a: -_inverse(sqrt(1.0 - a * a), "arccos"))
arctan: Elementary = _elementary(np.arctan, lambda a: 1.0 / (1.0 + a * a))
sinh: Elementary = _elementary(np.sinh, lambda a: cosh(a))
cosh: Elementary = _elementary(np.cosh, lambda a: sinh(a))
tanh: Elementary = _elementary(np.tanh, lambda a: 1.0 - tanh(a) * tanh(a))
arcsinh: Elementary = _elementary(np.arcsinh, lambda a: 1.0 / sqrt(1.0 + a * a))
arccosh: Elementary = _elementary(np.arccosh, lambda a: _inverse(sqrt(a - 1.0) * sqrt(a + 1.0), "arccosh"))
arctanh: Elementary = _elementary(np.arctanh, lambda a: _inverse(1.0 - a * a, "arctanh"))
sqrt: Elementary = _elementary(np.sqrt, lambda a: 0.5 * _inverse(sqrt(a), "sqrt"))
cbrt: Elementary = _elementary(np.cbrt, lambda a: _inverse(3.0 * square(cbrt(a)), "cbrt"))
square: Elementary = _elementary(np.square, lambda a: 2.0 * a)
reciprocal: Elementary = _elementary(np.reciprocal, lambda a: -square(_inverse(a, "reciprocal")))
deg2rad: Elementary = _elementary(np.deg2rad, lambda a: math.pi / 180.0)
rad2deg: Elementary = _elementary(np.rad2deg, lambda a: 180.0 / math.pi)
sign: Elementary = _elementary(np.sign, _constant)
absolute: Elementary = _elementary(np.absolute, lambda a: sign(value(a)))
_ufunc: Any
for _ufunc in (np.floor, np.ceil, np.trunc, np.rint, np.spacing):
    _elementary(_ufunc, _constant)
UFUNCS |= {np.fabs: absolute, np.radians: deg2rad, np.degrees: rad2deg}


# ---------------------------------------------------------------------- powers


def power(x: Any, y: Any) -> Any:
    """`x ** y`, with the exact derivative wherever there is one: also at zero and for negative numbers."""
    return _power_log(x, y, 0)


def _power_log(x: Any, y: Any, n: int) -> Any:
    """`x**y log(x)**n`: the functions that derivatives of powers are made of, to every order."""
    tag = max(tag_of(x), tag_of(y))
    if tag == 0:
        return _power_log_value(x, y, n)
    a, b = primal_of(x, tag), primal_of(y, tag)
    parts = []
    if tag_of(x) == tag:
        parts.append(_part(x.tangent, functools.partial(_base_slope, n=n), a, b))
    if tag_of(y) == tag:
        parts.append(_part(y.tangent, functools.partial(_power_log, n=n + 1), a, b))
    return Dual(_power_log(a, b, n), sum(parts[1:], start=parts[0]), tag)


def _part(tangent: Any, slope: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Tangent times slope; what does not move has no part in it, also where there is no slope."""
    still = _vanishes(tangent)
    if not isinstance(still, jax.core.Tracer) and not np.any(still):
        return tangent * slope(a, b)
    return tangent * slope(select(still, 1.0, a), select(still, 1.0, b))


def _vanishes(x: Any) -> Any:
    return _vanishes(x.primal) & _vanishes(x.tangent) if isinstance(x, Dual) else x == 0


def _base_slope(a: Any, b: Any, n: int) -> Any:
    """`b a**(b-1) log(a)**n + n a**(b-1) log(a)**(n-1)`."""
    lower = n * _power_log(a, b - 1.0, n - 1) if n else 0.0
    # An exponent of zero makes a constant, also at zero, unless it moves.
    constant = False if is_dual(b) else b == 0
    steep = (value(a) == 0) & _negative(value(b) - 1.0) & _not(constant)
    refuse(steep, f"{_shown(b)} has no derivative at zero")
    return select(constant, 0.0, b) * _power_log(a, select(constant, 1.0, b - 1.0), n) + lower


def _power_log_value(a: Any, b: Any, n: int) -> Any:
    vanishing = a == 0
    if n == 0:
        refuse(vanishing & _negative(b), f"{_shown(b)} is infinite at zero")
        return a**b
    refuse(vanishing & _not(b > 0), "x**y has no derivative at zero where it bends like a logarithm")
    refuse(_negative(a), f"{_shown(b)} with a moving exponent has no derivative where x is negative")
    return select(vanishing, 0.0, a**b * log(select(vanishing, 1.0, a)) ** n)


def _not(x: Any) -> Any:
    return not x if isinstance(x, bool) else ~x


def _negative(x: Any) -> Any:
    return False if jnp.iscomplexobj(x) else x < 0


def _shown(b: Any) -> str:
    return f"x**{b:g}" if isinstance(b, float | int) else "x**y"


# ---------------------------------------------------------------------- two arguments


def maximum(x: Any, y: Any) -> Any:
    """The larger of two numbers; where they are equal they share the derivative."""
    if not (is_dual(x) or is_dual(y)):
        inside = isinstance(x, jax.Array) or isinstance(y, jax.Array)
        return jnp.maximum(x, y) if inside else _python(np.maximum(x, y))
    share = lambda a, b: 0.5 + 0.5 * sign(value(a) - value(b))  # noqa: E731
    return binary(x, y, maximum, share, lambda a, b: share(b, a))


def minimum(x: Any, y: Any) -> Any:
    """The smaller of two numbers; where they are equal they share the derivative."""
    return -maximum(-x, -y)


def _of_two(ufunc: Any, slope_x: OfTwo, slope_y: OfTwo) -> OfTwo:
    """One of NumPy's functions of two arguments."""

    def function(x: Any, y: Any) -> Any:
        if is_dual(x) or is_dual(y):
            return binary(x, y, function, slope_x, slope_y)
        inside = isinstance(x, jax.Array) or isinstance(y, jax.Array)
        return getattr(jnp, ufunc.__name__)(x, y) if inside else _python(ufunc(x, y))

    UFUNCS[ufunc] = function
    return function


def _turned(y: Any, x: Any) -> Any:
    return x / _squares(y, x, "arctan2")


def _squares(x: Any, y: Any, name: str) -> Any:
    total = x * x + y * y
    refuse_zero(total, f"{name} has no derivative at the origin")
    return total


def _cosine(x: Any, y: Any) -> Any:
    """The slope of the length of (x, y) in x: at the origin, a kink, the mean over directions, zero."""
    length = hypot(x, y)
    nowhere = value(length) == 0
    return select(nowhere, 0.0, x / select(nowhere, 1.0, length))


arctan2: OfTwo = _of_two(np.arctan2, _turned, lambda y, x: -y / _squares(y, x, "arctan2"))
hypot: OfTwo = _of_two(np.hypot, _cosine, lambda x, y: _cosine(y, x))
logaddexp: OfTwo = _of_two(
    np.logaddexp,
    lambda a, b: exp(a - logaddexp(a, b)),
    lambda a, b: exp(b - logaddexp(a, b)),
)
logaddexp2: OfTwo = _of_two(
    np.logaddexp2,
    lambda a, b: exp2(a - logaddexp2(a, b)),
    lambda a, b: exp2(b - logaddexp2(a, b)),
)
floor_divide: OfTwo = _of_two(np.floor_divide, lambda a, b: 0.0, lambda a, b: 0.0)
_of_two(np.remainder, lambda a, b: 1.0, lambda a, b: -floor_divide(value(a), value(b)))
_of_two(np.fmod, lambda a, b: 1.0, lambda a, b: -UFUNCS[np.trunc](value(a) / value(b)))
copysign: OfTwo = _of_two(
    np.copysign, lambda a, b: sign(value(a)) * copysign(1.0, value(b)), lambda a, b: 0.0
)
_of_two(np.heaviside, lambda a, b: 0.0, lambda a, b: 1.0 * (value(a) == 0))
_of_two(np.nextafter, lambda a, b: 1.0, lambda a, b: 0.0)


# ---------------------------------------------------------------------- numbers in two parts


def _modf(x: Any) -> tuple[Any, Any]:
    whole = UFUNCS[np.trunc](x)
    return x - whole, whole


def _frexp(x: Any) -> tuple[Any, Any]:
    """A mantissa, and the exponent as a whole number, which does not move."""
    _, exponent = np.frexp(value(x))
    return _ldexp(x, -exponent), exponent


def _ldexp(x: Any, exponent: Any) -> Any:
    if is_dual(exponent):
        raise TypeError("np.ldexp: the exponent is a whole number, not a dual number; np.exp2 takes one")
    return x * np.ldexp(1.0, exponent)


# ---------------------------------------------------------------------- sin(πx) / πx

_SERIES = 24
"""Terms of the series: enough for arguments up to 8."""


def sinc(x: Any) -> Any:
    """`sin(πx) / πx`, which is 1 at zero."""
    return _sinc(math.pi * x, 0)


def _sinc(u: Any, n: int) -> Any:
    """The n-th derivative of sin(u) / u."""
    if isinstance(u, Dual):
        return Dual(_sinc(u.primal, n), u.tangent * _sinc(u.primal, n + 1), u.tag)
    near = abs(u) < n + 2.0
    small, large = select(near, u, 0.0), select(near, 1.0, u)
    first = n + n % 2
    series = 0.0 * small
    for j in reversed(range(first, first + 2 * _SERIES, 2)):
        series = series + (-1) ** (j // 2) / (j + 1) / math.factorial(j - n) * small ** (j - n)
    far = sin(large) / large
    for k in range(1, n + 1):  # (u sinc)^(k) = u sinc^(k) + k sinc^(k-1)
        far = (sin(large + 0.5 * math.pi * k) - k * far) / large
    return _python(select(near, series, far))


def _ignoring_nan(larger: OfTwo) -> OfTwo:
    def function(x: Any, y: Any) -> Any:
        lost_x, lost_y = value(x) != value(x), value(y) != value(y)
        return larger(select(lost_x, y, x), select(lost_y, x, y))

    return function


def _asked(ufunc: Any) -> Callable[..., Any]:
    """Questions are answered by values: they decide branches, which have no derivative."""

    def ask(*args: Any) -> Any:
        values = [value(arg) for arg in args]
        inside = any(isinstance(one, jax.Array) for one in values)
        return (getattr(jnp, ufunc.__name__) if inside else ufunc)(*values)

    return ask


UFUNCS |= {
    np.power: power,
    np.float_power: power,
    np.maximum: maximum,
    np.minimum: minimum,
    np.fmax: _ignoring_nan(maximum),
    np.fmin: _ignoring_nan(minimum),
    np.negative: lambda x: -x,
    np.positive: lambda x: x,
    np.conjugate: lambda x: Dual(np.conjugate(x.primal), np.conjugate(x.tangent), x.tag),
    # NumPy numbers and arrays on the left hand these over.
    np.add: lambda a, b: b + a if isinstance(b, Dual) else a + b,
    np.subtract: lambda a, b: b.__rsub__(a) if not isinstance(a, Dual) else a - b,
    np.multiply: lambda a, b: b * a if isinstance(b, Dual) else a * b,
    np.divide: lambda a, b: b.__rtruediv__(a) if not isinstance(a, Dual) else a / b,
    np.matmul: lambda a, b: bilinear(a, b, lambda x, y: x @ y),
    np.divmod: lambda a, b: (floor_divide(a, b), UFUNCS[np.remainder](a, b)),
    np.modf: _modf,
    np.frexp: _frexp,
    np.ldexp: _ldexp,
}
for _ufunc in (
    *(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal),
    *(
        np.isnan,
        np.isinf,
        np.isfinite,
        np.signbit,
        np.logical_and,
        np.logical_or,
        np.logical_not,
        np.logical_xor,
    ),
):
    UFUNCS[_ufunc] = _asked(_ufunc)


def _whole(ufunc: Any) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        raise TypeError(f"np.{ufunc.__name__} takes whole numbers, which dual numbers are not")

    return refuse


for _ufunc in (
    *(np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.bitwise_count, np.invert),
    *(np.left_shift, np.right_shift, np.gcd, np.lcm, np.isnat),
):
    UFUNCS[_ufunc] = _whole(_ufunc)

__all__ = [
    "absolute",
    "arctan2",
    "cos",
    "exp",
    "hypot",
    "log",
    "maximum",
    "minimum",
    "power",
    "sign",
    "sin",
    "sinc",
    "sqrt",
]
