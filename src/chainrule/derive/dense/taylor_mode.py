"""Taylor-mode differentiation: derivatives of any order along a line in one forward pass, and operators from them.

Taylor mode carries `f(x), f'(x)[v], f''(x)[v, v], ...` through the program together, which costs a polynomial in the
order where nested forward mode costs an exponential. Numbers here are derivatives, not Taylor coefficients: nothing is
divided by a factorial. A primitive without a Taylor rule, or a derivative rule written by a person, makes the whole
evaluation fall back to nested first derivatives: forward, or by way of reverse mode where the person wrote a reverse
rule. The result says which way was taken.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import jax
import jax.numpy as jnp
from jax.experimental import jet
from jax.extend.core import ClosedJaxpr

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Tree
from chainrule.derive import validation
from chainrule.derive.dense.batching import basis_map
from chainrule.derive.dense.planning import NoRuleError, first_sentence
from chainrule.derive.flattening import flatten
from chainrule.derive.jaxprs.branches import at_point
from chainrule.derive.jaxprs.equations import inner_programs, is_custom
from chainrule.derive.jaxprs.refusals import MISSING_RULE, NEEDS_VALUES


@final
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Taylor:
    """`derivatives[k]` is the k-th derivative of `t -> f(x + t v)` at 0; `method` is "taylor" or "nested"."""

    derivatives: tuple[Tree, ...]
    method: str = field(metadata={"static": True})


def taylor(f: Callable[[Any], Any], x: Tree, v: Tree, order: int) -> Taylor:
    """Derivatives of orders 0 to `order` of `f` along `v`.

    >>> [round(float(d), 4) for d in taylor(lambda t: jnp.exp(2 * t), 0.5, 1.0, 3).derivatives]
    [2.7183, 5.4366, 10.8731, 21.7463]
    """
    if order < 0:
        raise ArgumentError(f"taylor(order={order}): the order must not be negative")
    x = validation.point("taylor", x)
    v = validation.direction("taylor", "v", v, x)
    if order == 0:
        return Taylor((f(x),), "taylor")
    program, f = _traced("taylor", f, x)
    custom = program is None or _any_equation(program, is_custom)  # which Taylor mode would pass over
    found = None if custom else _jet(f, x, v, order)
    return Taylor(_nested(f, program, x, v, order), "nested") if found is None else Taylor(found, "taylor")


def _traced(where: str, f: Callable[[Any], Any], x: Tree) -> tuple[ClosedJaxpr | None, Callable[[Any], Any]]:
    """The program of `f`, or of the branch it takes in Python; none where there are no numbers to choose it by."""
    try:
        return jax.make_jaxpr(f)(x), f
    except NEEDS_VALUES:
        taken = at_point(where, f, (x,))
        return (None if taken is f else jax.make_jaxpr(taken)(x)), taken


def _jet(f: Callable[[Any], Any], x: Tree, v: Tree, order: int) -> tuple[Tree, ...] | None:
    """All derivatives together, or nothing where JAX's Taylor mode cannot give them."""
    shapes = jax.eval_shape(f, x)
    leaves, structure = jax.tree.flatten(x)
    series = [[a, *([jnp.zeros_like(a)] * (order - 1))] for a in jax.tree.leaves(v)]

    def plain(*parts: Array) -> list[Array]:
        return jax.tree.leaves(f(jax.tree.unflatten(structure, parts)))

    try:
        value, rest = jet.jet(plain, leaves, series)
    except (
        KeyError,
        *MISSING_RULE,
    ):  # f was traced before: a Taylor rule is missing, or not made for such operands
        return None
    columns = [[value[i], *rest[i]] for i in range(len(value))]
    outputs = jax.tree.structure(shapes)
    return tuple(jax.tree.unflatten(outputs, [c[k] for c in columns]) for k in range(order + 1))


def _any_equation(program: ClosedJaxpr, test: Callable[[Any], bool]) -> bool:
    return any(
        test(equation) or any(_any_equation(inner, test) for inner in inner_programs(equation))
        for equation in program.jaxpr.eqns
    )


def mixed_partial(f: Callable[[Any], Any], x: Tree, directions: Sequence[Tree]) -> Tree:
    """The k-th derivative along k different directions, from derivatives along their sums (polarisation).

    >>> f = lambda x: x[0] ** 2 * x[1]
    >>> e = jnp.eye(2)
    >>> round(float(mixed_partial(f, jnp.array([3.0, 5.0]), [e[0], e[0], e[1]])), 3)
    2.0
    """
    order = len(directions)
    if order == 0:
        return f(x)
    total: Tree = None
    for size in range(1, order + 1):
        for chosen in itertools.combinations(directions, size):
            along = functools.reduce(lambda a, b: jax.tree.map(jnp.add, a, b), chosen)
            term = taylor(f, x, along, order).derivatives[order]
            sign = (-1) ** (order - size) / math.factorial(order)
            scaled = jax.tree.map(lambda a, s=sign: s * a, term)
            total = scaled if total is None else jax.tree.map(jnp.add, total, scaled)
    return total


def laplacian(f: Callable[[Any], Any], *, chunk: int | None = None) -> Callable[[Tree], Tree]:
    """`sum_i d²f/dx_i²`, exactly, by one second-order pass per input.

    >>> float(laplacian(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0])))
    18.0
    """

    validation.function("laplacian", f)

    def evaluate(x: Tree) -> Tree:
        x = validation.point("laplacian", x)
        program, g = _traced("laplacian", f, x)
        flat = flatten(g, x)
        validation.outputs("laplacian", jax.tree.map(jnp.zeros_like, flat.outputs))
        size = chunk or max(flat.n, 1)
        slope = _slope(program)
        terms = basis_map(lambda v: slope(slope(flat.vector, v), v)(flat.x), flat.n, flat.x.dtype, size)
        return jax.tree.map(
            lambda a, s: a.reshape(s.shape), _split(terms.sum(axis=0), flat.outputs), flat.outputs
        )

    return evaluate


def biharmonic(f: Callable[[Any], Any]) -> Callable[[Tree], Tree]:
    """`sum_ij d⁴f/dx_i² dx_j²`, exactly, from fourth derivatives along `e_i`, `e_i + e_j` and `e_i - e_j`.

    >>> round(float(biharmonic(lambda x: x[0] ** 4 + x[0] ** 2 * x[1] ** 2)(jnp.array([1.0, 2.0]))), 2)
    32.0
    """

    validation.function("biharmonic", f)

    def evaluate(x: Tree) -> Tree:
        x = validation.point("biharmonic", x)
        flat = flatten(at_point("biharmonic", f, (x,)), x)
        validation.outputs("biharmonic", jax.tree.map(jnp.zeros_like, flat.outputs))
        eye = jnp.eye(flat.n, dtype=flat.x.dtype)
        fourth = jax.vmap(lambda v: taylor(flat.vector, flat.x, v, 4).derivatives[4])
        single = fourth(eye)
        total = single.sum(axis=0)
        if flat.n > 1:
            i, j = (jnp.asarray(k) for k in zip(*itertools.combinations(range(flat.n), 2), strict=True))
            # 12 D⁴[a,a,b,b] = D⁴[a+b]⁴ + D⁴[a-b]⁴ - 2 D⁴[a]⁴ - 2 D⁴[b]⁴
            pairs = fourth(eye[i] + eye[j]) + fourth(eye[i] - eye[j]) - 2 * single[i] - 2 * single[j]
            total = total + 2 * pairs.sum(axis=0) / 12
        return jax.tree.map(lambda a, s: a.reshape(s.shape), _split(total, flat.outputs), flat.outputs)

    return evaluate


def _nested(
    f: Callable[[Any], Any], program: ClosedJaxpr | None, x: Tree, v: Tree, order: int
) -> tuple[Tree, ...]:
    derivatives = [f(x)]
    current, slope = f, _slope(program)
    for done in range(order):
        current = slope(current, v)
        try:
            derivatives.append(current(x))
        except MISSING_RULE as error:
            raise NoRuleError(
                f"taylor(order={order}): there is no derivative of order {done + 1} ({first_sentence(error)})",
                remedy=f"order={done} has all its rules; jax.custom_jvp gives a function a rule of its own",
            ) from error
    return tuple(derivatives)


def _slope(program: ClosedJaxpr | None) -> Callable[[Callable[[Any], Any], Tree], Callable[[Any], Any]]:
    """How to differentiate along a direction: (function, direction) -> function."""
    if program is not None and _any_equation(program, lambda e: e.primitive.name == "custom_vjp_call"):
        return _by_reverse
    return lambda g, v: lambda z: jax.jvp(g, (z,), (v,))[1]


def _by_reverse(g: Callable[[Any], Any], v: Tree) -> Callable[[Any], Any]:
    """`z -> g'(z) v` without a forward rule: the pullback is linear, and its own pullback is the forward product."""

    def slope(z: Tree) -> Tree:
        y, pull = jax.vjp(g, z)
        (product,) = jax.vjp(lambda u: pull(u)[0], jax.tree.map(jnp.zeros_like, y))[1](v)
        return product

    return slope


def _split(vector: Array, shapes: Tree) -> Tree:
    leaves, structure = jax.tree.flatten(shapes)
    parts, start = [], 0
    for leaf in leaves:
        size = math.prod(leaf.shape)
        parts.append(vector[start : start + size])
        start += size
    return jax.tree.unflatten(structure, parts)


__all__ = ["Taylor", "biharmonic", "laplacian", "mixed_partial", "taylor"]
