"""Hessians and second-order products by all four nestings of forward and reverse mode.

| strategy | one run gives | runs for the whole Hessian |
|---|---|---|
| forward-over-forward | `wᵀ H v`: duals of duals, nothing stored | n(n+1)/2, by symmetry |
| forward-over-reverse | `H v`: the gradient, pushed forward along `v` | n |
| reverse-over-forward | `H v`: the gradient of `x -> f'(x) v` | n |
| reverse-over-reverse | `H w`: the gradient, pulled back along `w` | n |

Every strategy works for functions of several outputs too: the result is then an outputs x inputs x inputs tensor, and
the runs are multiplied by the number of outputs (except for forward-over-forward).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from chainrule.core import tree
from chainrule.core.errors import ArgumentError, ChainruleError, check_choice
from chainrule.core.types import Array, Scalar, Tree
from chainrule.derive import memory_budget, validation
from chainrule.derive.dense import planning
from chainrule.derive.dense.batching import basis_map, index_map
from chainrule.derive.dense.jacobians import check_chunk, named_jacobian
from chainrule.derive.dense.planning import NoRuleError, PlanningProblem, Trial
from chainrule.derive.dense.preparation import PreparedDerivative
from chainrule.derive.flattening import Flat, flatten
from chainrule.derive.jaxprs.branches import at_point
from chainrule.derive.jaxprs.refusals import MISSING_RULE
from chainrule.derive.report import Report

STRATEGIES = ("forward-over-forward", "forward-over-reverse", "reverse-over-forward", "reverse-over-reverse")
FOF, FOR, ROF, ROR = STRATEGIES
_REMEDIES = (
    "derive.sparse.hessian for structured functions, derive.hvp for products with it,\n"
    "derive.quadratic for single entries, or a larger memory="
)

_FEW = 8  # inputs up to which n(n+1)/2 cheap runs may beat n dear ones

Run = Callable[[Callable[[Any], Any], Tree, Tree], Tree]


def hessian(
    f: Callable[..., Any],
    strategy: str = "auto",
    chunk: int | None = None,
    *,
    argnums: int | Sequence[int] = 0,
    memory: str | int | None = None,
    measure: bool | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> PreparedDerivative:
    """The Hessian of a function, as a function: `hessian(f)(x)` has shape output + input + input.

    `strategy` is one of the four nestings, or "auto": the cheapest of the first three by the compiler's count of
    operations. (Reverse-over-reverse keeps most and never wins; it runs on request.) With `measure=True` they are timed
    instead. `chunk`, `memory`, `has_aux`, `.report` and `.plan` are those of `jacobian`.

    >>> rosenbrock = lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    >>> H = hessian(rosenbrock, "forward-over-forward")
    >>> H(jnp.array([-1.2, 1.0])).round(2).tolist()
    [[1330.0, 480.0], [480.0, 200.0]]
    >>> H.report.products
    3
    """
    options: dict[str, Any] = {"memory": memory, "measure": measure, "has_aux": has_aux}
    return _hessian("hessian", f, strategy, chunk, argnums=argnums, holomorphic=holomorphic, **options)


def _hessian(
    name: str,
    f: Callable[..., Any],
    strategy: str,
    chunk: int | None,
    *,
    argnums: int | Sequence[int],
    memory: str | int | None,
    measure: bool | None = None,
    has_aux: bool = False,
    holomorphic: bool | None = None,
) -> PreparedDerivative:
    """`hessian` by the name of another public function."""
    check_choice(name, "strategy", strategy, ("auto", *STRATEGIES))
    check_chunk(name, chunk)

    def plan(flat: Flat, trial: Trial, limit: int) -> Report:
        out = memory_budget.check_output(name, flat.m * flat.n**2, flat.itemsize, limit, _REMEDIES)
        rank = functools.partial(_rank, flat)

        def among(*names: str) -> Report:
            counts = {name: runs(name, flat.n, flat.m) for name in names}
            problem = PlanningProblem(name, flat.n, flat.m, "strategy", counts, chunk, out, limit)
            return planning.plan(problem, trial, rank, measure=measure)

        if strategy != "auto":
            return among(strategy)
        if flat.n <= _FEW:
            return among(*((FOF, FOR, ROF) if flat.n <= 2 else (FOR, ROF, FOF)))
        try:
            return among(FOR, ROF)
        except NoRuleError as error:
            return replace(among(FOF), reason=f"no reverse rule ({planning.first_sentence(error)})")

    def evaluate(flat: Flat, strategy: str, chunk: int) -> Tree:
        return flat.hessian_tree(tensor(flat, strategy, chunk))

    return PreparedDerivative(name, f, argnums, memory, holomorphic, plan, evaluate, has_aux=has_aux)


def hvp(
    f: Callable[..., Any],
    strategy: str = FOR,
    *,
    argnums: int | Sequence[int] = 0,
    batch: bool = False,
) -> Callable[..., Tree]:
    """Products `H v` of the Hessian of a scalar function with a vector, by any strategy: `hvp(f)(x, v, *args)`.

    `argnums` says which of `(x, *args)` the Hessian is taken in. With `batch=True` the leaves of `v` hold many vectors
    along a first axis.

    >>> hvp(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0])).tolist()
    [6.0, 12.0]
    """
    check_choice("hvp", "strategy", strategy, STRATEGIES)
    run = _forward_rows if strategy == FOF else RUNS[strategy]
    remedy = f'strategy="{FOF}" needs forward rules only, "{ROR}" reverse rules only'
    return _second_order_product("hvp", f'(strategy="{strategy}")', f, run, argnums, batch, remedy)


def vhp(
    f: Callable[..., Any], *, argnums: int | Sequence[int] = 0, batch: bool = False
) -> Callable[..., Tree]:
    """Products `uᵀ H` of a vector with the Hessian of a scalar function: `vhp(f)(x, u, *args)`.

    The gradient is pulled back along `u`, by reverse mode only. The result is that of `hvp` wherever second derivatives
    are symmetric; it differs where a rule written by hand is not the gradient of anything.

    >>> vhp(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0])).tolist()
    [6.0, 12.0]
    """
    remedy = f'hvp(strategy="{FOF}") needs forward rules only'
    return _second_order_product("vhp", "", f, reverse_over_reverse, argnums, batch, remedy)


def _second_order_product(
    name: str,
    options: str,
    f: Callable[..., Any],
    run: "Run",
    argnums: int | Sequence[int],
    batch: bool,
    remedy: str,
) -> Callable[..., Tree]:
    validation.function(name, f)

    def product(x: Tree, v: Tree, *args: Any) -> Tree:
        one, x = validation.moving(name, f, x, args, argnums)
        v = validation.direction(name, "v", v, x, batch=batch)
        scalar = _scalar(name, one)
        along = lambda v: run(scalar, x, v)  # noqa: E731
        try:
            return (jax.vmap(along) if batch else along)(v)
        except MISSING_RULE as error:
            if isinstance(error, ChainruleError):
                raise
            validation.bare(name, scalar(x))  # a mistake in f itself is no missing rule
            raise NoRuleError(f"{name}{options}: {planning.first_sentence(error)}", remedy=remedy) from error

    return product


def _forward_rows(f: Callable[[Any], Any], x: Tree, v: Tree) -> Tree:
    """`H v` entry by entry, forward over forward."""
    along, restore = ravel_pytree(v)
    flat = flatten(at_point("hvp", f, (x,)), x)
    entry = lambda w: second(flat.vector, flat.x, along, w)[0]  # noqa: E731
    return restore(basis_map(entry, flat.n, flat.x.dtype, max(flat.n, 1)))


def quadratic(f: Callable[..., Any], *, argnums: int | Sequence[int] = 0) -> Callable[..., Scalar]:
    """The bilinear form `wᵀ H v` of a scalar function, by one forward-over-forward run: `quadratic(f)(x, v, w, *args)`.

    >>> e = jnp.eye(2)
    >>> float(quadratic(lambda x: x[0] ** 2 * x[1])(jnp.array([3.0, 5.0]), e[0], e[1]))
    6.0
    """

    validation.function("quadratic", f)

    def form(x: Tree, v: Tree, w: Tree, *args: Any) -> Scalar:
        one, x = validation.moving("quadratic", f, x, args, argnums)
        v = validation.direction("quadratic", "v", v, x)
        w = validation.direction("quadratic", "w", w, x)
        return second(_scalar("quadratic", one), x, v, w)

    return form


def lagrangian_hessian(
    f: Callable[..., Any],
    strategy: str = FOR,
    chunk: int | None = None,
    *,
    argnums: int | Sequence[int] = 0,
    memory: str | int | None = None,
) -> PreparedDerivative:
    """`sum_i y_i H_i(x)` of a function of several outputs, from one reverse seed: `lagrangian_hessian(f)(x, y, *args)`.

    `y` weights the outputs; `argnums` says which of `(x, *args)` the Hessian is taken in.

    >>> f = lambda x: jnp.stack([x[0] ** 2, x[0] * x[1]])
    >>> lagrangian_hessian(f)(jnp.array([1.0, 2.0]), jnp.array([1.0, 10.0])).tolist()
    [[2.0, 10.0], [10.0, 0.0]]
    """
    validation.function("lagrangian_hessian", f)
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if any(number < 0 for number in numbers):
        raise ArgumentError(
            f"lagrangian_hessian(argnums={argnums}): the arguments are counted from the front, x is 0"
        )

    def lagrangian(x: Tree, y: Tree, *args: Any) -> Array:
        z = f(x, *args)
        return tree.dot(validation.direction("lagrangian_hessian", "y", y, z, "f(x)"), z)

    shifted = tuple(number + (number > 0) for number in numbers)  # the weights stand between x and args
    moving = shifted[0] if isinstance(argnums, int) else shifted
    return _hessian("lagrangian_hessian", lagrangian, strategy, chunk, argnums=moving, memory=memory)


def mixed(f: Callable[..., Any], first: int = 0, other: int = 1) -> PreparedDerivative:
    """The block of second derivatives between two arguments of a scalar function: first x other.

    >>> mixed(lambda x, q: q * jnp.sum(x**2))(jnp.array([1.0, 2.0]), 3.0).tolist()
    [2.0, 4.0]
    """
    validation.function("mixed", f)

    def scalar(*args: Any) -> Any:
        y = f(*args)
        validation.scalar_output("mixed", y)
        return y

    inner = named_jacobian("mixed", scalar, argnums=first, chooser="first")
    return named_jacobian("mixed", lambda *args: inner(*args), argnums=other, chooser="other")


# ---------------------------------------------------------------------- one run of each strategy


def second(f: Callable[[Any], Any], x: Tree, v: Tree, w: Tree) -> Tree:
    """Forward over forward: the second derivative of every output along `v` and `w`."""
    return jax.jvp(lambda x: jax.jvp(f, (x,), (v,))[1], (x,), (w,))[1]


def forward_over_reverse(f: Callable[[Any], Any], x: Tree, v: Tree) -> Tree:
    """`H v` as the directional derivative of the gradient."""
    gradient = jax.grad(f)
    try:
        return jax.jvp(gradient, (x,), (v,))[1]
    except MISSING_RULE:
        # Linearised, which takes JAX longer to trace, what the gradient does not use needs no forward rule: the value
        # of a function with a custom reverse rule, say.
        return jax.linearize(gradient, x)[1](v)


def reverse_over_forward(f: Callable[[Any], Any], x: Tree, v: Tree) -> Tree:
    """`H v` as the gradient of the directional derivative."""
    return jax.grad(lambda x: jax.jvp(f, (x,), (v,))[1])(x)


def reverse_over_reverse(f: Callable[[Any], Any], x: Tree, w: Tree) -> Tree:
    """`H w` as the gradient of the gradient's inner product with `w`."""
    return jax.vjp(jax.grad(f), x)[1](w)[0]


RUNS: dict[str, Run] = {FOR: forward_over_reverse, ROF: reverse_over_forward, ROR: reverse_over_reverse}


def tensor(flat: Flat, strategy: str, chunk: int) -> Array:
    """The m x n x n tensor of second derivatives of a flat function."""
    n, m = flat.n, flat.m
    if not n or not m:
        return jnp.zeros((m, n, n), flat.x.dtype)
    if strategy == FOF:
        return _by_pairs(flat, chunk)

    def one(k: Array | int) -> Array:
        return basis_map(_product(flat, strategy, k), n, flat.x.dtype, chunk, traced=flat.traceable)

    if m == 1:
        return one(0)[None]
    return index_map(one, m, max(1, chunk // n), traced=flat.traceable)


def _product(flat: Flat, strategy: str, k: Array | int) -> Callable[[Array], Array]:
    """Products with the Hessian of one output; what does not depend on the direction is done once."""
    output = lambda z: flat.vector(z)[k]  # noqa: E731
    gradient = functools.partial(jax.grad, holomorphic=jnp.iscomplexobj(flat.x))
    if strategy == FOR:
        return jax.linearize(gradient(output), flat.x)[1]
    if strategy == ROR:
        _, pull = jax.vjp(gradient(output), flat.x)
        return lambda w: pull(w)[0]
    return lambda v: gradient(lambda x: jax.jvp(output, (x,), (v,))[1])(flat.x)


def _by_pairs(flat: Flat, chunk: int) -> Array:
    """Forward over forward for every pair of inputs on or above the diagonal."""
    n = flat.n
    rows, columns = np.triu_indices(n)
    unit = lambda i: (jnp.arange(n) == i).astype(flat.x.dtype)  # noqa: E731

    def pair(k: Array) -> Array:
        return second(flat.vector, flat.x, unit(jnp.asarray(rows)[k]), unit(jnp.asarray(columns)[k]))

    pairs = index_map(pair, len(rows), chunk, axis=1, traced=flat.traceable)
    i, j = jnp.arange(n)[:, None], jnp.arange(n)[None, :]
    low, high = jnp.minimum(i, j), jnp.maximum(i, j)
    return pairs[:, low * n - low * (low - 1) // 2 + high - low]


def runs(strategy: str, n: int, m: int) -> int:
    """Second-order runs for the whole tensor."""
    return n * (n + 1) // 2 if strategy == FOF else n * m


def _rank(flat: Flat, flops: Mapping[str, float]) -> tuple[list[str], str]:
    """By operations; a near tie goes to forward-over-reverse, which keeps less than reverse-over-forward."""
    order = sorted(flops, key=lambda name: flops[name] * (0.9 if name == FOR else 1.0))
    return order, f"fewest operations for {flat.n:,} inputs and {flat.m:,} outputs"


def _scalar(where: str, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def checked(x: Any) -> Any:
        y = f(x)
        validation.scalar_output(where, y)
        return y

    return checked


__all__ = [
    "FOF",
    "FOR",
    "ROF",
    "ROR",
    "RUNS",
    "STRATEGIES",
    "hessian",
    "hvp",
    "lagrangian_hessian",
    "mixed",
    "quadratic",
    "runs",
    "second",
    "tensor",
    "vhp",
]
