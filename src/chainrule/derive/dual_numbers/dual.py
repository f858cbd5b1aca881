"""Dual numbers `a + b ε` with `ε² = 0`: forward mode by operator overloading.

Arithmetic with them carries an exact derivative along: `f(a + b ε) = f(a) + b f'(a) ε`, with no step size. Parts may be
numbers, arrays or dual numbers again; every level of nesting has its own ε, told apart by a tag, so derivatives of
functions that take derivatives inside come out right. NumPy's functions (`np.sin(x)`, `np.where(x > 0, x, y)`,
`np.stack([x, y])`, ...) accept duals: `elementary` and `array_functions` hold their rules. `lift` in `dual_mode` makes
any JAX function do so, with JAX's rules.

At kinks the derivative is the mean of the slopes on either side: 0 for |x| at 0, one half each where two arguments of a
maximum are equal. Where slopes are infinite there is no derivative, and an error says so.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError

UFUNCS: dict[Any, Callable[..., Any]] = {}
"""Rules of NumPy's functions that work entry by entry."""
REDUCTIONS: dict[tuple[Any, str], Callable[..., Any]] = {}
"""Rules of `np.add.reduce` and the like, by function and method."""
ARRAY_FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""Rules of NumPy's other functions."""


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
        return binary(self, other, lambda a, b: a + b, lambda a, b: 1.0, lambda a, b: 1.0)

    def __radd__(self, other: Any) -> "Dual":
        return self + other

    def __neg__(self) -> "Dual":
        return Dual(-self.primal, -self.tangent, self.tag)

    def __pos__(self) -> "Dual":
        return self

    def __sub__(self, other: Any) -> "Dual":
        return binary(self, other, lambda a, b: a - b, lambda a, b: 1.0, lambda a, b: -1.0)

    def __rsub__(self, other: Any) -> "Dual":
        return -self + other

    def __mul__(self, other: Any) -> "Dual":
        return binary(self, other, lambda a, b: a * b, lambda a, b: b, lambda a, b: a)

    def __rmul__(self, other: Any) -> "Dual":
        return self * other

    def __truediv__(self, other: Any) -> "Dual":
        refuse_zero(other)
        return binary(self, other, lambda a, b: a / b, lambda a, b: 1.0 / b, lambda a, b: -a / (b * b))

    def __rtruediv__(self, other: Any) -> "Dual":
        refuse_zero(self)
        return binary(other, self, lambda a, b: a / b, lambda a, b: 1.0 / b, lambda a, b: -a / (b * b))

    def __pow__(self, other: Any) -> "Dual":
        return UFUNCS[np.power](self, other)

    def __rpow__(self, other: Any) -> "Dual":
        return UFUNCS[np.power](other, self)

    def __abs__(self) -> "Dual":
        return UFUNCS[np.absolute](self)

    def __floordiv__(self, other: Any) -> "Dual":
        return UFUNCS[np.floor_divide](self, other)

    def __rfloordiv__(self, other: Any) -> "Dual":
        return UFUNCS[np.floor_divide](other, self)

    def __mod__(self, other: Any) -> "Dual":
        return UFUNCS[np.remainder](self, other)

    def __rmod__(self, other: Any) -> "Dual":
        return UFUNCS[np.remainder](other, self)

    def __matmul__(self, other: Any) -> "Dual":
        return bilinear(self, other, lambda a, b: a @ b)

    def __rmatmul__(self, other: Any) -> "Dual":
        return bilinear(other, self, lambda a, b: a @ b)

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

    def __bool__(self) -> bool:
        return bool(value(self))

    def __lt__(self, other: Any) -> Any:
        return value(self) < value(other)

    def __le__(self, other: Any) -> Any:
        return value(self) <= value(other)

    def __gt__(self, other: Any) -> Any:
        return value(self) > value(other)

    def __ge__(self, other: Any) -> Any:
        return value(self) >= value(other)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the parts."""
        return _shape(self)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)

    @property
    def T(self) -> "Dual":
        """With the axes in reverse order."""
        return ARRAY_FUNCTIONS[np.transpose](self)

    def sum(self, axis: Any = None) -> "Dual":
        """Sum of the entries."""
        return ARRAY_FUNCTIONS[np.sum](self, axis)

    def mean(self, axis: Any = None) -> "Dual":
        """Mean of the entries."""
        return ARRAY_FUNCTIONS[np.mean](self, axis)

    def reshape(self, *shape: Any) -> "Dual":
        """The same entries in another shape."""
        return ARRAY_FUNCTIONS[np.reshape](self, shape[0] if len(shape) == 1 else shape)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__":
            rule = REDUCTIONS.get((ufunc, method))
            if rule is None:
                raise unknown(f"{ufunc.__name__}.{method}")
            return rule(*inputs, **{"axis": 0, **options})
        rule = UFUNCS.get(ufunc)
        if rule is None:
            raise unknown(ufunc.__name__)
        if options:
            raise TypeError(
                f"np.{ufunc.__name__} of dual numbers takes no {' and no '.join(options)}: "
                "leave it out, np.where(condition, x, y) chooses entries"
            )
        return rule(*inputs)

    def __array_function__(self, function: Any, _types: Any, args: Any, options: Any) -> Any:
        rule = ARRAY_FUNCTIONS.get(function)
        if rule is None:
            raise unknown(function.__name__)
        return rule(*args, **options)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            "a dual number is not an array: its derivative would be lost; "
            "join several with np.stack or np.concatenate, and read x.primal and x.tangent"
        )


def unknown(name: str) -> TypeError:
    """The error for one of NumPy's functions without a rule, or with an option that only arrays can use."""
    return TypeError(f"dual numbers do not know np.{name}; use derive.lift with its JAX version")


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


def binary(
    x: Any,
    y: Any,
    f: Callable[[Any, Any], Any],
    slope_x: Callable[[Any, Any], Any],
    slope_y: Callable[[Any, Any], Any],
) -> Dual:
    """A function of two numbers. The higher level decides; whatever belongs to a lower one is a constant to it."""
    tag = max(tag_of(x), tag_of(y))
    a, b = primal_of(x, tag), primal_of(y, tag)
    parts = []
    if tag_of(x) == tag:
        parts.append(x.tangent * slope_x(a, b))
    if tag_of(y) == tag:
        parts.append(y.tangent * slope_y(a, b))
    return Dual(f(a, b), parts[0] if len(parts) == 1 else parts[0] + parts[1], tag)


def bilinear(x: Any, y: Any, product: Callable[[Any, Any], Any]) -> Dual:
    """A product of any kind, linear in both."""
    tag = max(tag_of(x), tag_of(y))
    a, b = primal_of(x, tag), primal_of(y, tag)
    parts = []
    if tag_of(x) == tag:
        parts.append(product(x.tangent, b))
    if tag_of(y) == tag:
        parts.append(product(a, y.tangent))
    return Dual(product(a, b), parts[0] if len(parts) == 1 else parts[0] + parts[1], tag)


def select(condition: Any, x: Any, y: Any) -> Any:
    """`x` where the condition holds and `y` elsewhere."""
    tag = max(tag_of(x), tag_of(y))
    if tag:
        primal = select(condition, primal_of(x, tag), primal_of(y, tag))
        return Dual(primal, select(condition, tangent_of(x, tag), tangent_of(y, tag)), tag)
    if isinstance(condition, bool | np.bool_):
        return x if condition else y
    inside = any(isinstance(part, jax.Array) for part in (condition, x, y))
    return (jnp if inside else np).where(condition, x, y)


def refuse(where: Any, problem: str) -> None:
    """Raise if the condition holds anywhere; inside compiled programs nobody knows."""
    if not isinstance(where, jax.core.Tracer) and np.any(where):
        raise ArgumentError(problem, remedy="move the point, or divide out the common factor first")


def refuse_zero(x: Any, problem: str = "") -> None:
    """Raise if the number is zero anywhere."""
    refuse(value(x) == 0, problem or "division by a dual number whose real part is zero: it has no inverse")


def _show(part: Any) -> str:
    return repr(part.tolist()) if isinstance(part, jax.Array | np.ndarray) and part.ndim == 0 else repr(part)


__all__ = [
    "ARRAY_FUNCTIONS",
    "REDUCTIONS",
    "UFUNCS",
    "Dual",
    "bilinear",
    "binary",
    "is_dual",
    "primal_of",
    "refuse",
    "refuse_zero",
    "select",
    "tag_of",
    "tangent_of",
    "unknown",
    "value",
]
