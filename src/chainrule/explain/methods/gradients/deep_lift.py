"""DeepLIFT with the rescale rule: contributions by one backward sweep that add up exactly (Shrikumar et al., 2017).

The program of the function runs at the input and at a baseline; the sweep back sends shares of finite changes instead
of slopes (`rescale_rules`), so that saturated units still pass on what they did (arXiv:1704.02685). Operations are
found in the traced program, so that any function will do whose operations have a rule; others are refused by name.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array
from chainrule.derive.jaxprs.equations import body, inner_programs, is_literal, label
from chainrule.explain.methods.equations import applied
from chainrule.explain.methods.functions import Function
from chainrule.explain.methods.gradients.base import Output, ask, checked_baseline, chosen, in_blocks
from chainrule.explain.methods.gradients.rescale_rules import halfway, largest, rescaled
from chainrule.explain.methods.shapley.explanation import Explanation
from chainrule.train import Run

_LINEAR = frozenset(
    [
        *("add", "add_any", "sub", "neg", "reshape", "transpose", "broadcast_in_dim", "reduce_sum", "slice"),
        *("convert_element_type", "squeeze", "expand_dims", "concatenate", "pad", "rev", "reduce_window_sum"),
        *("cumsum", "copy", "copy_p", "real", "optimization_barrier", "split", "computed_after"),
    ]
)
_FIRST_OPERAND = frozenset(["dynamic_slice", "gather"])
"""Linear in the first operand; the others are positions."""
_SCATTERED = frozenset(["scatter", "scatter-add", "scatter_add"])
"""Linear in the array and in what is put into it; the operand between them are positions."""
_PRODUCTS = frozenset(["mul", "dot_general", "conv_general_dilated", "convolution"])
_CURVES = frozenset(
    [
        *(
            "tanh",
            "logistic",
            "exp",
            "exp2",
            "log",
            "log1p",
            "expm1",
            "sqrt",
            "rsqrt",
            "cbrt",
            "square",
            "abs",
        ),
        *("integer_pow", "erf", "erf_inv", "erfc", "sin", "cos", "tan", "atan", "sinh", "cosh", "asinh"),
        *("clamp", "pow", "lgamma", "digamma"),
    ]
)
"""Operations on each entry by itself."""
_LARGEST = frozenset(["reduce_max", "reduce_window_max"])
_COMPARISONS = frozenset(["gt", "lt", "ge", "le", "eq", "ne", "and", "or", "not", "sign", "is_finite"])
_ENTRYWISE = _CURVES | _COMPARISONS | {"add", "sub", "neg", "mul", "div", "max", "min", "select_n"}
_ENTRYWISE |= {"convert_element_type", "copy", "copy_p"}
"""What the program of a curve may be made of, as `silu` is of a product and a sigmoid."""


def deep_lift(
    f: Function | Run,
    x: Any,
    baseline: Any = None,
    output: Output = None,
    *,
    features: Sequence[str] = (),
) -> Explanation:
    """What each input adds between the baseline (zero unless given) and `x`, by multipliers of finite changes.

    >>> import jax.numpy as jnp
    >>> found = deep_lift(lambda x: jax.nn.relu(x[0] - 1.0) + x[1], [3.0, 2.0], [0.0, 0.0])
    >>> found.values, float(found.residual)
    (array([2., 2.]), 0.0)
    """
    question = ask("deep_lift", f, x, output, features)
    start = checked_baseline(question, baseline)
    values, outputs, base = in_blocks(
        lambda x, start, output: _contributions(question.f, x, start, output),
        (question.x, start, question.outputs),
        question.rows_at_once(4),
    )
    return question.answer(
        values,
        base,
        outputs,
        method="DeepLIFT, rescale rule",
        kind="baseline",
        evaluations=2 * len(question.x),
    )


@eqx.filter_jit
def _contributions(f: Function, x: Array, start: Array, outputs: Array) -> tuple[Array, Array, Array]:
    program = jax.make_jaxpr(lambda x: chosen(f(x), outputs))(x)
    if _widened(program.jaxpr, x.dtype.itemsize):
        raise CapabilityError(
            "deep_lift: parts of the function are computed in another precision than its input",
            remedy="use integrated_gradients, or enable double precision for all",
        )

    def run(x: Array) -> tuple[Array, Array]:
        (now,), (then,), _ = _both(program, [x], [start], [True])
        return now, then

    now, back, then = jax.vjp(run, x, has_aux=True)
    return back(jnp.ones_like(now))[0] * (x - start), now, then


def _widened(jaxpr: Any, size: int) -> bool:
    """Whether a program makes floating numbers wider than its input: such a part cannot be run step by step."""
    for equation in jaxpr.eqns:
        wide = any(_is_float(v) and v.aval.dtype.itemsize > size for v in equation.outvars)
        if wide or any(_widened(inner.jaxpr, size) for inner in inner_programs(equation)):
            return True
    return False


def _both(
    program: Any, inputs: Sequence[Any], starts: Sequence[Any], moving: Sequence[bool]
) -> tuple[list[Any], list[Any], list[bool]]:
    """A program at the input and at the baseline; which values depend on the input is told by the program alone."""
    jaxpr = program.jaxpr
    now = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*program.consts, *inputs], strict=True))
    then = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*program.consts, *starts], strict=True))
    moves = {variable for variable, does in zip(jaxpr.invars, moving, strict=True) if does}

    def read(values: dict[Any, Any], atom: Any) -> Any:
        return atom.val if is_literal(atom) else values[atom]

    for equation in jaxpr.eqns:
        here, there = ([read(values, atom) for atom in equation.invars] for values in (now, then))
        does = [not is_literal(atom) and atom in moves for atom in equation.invars]
        if not any(does):
            found = applied(equation, here)
            results = found, found, [False] * len(found)
        else:
            results = _step(equation, here, there, does)
        now.update(zip(equation.outvars, results[0], strict=True))
        then.update(zip(equation.outvars, results[1], strict=True))
        moves |= {variable for variable, does in zip(equation.outvars, results[2], strict=True) if does}
    moved = [not is_literal(atom) and atom in moves for atom in jaxpr.outvars]
    return [read(now, atom) for atom in jaxpr.outvars], [read(then, atom) for atom in jaxpr.outvars], moved


def _step(
    equation: Any, here: list[Any], there: list[Any], does: list[bool]
) -> tuple[list[Any], list[Any], list[bool]]:
    """One operation at both points, with the rule that its sweep back follows."""
    inner, name = body(equation), equation.primitive.name
    if (
        label(equation) == "stop_gradient"
    ):  # says nothing about finite changes: what a softmax subtracts moves
        return here, there, does
    if inner is not None and not _is_curve(equation, does):
        return _both(inner, here, there, does)
    moving = [i for i, one in enumerate(does) if one]
    then = applied(equation, there)

    def operation(*operands: Any) -> Any:
        given = list(here)
        for i, operand in zip(moving, operands, strict=True):
            given[i] = operand
        return applied(equation, given)[0]

    operands, starts = [here[i] for i in moving], [there[i] for i in moving]
    if _is_linear(name, does):
        return applied(equation, here), then, [True] * len(then)
    if not jnp.issubdtype(equation.outvars[0].aval.dtype, jnp.floating):
        # What selects by a comparison is refused. Guards are none: that numbers are finite, or just equal to a constant
        # such as -inf or 0, does not change on the way, and where it does the residual tells.
        guard = name == "is_finite" or (name in ("eq", "ne") and not all(does))
        return applied(equation, here), then, [not guard]
    if len(moving) == 1 and (inner is not None or name in _CURVES or name in ("max", "min", "div")):
        return [rescaled(operation, operands[0], starts[0])], then, [True]
    if name in _PRODUCTS:
        return [halfway(operation, operands, starts)], then, [True]
    if name == "div":
        turned = rescaled(jnp.reciprocal, operands[1], starts[1])
        parts = [operands[0], turned], [starts[0], 1 / starts[1]]
        return [halfway(jnp.multiply, *parts)], then, [True]
    if name == "max" or name in _LARGEST:
        return [largest(operation, operands, starts)], then, [True]
    raise CapabilityError(
        f"deep_lift: there is no rule for {label(equation)!r}",
        remedy="use integrated_gradients, which needs derivatives only",
    )


def _is_linear(name: str, does: list[bool]) -> bool:
    if name in _LINEAR:
        return True
    if name in _FIRST_OPERAND:
        return not any(does[1:])
    if name in _SCATTERED:
        return not does[1]
    if name == "select_n":
        return not does[0]
    if name == "div":
        return not does[1]
    return name in _PRODUCTS and sum(does) == 1


def _is_curve(equation: Any, does: list[bool]) -> bool:
    """Whether a call works on each entry of one moving operand by itself."""
    inner = body(equation)
    if inner is None or sum(does) != 1 or len(equation.outvars) != 1:
        return False
    shape = equation.invars[does.index(True)].aval.shape
    if equation.outvars[0].aval.shape != shape or not _is_float(equation.outvars[0]):
        return False
    return _entrywise(inner.jaxpr) and not _is_affine(inner.jaxpr)


def _entrywise(jaxpr: Any) -> bool:
    for one in jaxpr.eqns:
        inner = body(one)
        scalar = one.primitive.name == "broadcast_in_dim" and not one.invars[0].aval.shape
        if not (_entrywise(inner.jaxpr) if inner is not None else scalar or one.primitive.name in _ENTRYWISE):
            return False
    return True


def _is_affine(jaxpr: Any) -> bool:
    """Whether a program has no operation that bends: it needs no rule."""
    return all(one.primitive.name in _LINEAR for one in jaxpr.eqns)


def _is_float(variable: Any) -> bool:
    return bool(jnp.issubdtype(variable.aval.dtype, jnp.floating))


__all__ = ["deep_lift"]
