"""Interval bounds: between which numbers every logit stays while every number of an example moves by at most eps.

Gowal et al., *On the effectiveness of interval bound propagation for training verifiably robust models*, 2018
(arXiv:1810.12715). Every operation is given the least and the largest value of each entry and returns those of its
result; products with weights do so exactly by centre and radius. Sound for whatever network has rules for all its
operations, up to rounding, and loose for deep ones: what cannot be proven may still be true.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from chainrule.core.types import Array, Float
from chainrule.explain.methods.attacks.aim import Aim, Attacked, aimed
from chainrule.explain.methods.attacks.functions import check_classes, checked_eps
from chainrule.explain.methods.bounds.programs import one, program, walked
from chainrule.nn.attacks import Bounds, inside


class Interval(NamedTuple):
    """The least and the largest value of every entry of an array."""

    low: Array
    high: Array


_RISING = frozenset(
    {
        *("exp", "exp2", "log", "log1p", "expm1", "tanh", "logistic", "sqrt", "erf", "sign", "floor", "ceil"),
        *("cbrt", "atan", "sinh", "asinh", "max", "min", "reduce_max", "reduce_min", "reduce_window_max"),
        *(
            "reshape",
            "broadcast_in_dim",
            "transpose",
            "squeeze",
            "expand_dims",
            "slice",
            "rev",
            "concatenate",
        ),
        *(
            "reduce_sum",
            "cumsum",
            "reduce_window_sum",
            "convert_element_type",
            "copy",
            "copy_p",
            "stop_gradient",
        ),
        *("add", "add_any", "stack", "optimization_barrier", "reduce_precision", "clamp", "sort"),
    }
)
"""No operand may grow without the result growing: the ends of the result are the results of the ends."""
_FALLING = frozenset({"neg", "rsqrt", "erfc"})
_PRODUCTS = frozenset({"dot_general", "conv_general_dilated", "convolution"})


def interval_bounds(
    f: Attacked, x: ArrayLike, eps: float | str, *, bounds: Bounds | None = None
) -> tuple[Float[Array, "batch classes"], Float[Array, "batch classes"]]:
    """The least and the largest value of every logit within the cube of half-width `eps` around each example.

    >>> w = jnp.array([[1.0, 0.0], [-2.0, 1.0]])
    >>> low, high = interval_bounds(lambda x: x @ w, jnp.ones((1, 2)), 0.5)
    >>> low.tolist(), high.tolist()
    ([[-2.5, 0.5]], [[0.5, 1.5]])
    """
    aim = aimed("interval_bounds", f, x, None, bounds=bounds)
    check_classes("interval_bounds", aim)
    found = logits_within(aim, checked_eps("interval_bounds", eps, aim, "inf"))
    return found.low, found.high


def interval_certified(
    f: Attacked, x: ArrayLike, y: ArrayLike | None, eps: float | str, *, bounds: Bounds | None = None
) -> np.ndarray:
    """Of which examples no change of at most `eps` in every number can alter the class `y`, the predicted one if None.

    False where that cannot be shown.
    """
    aim = aimed("interval_certified", f, x, y, bounds=bounds)
    check_classes("interval_certified", aim)
    return proven(aim, checked_eps("interval_certified", eps, aim, "inf"))


def logits_within(aim: Aim, eps: float) -> Interval:
    """Bounds of the logits."""
    return _bounded(aim.victim.logits, aim.x, eps, aim.bounds)


def proven(aim: Aim, eps: float) -> np.ndarray:
    """Where the least logit of the class is above the largest of every other one."""
    logits = logits_within(aim, eps)
    own = np.arange(logits.low.shape[-1])[None] == np.asarray(aim.y)[:, None]
    least = np.asarray(jnp.take_along_axis(logits.low, aim.y[:, None], axis=-1))
    others = np.where(own, -np.inf, np.asarray(logits.high))
    return np.asarray(others.max(axis=-1) < least[:, 0])


def _bounded(f: Callable[[Array], Array], x: Array, eps: float, bounds: Bounds | None) -> Interval:
    start = Interval(inside(x - eps, bounds), inside(x + eps, bounds))
    found: Interval = walked("interval_bounds", program(f, x), start, _rule, Interval)
    return found


def _rule(equation: Any, operands: Sequence[Any]) -> Interval | None:
    name = equation.primitive.name
    if name in _RISING:
        lows, highs = ([_end(value, i) for value in operands] for i in (0, 1))
        return Interval(one(equation, lows), one(equation, highs))
    if name in _FALLING:
        return Interval(one(equation, [operands[0].high]), one(equation, [operands[0].low]))
    if name in _PRODUCTS:
        return _product(equation, operands)
    special = _SPECIAL.get(name)
    return None if special is None else special(equation, operands)


def _end(value: Any, which: int) -> Any:
    return value[which] if isinstance(value, Interval) else value


def _product(equation: Any, operands: Sequence[Any]) -> Interval | None:
    """By centre and radius: exact, where one factor is known."""
    varying = [isinstance(value, Interval) for value in operands]
    if all(varying):
        return None
    which = varying.index(True)
    low, high = operands[which]
    known = operands[1 - which]
    centre = one(equation, _in_order(which, (low + high) / 2, known))
    radius = one(equation, _in_order(which, (high - low) / 2, jnp.abs(known)))
    return Interval(centre - radius, centre + radius)


def _in_order(which: int, varying: Any, known: Any) -> list[Any]:
    return [varying, known] if which == 0 else [known, varying]


def _corners(equation: Any, operands: Sequence[Any]) -> Interval:
    """The extremes of a function of two numbers that rises or falls in each."""
    first, second = ([_end(value, i) for i in (0, 1)] for value in operands)
    found = [one(equation, [a, b]) for a in first for b in second]
    return Interval(jax.tree.reduce(jnp.minimum, found), jax.tree.reduce(jnp.maximum, found))


def _difference(equation: Any, operands: Sequence[Any]) -> Interval:
    a, b = operands
    return Interval(one(equation, [_end(a, 0), _end(b, 1)]), one(equation, [_end(a, 1), _end(b, 0)]))


def _quotient(equation: Any, operands: Sequence[Any]) -> Interval | None:
    """Of a denominator that may be zero nothing is known."""
    below = operands[1]
    if isinstance(below, Interval) and not bool(((below.low > 0) | (below.high < 0)).all()):
        return None
    return _corners(equation, operands)


def _even(equation: Any, operands: Sequence[Any]) -> Interval:
    """Functions that fall to zero and rise from there."""
    (value,) = operands
    ends = [one(equation, [end]) for end in value]
    touches = (value.low <= 0) & (value.high >= 0)
    return Interval(jnp.where(touches, 0.0, jnp.minimum(*ends)), jnp.maximum(*ends))


def _power(equation: Any, operands: Sequence[Any]) -> Interval | None:
    y = equation.params["y"]
    if y < 0:
        return None
    if y % 2 == 0:
        return _even(equation, operands)
    return Interval(*(one(equation, [end]) for end in operands[0]))


def _padded(equation: Any, operands: Sequence[Any]) -> Interval:
    return Interval(*(one(equation, [_end(value, i) for value in operands]) for i in (0, 1)))


def _picked(equation: Any, operands: Sequence[Any]) -> Interval | None:
    """Moving values around by what does not depend on the input."""
    if any(isinstance(value, Interval) for value in operands[1:]):
        return None
    return Interval(*(one(equation, [end, *operands[1:]]) for end in operands[0]))


def _selected(equation: Any, operands: Sequence[Any]) -> Interval | None:
    """One of several by a condition that does not depend on the input."""
    if isinstance(operands[0], Interval):
        return None
    return Interval(
        *(one(equation, [operands[0], *(_end(value, i) for value in operands[1:])]) for i in (0, 1))
    )


_SPECIAL: dict[str, Callable[[Any, Sequence[Any]], Interval | None]] = {
    "sub": _difference,
    "mul": _corners,
    "div": _quotient,
    "abs": _even,
    "square": _even,
    "integer_pow": _power,
    "pad": _padded,
    "gather": _picked,
    "dynamic_slice": _picked,
    "select_n": _selected,
}

__all__ = ["Interval", "interval_bounds", "interval_certified", "logits_within", "proven"]
