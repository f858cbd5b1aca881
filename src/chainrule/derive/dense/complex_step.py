"""Complex-step differentiation of analytic functions: a Jacobian without cancellation.

`Im f(x + i h e_j) / h` is the derivative along `e_j` to all digits for tiny `h`, because nothing is subtracted. It is
so only where `f` is analytic: the function is first traced with complex numbers and every operation looked up.
"""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from chainrule.core.types import Tree
from chainrule.derive.flattening import flatten
from chainrule.derive.jaxprs.equations import inner_programs

_STEP = 1e-30
_ARITHMETIC = "add sub mul div neg add_any square integer_pow pow sqrt rsqrt dot_general cumsum cumprod"
_FUNCTIONS = "exp exp2 log log1p expm1 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh logistic"
_STRUCTURE = (
    "reduce_sum reduce_prod broadcast_in_dim reshape transpose squeeze expand_dims slice dynamic_slice "
    "dynamic_update_slice concatenate pad gather scatter scatter-add rev split copy copy_p iota select_n "
    "eq ne lt le gt ge and or not jit pjit closed_call custom_jvp_call custom_vjp_call scan cond"
)
_KNOWN = frozenset(f"{_ARITHMETIC} {_FUNCTIONS} {_STRUCTURE}".split())


class NotAnalyticError(Exception):
    """The function cannot be continued to complex numbers, or is not known to be analytic there."""


def complex_step(f: Callable[[Any], Any], x: Tree) -> np.ndarray:
    """The Jacobian, outputs x inputs; raises `NotAnalyticError` where it would not be one.

    >>> complex_step(lambda x: x**3, jnp.ones(1)).round(4).tolist()
    [[3.0]]
    """
    try:
        outputs = jax.tree.leaves(jax.eval_shape(f, x))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a cast to real numbers warns; it is found below
            flat = flatten(f, jax.tree.map(lambda a: a + 0j, x))
            traced = jax.make_jaxpr(flat.vector)(flat.x)
    except (
        TypeError,
        ValueError,
        NotImplementedError,
    ) as error:  # a comparison, a cast, a rule for real numbers only
        raise NotAnalyticError("it does not take complex numbers") from error
    if any(jnp.issubdtype(leaf.dtype, jnp.complexfloating) for leaf in outputs):
        raise NotAnalyticError("it returns complex numbers, whose imaginary parts are taken")
    culprit = _not_analytic(traced)
    if culprit:
        raise NotAnalyticError(f"{culprit} is not analytic, or not known to be")
    run = jax.jit(flat.vector)
    at = np.asarray(flat.x)
    columns = [np.asarray(run(at + 1j * _STEP * unit)).imag / _STEP for unit in np.eye(flat.n)]
    return np.stack(columns, axis=-1) if columns else np.zeros((flat.m, 0))


def _not_analytic(program: ClosedJaxpr) -> str:
    """The first operation that is not known to be analytic."""
    for equation in program.jaxpr.eqns:
        name = str(equation.primitive.name)
        if name == "convert_element_type":
            inside, outside = (jnp.iscomplexobj(v.aval) for v in (equation.invars[0], equation.outvars[0]))
            if inside and not outside:
                return "a cast to real numbers"
        elif name not in _KNOWN:
            return name
        for inner in inner_programs(equation):
            if found := _not_analytic(inner):
                return found
    return ""


__all__ = ["NotAnalyticError", "complex_step"]
