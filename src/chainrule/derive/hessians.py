"""Second derivatives by all four nestings of forward and reverse mode.

| strategy | one run gives | runs for the whole Hessian |
|---|---|---|
| forward-over-forward | `wᵀ H v`: duals of duals, nothing stored | n(n+1)/2, by symmetry |
| forward-over-reverse | `H v`: the gradient, pushed forward along `v` | n |
| reverse-over-forward | `H v`: the gradient of `x -> f'(x) v` | n |
| reverse-over-reverse | `H w`: the gradient, pulled back along `w` | n |

Every strategy works for functions of several outputs too: the result is then an outputs x inputs x inputs tensor, and
the runs are multiplied by the number of outputs (except for forward-over-forward).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from chainrule.core import tree
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Scalar, Tree
from chainrule.derive import budget, validate
from chainrule.derive.batched import basis_map, index_map
from chainrule.derive.budget import Cost
from chainrule.derive.flat import Flat, flatten
from chainrule.derive.jacobians import check_chunk
from chainrule.derive.prepared import Prepared
from chainrule.derive.report import Report

STRATEGIES = ("forward-over-forward", "forward-over-reverse", "reverse-over-forward", "reverse-over-reverse")
FOF, FOR, ROF, ROR = STRATEGIES
_REMEDIES = (
    "derive.sparse.hessian for structured functions, derive.hvp for products with it,\n"
    "derive.quadratic for single entries, or a larger memory="
)

Run = Callable[[Callable[[Array], Array], Array, Array], Array]


def hessian(
    f: Callable[..., Any],
    strategy: str = "auto",
    chunk: int | None = None,
    *,
    argnums: int = 0,
    memory: str | int | None = None,
) -> Prepared:
    """The Hessian of a function, as a function: `hessian(f)(x)` has shape output + input + input.

    `strategy` is one of the four nestings, or "auto": the cheapest of the first three by the compiler's count of
    operations. (Reverse-over-reverse keeps most and never wins; it runs on request.) `chunk`, `memory`, `.report` and
    `.plan` are those of `jacobian`.

    >>> rosenbrock = lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    >>> H = hessian(rosenbrock, "forward-over-forward")
    >>> H(jnp.array([-1.2, 1.0])).round(2).tolist()
    [[1330.0, 480.0], [480.0, 200.0]]
    >>> H.report.products
    3
    """
    check_choice("hessian", "strategy", strategy, ("auto", *STRATEGIES))
    check_chunk("hessian", chunk)

    def plan(flat: Flat, obstacle: str, limit: int, args: tuple[Any, ...]) -> Report:
        del args
        size = jnp.dtype(flat.x.dtype).itemsize
        out = budget.check_output("hessian", flat.m * flat.n**2, size, limit, _REMEDIES)
        if obstacle or not flat.n or not flat.m:
            return _plan_by_shape(flat, strategy, chunk, out)
        return _plan_by_cost(flat, strategy, chunk, out, limit - out)

    def evaluate(flat: Flat, strategy: str, chunk: int) -> Tree:
        return flat.hessian_tree(tensor(flat, strategy, chunk))

    return Prepared("hessian", f, argnums, memory, False, plan, evaluate)


def hvp(f: Callable[[Any], Any], strategy: str = FOR) -> Callable[[Tree, Tree], Tree]:
    """Products of the Hessian of a scalar function with a vector, by any strategy.

    >>> hvp(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0])).tolist()
    [6.0, 12.0]
    """
    check_choice("hvp", "strategy", strategy, STRATEGIES)

    def product(x: Tree, v: Tree) -> Tree:
        x = validate.point("hvp", x)
        v = validate.direction("hvp", "v", v, x)
        restore = _restore(x)
        flat = flatten(_scalar("hvp", f), x)
        along = ravel_pytree(v)[0]
        if strategy == FOF:
            units = lambda w: second(flat.vector, flat.x, along, w)[0]  # noqa: E731
            return restore(basis_map(units, flat.n, flat.x.dtype, flat.n))
        return restore(RUNS[strategy](lambda z: flat.vector(z)[0], flat.x, along))

    return product


def quadratic(f: Callable[[Any], Any]) -> Callable[[Tree, Tree, Tree], Scalar]:
    """The bilinear form `wᵀ H v` of a scalar function, by one forward-over-forward run.

    >>> e = jnp.eye(2)
    >>> float(quadratic(lambda x: x[0] ** 2 * x[1])(jnp.array([3.0, 5.0]), e[0], e[1]))
    6.0
    """

    def form(x: Tree, v: Tree, w: Tree) -> Scalar:
        x = validate.point("quadratic", x)
        v = validate.direction("quadratic", "v", v, x)
        w = validate.direction("quadratic", "w", w, x)
        slope = lambda x: jax.jvp(_scalar("quadratic", f), (x,), (v,))[1]  # noqa: E731
        return jax.jvp(slope, (x,), (w,))[1]

    return form


def lagrangian_hessian(f: Callable[[Any], Any]) -> Callable[[Tree, Tree], Tree]:
    """`sum_i y_i H_i(x)` of a function of several outputs, from one reverse seed: `lagrangian_hessian(f)(x, y)`.

    >>> f = lambda x: jnp.stack([x[0] ** 2, x[0] * x[1]])
    >>> lagrangian_hessian(f)(jnp.array([1.0, 2.0]), jnp.array([1.0, 10.0])).tolist()
    [[2.0, 10.0], [10.0, 0.0]]
    """

    def evaluate(x: Tree, y: Tree) -> Tree:
        x = validate.point("lagrangian_hessian", x)
        y = validate.direction("lagrangian_hessian", "y", y, jax.eval_shape(f, x), "f(x)")
        return hessian(lambda x: tree.dot(y, f(x)), FOR)(x)

    return evaluate


def mixed(f: Callable[..., Any], first: int = 0, other: int = 1) -> Callable[..., Tree]:
    """The block of second derivatives between two arguments of a scalar function: first x other.

    >>> mixed(lambda x, q: q * jnp.sum(x**2))(jnp.array([1.0, 2.0]), 3.0).tolist()
    [2.0, 4.0]
    """

    def evaluate(*args: Any) -> Tree:
        for number in (first, other):
            validate.point("mixed", validate.argument("mixed", args, number), name=f"argument {number}")
        return jax.jacfwd(jax.grad(f, first), other)(
            *(jnp.asarray(a) if isinstance(a, float) else a for a in args)
        )

    return evaluate


# ---------------------------------------------------------------------- one run of each strategy


def second(f: Callable[[Array], Array], x: Array, v: Array, w: Array) -> Array:
    """Forward over forward: the second derivative of every output along `v` and `w`."""
    return jax.jvp(lambda x: jax.jvp(f, (x,), (v,))[1], (x,), (w,))[1]


def forward_over_reverse(f: Callable[[Array], Array], x: Array, v: Array) -> Array:
    """`H v` as the directional derivative of the gradient."""
    return jax.jvp(jax.grad(f), (x,), (v,))[1]


def reverse_over_forward(f: Callable[[Array], Array], x: Array, v: Array) -> Array:
    """`H v` as the gradient of the directional derivative."""
    return jax.grad(lambda x: jax.jvp(f, (x,), (v,))[1])(x)


def reverse_over_reverse(f: Callable[[Array], Array], x: Array, w: Array) -> Array:
    """`H w` as the gradient of the gradient's inner product with `w`."""
    return jax.vjp(jax.grad(f), x)[1](w)[0]


RUNS: dict[str, Run] = {FOR: forward_over_reverse, ROF: reverse_over_forward, ROR: reverse_over_reverse}


def tensor(flat: Flat, strategy: str, chunk: int) -> Array:
    """The m x n x n tensor of second derivatives of a flat function."""
    n, m = flat.n, flat.m
    dtype = flat.x.dtype
    if strategy == FOF:
        rows, columns = (jnp.asarray(i) for i in np.triu_indices(n))
        unit = lambda i: (jnp.arange(n) == i).astype(dtype)  # noqa: E731
        pairs = index_map(
            lambda ij: second(flat.vector, flat.x, unit(ij[0]), unit(ij[1])), (rows, columns), chunk
        )
        upper = jnp.zeros((m, n, n), pairs.dtype).at[:, rows, columns].set(pairs.T)
        return upper.at[:, columns, rows].set(pairs.T)
    run = RUNS[strategy]

    def one(k: Array) -> Array:
        output = lambda z: flat.vector(z)[k]  # noqa: E731
        if strategy == FOR:  # the gradient is linearised once and pushed along every direction
            _, push = jax.linearize(jax.grad(output), flat.x)
            return basis_map(push, n, dtype, chunk)
        if strategy == ROR:
            _, pull = jax.vjp(jax.grad(output), flat.x)
            return basis_map(lambda w: pull(w)[0], n, dtype, chunk)
        return basis_map(lambda v: run(output, flat.x, v), n, dtype, chunk)

    if m == 1:
        return one(jnp.asarray(0))[None]
    return index_map(one, jnp.arange(m), max(1, chunk // max(n, 1)))


def runs(strategy: str, n: int, m: int) -> int:
    """Second-order runs for the whole tensor."""
    return n * (n + 1) // 2 if strategy == FOF else n * m


# ---------------------------------------------------------------------- planning


def _plan_by_shape(flat: Flat, strategy: str, chunk: int | None, out: int) -> Report:
    chosen = strategy if strategy != "auto" else FOF if flat.n <= 2 else FOR
    why = "asked for" if strategy != "auto" else f"{flat.n} inputs"
    count = runs(chosen, flat.n, flat.m)
    return Report(
        "hessian", flat.n, flat.m, chosen, min(chunk or count, count) or 1, count, why, output_bytes=out
    )


def _plan_by_cost(flat: Flat, strategy: str, chunk: int | None, out: int, room: int) -> Report:
    candidates = (FOF, FOR, ROF) if strategy == "auto" else (strategy,)
    costs: dict[str, Cost] = {}
    missing: dict[str, str] = {}
    for name in candidates:
        try:
            costs[name] = strategy_cost(flat, name)
        except (TypeError, ValueError, NotImplementedError) as error:  # how JAX says that a rule is missing
            if len(candidates) == 1:
                raise
            missing[name] = str(error).split(". ")[0].splitlines()[0]
    if not costs:
        raise ArgumentError(
            "hessian: no strategy can differentiate the function twice",
            remedy="\n".join(f"{name}: {why}" for name, why in list(missing.items())[:3]),
        )
    counts = {name: runs(name, flat.n, flat.m) for name in costs}
    flops = {name: cost.total_flops(counts[name]) for name, cost in costs.items()}
    fitting = [name for name in costs if costs[name].scratch(1) <= room] or list(costs)
    # A near tie goes to forward-over-reverse, which keeps less than reverse-over-forward.
    chosen = min(fitting, key=lambda name: flops[name] * (0.9 if name == FOR else 1.0))
    why = "asked for" if strategy != "auto" else f"fewest operations for {flat.n} inputs and {flat.m} outputs"
    if strategy == "auto" and missing:
        why += "; no rule for " + ", ".join(f"{name} ({reason})" for name, reason in missing.items())
    size = min(counts[chosen], chunk or max(1, costs[chosen].largest_chunk(room)))
    return Report(
        "hessian",
        flat.n,
        flat.m,
        chosen,
        size,
        counts[chosen],
        why,
        flops=flops,
        output_bytes=out,
        peak_bytes=int(costs[chosen].scratch(size)),
    )


def strategy_cost(flat: Flat, strategy: str) -> Cost:
    """Compiled operations and scratch memory of batched runs of one strategy."""
    x = budget.struct(flat.x.shape, flat.x.dtype)
    if strategy == FOF:

        def pairs(x: Array, vs: Array, ws: Array) -> Array:
            return jax.vmap(lambda v, w: second(flat.vector, x, v, w))(vs, ws)

        return budget.batch_cost(pairs, x, lambda k: (budget.struct((k, flat.n), x.dtype),) * 2)

    def products(x: Array, vs: Array) -> Array:
        return jax.vmap(lambda v: RUNS[strategy](lambda z: flat.vector(z)[0], x, v))(vs)

    return budget.batch_cost(products, x, lambda k: (budget.struct((k, flat.n), x.dtype),))


def _scalar(where: str, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def checked(x: Any) -> Any:
        y = f(x)
        validate.scalar_output(where, y)
        return y

    return checked


def _restore(x: Tree) -> Callable[[Array], Tree]:
    restore: Callable[[Array], Tree] = ravel_pytree(x)[1]
    return restore


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
    "strategy_cost",
    "tensor",
]
