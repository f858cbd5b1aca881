"""Lipschitz bounds: how far outputs can move at most for a change of length one, and the radius that is safe therefore.

Szegedy et al., *Intriguing properties of neural networks*, ICLR 2014 (arXiv:1312.6199), section 4.3; Tsuzuku, Sato and
Sugiyama, *Lipschitz-margin training*, NeurIPS 2018 (arXiv:1802.04034). Every operation multiplies the bound by its own:
matrices by their largest singular value, other linear maps by the root of their largest row and column sums, which is
never less. A class that is ahead by m keeps its place within m / (√2 L).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.attacks.aim import Aim, Attacked, aimed
from chainrule.explain.methods.attacks.carrying_out import logits_of
from chainrule.explain.methods.attacks.functions import check_classes
from chainrule.explain.methods.bounds.programs import one, program, walked


class Slope(NamedTuple):
    """The largest length of the change of an array, for a change of one example of length one."""

    bound: float


_SAME = frozenset(
    {
        *(
            "reshape",
            "transpose",
            "squeeze",
            "expand_dims",
            "slice",
            "rev",
            "neg",
            "abs",
            "tanh",
            "copy",
            "copy_p",
        ),
        *(
            "reduce_max",
            "reduce_min",
            "convert_element_type",
            "optimization_barrier",
            "stop_gradient",
            "sort",
        ),
        *("sin", "cos", "atan", "asinh"),
    }
)
"""Lengthen no change."""
_LINEAR = frozenset({"reduce_sum", "cumsum", "reduce_window_sum", "broadcast_in_dim"})
_PRODUCTS = frozenset({"dot_general", "conv_general_dilated", "convolution", "mul"})
_STEEPEST = {"logistic": 0.25, "erf": 2 / math.sqrt(math.pi)}


def lipschitz_bound(f: Attacked, x: ArrayLike) -> float:
    """A number that the length of a change of the logits never exceeds, per length of the change of an example.

    `x` says what examples look like. For all examples at once, so that `x` may hold any.

    >>> w = jnp.array([[3.0, 0.0], [0.0, 1.0]])
    >>> lipschitz_bound(lambda x: jax.nn.relu(x @ w), jnp.zeros((1, 2)))
    3.0
    """
    aim = aimed("lipschitz_bound", f, x, None)
    check_classes("lipschitz_bound", aim)
    return slope_of(aim)


def lipschitz_radius(f: Attacked, x: ArrayLike) -> np.ndarray:
    """The length of the change within which the predicted class cannot change, for each example."""
    aim = aimed("lipschitz_radius", f, x, None)
    check_classes("lipschitz_radius", aim)
    return safe_radius(aim)


def slope_of(aim: Aim) -> float:
    """The bound of what is aimed at."""
    x = aim.x[:1]
    found = walked("lipschitz_bound", program(aim.victim.logits, x), Slope(1.0), _rule, Slope)
    if not isinstance(found, Slope):
        raise ArgumentError("lipschitz_bound: the logits do not depend on the examples")
    return found.bound


def safe_radius(aim: Aim) -> np.ndarray:
    """How far each example is from any other class, at least."""
    ranked = np.sort(logits_of(aim.victim, aim.x).astype(np.float64), axis=-1)
    return (ranked[:, -1] - ranked[:, -2]) / (math.sqrt(2) * slope_of(aim))


def _rule(equation: Any, operands: Sequence[Any]) -> Slope | None:
    name = equation.primitive.name
    slopes = [value.bound for value in operands if isinstance(value, Slope)]
    if name in _SAME:
        return Slope(slopes[0])
    if name in _STEEPEST:
        return Slope(slopes[0] * _STEEPEST[name])
    if name in ("add", "sub", "add_any"):
        return Slope(sum(slopes))
    if name in ("max", "min", "concatenate", "stack"):
        return Slope(math.hypot(*slopes))
    if name in ("pad", "select_n", "clamp"):
        return Slope(math.hypot(*slopes)) if not isinstance(operands[0], Slope) or name == "pad" else None
    if name == "reduce_window_max":
        return Slope(slopes[0] * math.sqrt(_overlaps(equation)))
    if name == "div" and not isinstance(operands[1], Slope):
        return Slope(slopes[0] / float(np.abs(np.asarray(operands[1])).min()))
    if name in _LINEAR and len(slopes) == 1:
        return Slope(slopes[0] * _norm(equation, operands, lambda value: value))
    if name in _PRODUCTS and len(slopes) == 1:
        return Slope(slopes[0] * _weight_norm(equation, operands))
    return None


def _overlaps(equation: Any) -> int:
    """How many windows an entry may lie in."""
    sizes, strides = equation.params["window_dimensions"], equation.params["window_strides"]
    return math.prod(-(-size // stride) for size, stride in zip(sizes, strides, strict=True))


def _weight_norm(equation: Any, operands: Sequence[Any]) -> float:
    """Of a product with weights: exact for matrices and for single factors."""
    which = next(i for i, value in enumerate(operands) if isinstance(value, Slope))
    weight = np.asarray(operands[1 - which], np.float64)
    if equation.primitive.name == "mul":
        return float(np.abs(weight).max())
    if equation.primitive.name == "dot_general":
        contracted, batched = equation.params["dimension_numbers"]
        if not batched[0]:
            free = [axis for axis in range(weight.ndim) if axis not in contracted[1 - which]]
            rows = math.prod(weight.shape[axis] for axis in contracted[1 - which])
            matrix = np.transpose(weight, [*contracted[1 - which], *free]).reshape(rows, -1)
            return float(np.linalg.norm(matrix, 2))
    return _norm(equation, operands, jnp.abs)


def _norm(equation: Any, operands: Sequence[Any], weights: Callable[[Any], Any]) -> float:
    """Root of the largest row sum times the largest column sum of the absolute values of a linear map."""
    which = next(i for i, value in enumerate(operands) if isinstance(value, Slope))
    kind = equation.invars[which].aval

    def linear(value: Any) -> Any:
        given = [value if i == which else weights(jnp.asarray(v)) for i, v in enumerate(operands)]
        return one(equation, given)

    with jax.enable_x64(True):  # parts of a program may be in double precision
        rows, back = jax.vjp(linear, jnp.ones(kind.shape, kind.dtype))
        (columns,) = back(jnp.ones_like(rows))
    return math.sqrt(float(np.asarray(rows).max()) * float(np.asarray(columns).max()))


__all__ = ["Slope", "lipschitz_bound", "lipschitz_radius", "safe_radius", "slope_of"]
