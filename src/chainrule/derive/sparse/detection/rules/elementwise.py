"""Rules for elementwise operations: a result depends on the operands' elements at the same position."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.derive.sparse.detection.analysis import (
    FLAT,
    RULES,
    Analysis,
    NotCovered,
    Reaches,
    Tracked,
    rule,
)
from chainrule.derive.sparse.detection.kinds import Mask
from chainrule.derive.sparse.detection.reach import Reach, Shape, union

# fmt: off
_SMOOTH = (
    "abs", "acos", "acosh", "add", "add_any", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0e",
    "bessel_i1e", "cbrt", "complex", "conj", "convert_element_type", "copy", "copy_p", "cos", "cosh",
    "digamma", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "igamma", "igammac", "imag",
    "layout_constraint", "lgamma", "log", "log1p", "logistic", "name", "neg", "polygamma", "pow", "pvary",
    "real", "reduce_precision", "regularized_incomplete_beta", "rem", "reshard", "rsqrt",
    "sharding_constraint", "sin", "sinh", "sqrt", "sub", "tan", "tanh",
)
_STEPS = ("ceil", "floor", "nextafter", "round", "sign", "stop_gradient")
_DISCRETE = (
    "and", "clz", "eq", "eq_to", "ge", "gt", "igamma_grad_a", "is_finite", "le", "le_to", "lt", "lt_to",
    "mulhi", "ne", "not", "or", "population_count", "random_gamma_grad", "shift_left",
    "shift_right_arithmetic", "shift_right_logical", "xor", "zeta",
)
# fmt: on

FLAT.update(_STEPS)


@rule("clamp", "max", "min")
def _choice(analysis: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    if analysis.slopes and any(cell.value.point is not None for cell in operands):
        raise NotCovered  # at a point, the derivative that JAX takes knows which operand it is
    return _elementwise(analysis, equation, operands)


@rule(*_SMOOTH, *_STEPS, *_DISCRETE)
def _elementwise(_: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    return [union(tuple(equation.outvars[0].aval.shape), [cell.reach for cell in operands])]


@rule("optimization_barrier", "device_put")
def _unchanged(_: Analysis, __: Any, operands: Sequence[Tracked]) -> Reaches:
    return [cell.reach for cell in operands]


@rule("mul")
def _product(analysis: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    shape = tuple(equation.outvars[0].aval.shape)
    a, b = operands
    if not analysis.slopes and a.reach is not None and b.reach is not None:
        return [union(shape, [a.reach, b.reach])]
    return [union(shape, [_times(a.reach, shape, b), _times(b.reach, shape, a)])]


@rule("div")
def _quotient(_: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    shape = tuple(equation.outvars[0].aval.shape)
    a, b = operands
    return [union(shape, [a.reach, _times(b.reach, shape, a)])]


@rule("integer_pow", "square")
def _power(analysis: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    exponent = equation.params.get("y", 2)
    if exponent == 0:
        return [None]
    reach = operands[0].reach
    assert reach is not None
    if analysis.slopes and exponent > 1:
        return [reach.keep(operands[0].value.mask())]
    return [reach]


@rule("select_n")
def _select(_: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
    which, *cases = operands
    shape = tuple(equation.outvars[0].aval.shape)
    bounds = which.value.bounds()
    parts = [which.reach]
    for number, case in enumerate(cases):
        if case.reach is not None:
            possible = None if bounds is None else (bounds[0] <= number) & (bounds[1] >= number)
            parts.append(case.reach.keep(possible))
    return [union(shape, parts)]


def _times(reach: Reach | None, shape: Shape, factor: Tracked) -> Reach | None:
    """What remains of a reach after multiplication by a factor that may be zero in places."""
    mask: Mask | None = None if reach is None else factor.value.mask()
    if reach is None or mask is None:
        return reach
    return reach.spread(shape).keep(np.broadcast_to(mask, shape))


__all__ = ["RULES"]
