"""Dense Jacobians: the mode and the batch size are chosen for the user's own function, and the choice is explained.

Forward mode gives a column per product, reverse mode a row. Which is cheaper depends on the shape and on the function,
so both are compiled for one and two directions and their operations and scratch memory compared (`Report`).
"""

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Tree
from chainrule.derive import budget, validate
from chainrule.derive.batched import basis_map
from chainrule.derive.budget import Cost
from chainrule.derive.flat import Flat, flatten
from chainrule.derive.prepared import Prepared
from chainrule.derive.report import Report, bytes_text

MODES = ("auto", "forward", "reverse")
_REMEDIES = (
    "derive.sparse.jacobian for structured functions, derive.jvp / vjp for products,\n"
    "derive.jacobian_blocks for a block at a time, or a larger memory="
)


def jacobian(
    f: Callable[..., Any],
    mode: str = "auto",
    chunk: int | None = None,
    *,
    argnums: int = 0,
    memory: str | int | None = None,
    measure: bool = False,
    holomorphic: bool = False,
) -> Prepared:
    """The Jacobian of a function, as a function: `jacobian(f)(x)` has shape output + input (blocks for PyTrees).

    - `mode`: "forward" (a product per input), "reverse" (a product per output) or "auto".
    - `chunk`: products per batch; chosen from the memory budget when not given.
    - `memory`: budget, e.g. "2GiB"; a quarter of the free device memory when not given.
    - `measure`: let "auto" time both modes instead of comparing their operations.

    The callable keeps a `.report` of its latest call and gives one beforehand with `.plan(x)`.

    >>> J = jacobian(lambda x: jnp.stack([x[0] * x[1], x[1] ** 2]))
    >>> J(jnp.array([2.0, 3.0])).tolist()
    [[3.0, 2.0], [0.0, 6.0]]
    >>> J.report.mode
    'forward'
    """
    check_choice("jacobian", "mode", mode, MODES)
    check_chunk("jacobian", chunk)

    def plan(flat: Flat, obstacle: str, limit: int, args: tuple[Any, ...]) -> Report:
        size = jnp.dtype(flat.x.dtype).itemsize
        out = budget.check_output("jacobian", flat.m * flat.n, size, limit, _REMEDIES)
        if obstacle or not flat.n or not flat.m:
            return _plan_by_shape(flat, mode, chunk, out)
        timed = functools.partial(_seconds, prepared, args) if measure else None
        return _plan_by_cost(flat, mode, chunk, out, limit - out, timed)

    def evaluate(flat: Flat, mode: str, chunk: int) -> Tree:
        return flat.jacobian_tree(matrix(flat, mode, chunk))

    prepared = Prepared("jacobian", f, argnums, memory, holomorphic, plan, evaluate)
    return prepared


def matrix(flat: Flat, mode: str, chunk: int) -> Array:
    """The m x n Jacobian of a flat function."""
    if mode == "forward":
        _, push = jax.linearize(flat.vector, flat.x)
        return basis_map(push, flat.n, flat.x.dtype, chunk).T
    y, pull = jax.vjp(flat.vector, flat.x)
    return basis_map(lambda u: pull(u)[0], flat.m, y.dtype, chunk)


def jacobian_blocks(f: Callable[[Any], Any], x: Tree, rows: int = 1024) -> Iterator[tuple[slice, Array]]:
    """The Jacobian `rows` rows at a time (reverse mode), as `(slice, block)` with blocks of shape (rows, inputs).

    For results too large to hold at once; inputs and outputs are counted as in a flattened PyTree.

    >>> [block.shape for _, block in jacobian_blocks(lambda x: x**2, jnp.arange(5.0), rows=2)]
    [(2, 5), (2, 5), (1, 5)]
    """
    if rows < 1:
        raise ArgumentError(f"jacobian_blocks(rows={rows}): rows must be at least 1")
    flat = flatten(f, validate.point("jacobian_blocks", x))
    y, pull = jax.vjp(flat.vector, flat.x)

    @functools.partial(jax.jit, static_argnums=1)
    def block(first: Array, count: int) -> Array:
        return jax.vmap(lambda i: pull((jnp.arange(flat.m) == i).astype(y.dtype))[0])(
            first + jnp.arange(count)
        )

    for first in range(0, flat.m, rows):
        stop = min(first + rows, flat.m)
        yield slice(first, stop), block(jnp.asarray(first), stop - first)


def check_chunk(where: str, chunk: int | None) -> None:
    """Raise unless the chunk is missing or a positive whole number."""
    if chunk is not None and (not isinstance(chunk, int) or chunk < 1):
        raise ArgumentError(
            f"{where}(chunk={chunk!r}): chunk must be a positive whole number, or None to choose one"
        )


def _plan_by_shape(flat: Flat, mode: str, chunk: int | None, out: int) -> Report:
    """Without a cost analysis: fewer products win."""
    chosen = mode if mode != "auto" else "forward" if flat.n <= flat.m else "reverse"
    why = "asked for" if mode != "auto" else f"{flat.n} inputs, {flat.m} outputs"
    count = flat.n if chosen == "forward" else flat.m
    return Report(
        "jacobian", flat.n, flat.m, chosen, min(chunk or count, count) or 1, count, why, output_bytes=out
    )


def _plan_by_cost(
    flat: Flat, mode: str, chunk: int | None, out: int, room: int, timed: Callable[[str, int], float] | None
) -> Report:
    costs, failures = _costs(flat, MODES[1:] if mode == "auto" else (mode,))
    counts = {"forward": flat.n, "reverse": flat.m}
    chunks = {
        name: min(counts[name], chunk or max(1, cost.largest_chunk(room))) for name, cost in costs.items()
    }
    flops = {name: cost.total_flops(counts[name]) for name, cost in costs.items()}
    if mode != "auto":
        chosen, why = mode, "asked for"
    elif failures:
        (chosen,), ((other, reason), *_) = costs, failures.items()
        why = f"no {other} rule ({reason})"
    elif timed is not None:
        seconds = {name: timed(name, chunks[name]) for name in costs}
        chosen = min(seconds, key=lambda name: seconds[name])
        why = "measured " + ", ".join(f"{name} {s * 1e3:.3g} ms" for name, s in seconds.items())
    else:
        chosen, why = _choose(flat, costs, flops, room)
    scratch = costs[chosen].scratch(chunks[chosen])
    notes: tuple[str, ...] = ()
    if scratch > room:
        notes = (
            f"scratch of about {bytes_text(scratch)} exceeds the budget; derive.checkpoint trades memory for time",
        )
    return Report(
        "jacobian",
        flat.n,
        flat.m,
        chosen,
        chunks[chosen],
        counts[chosen],
        why,
        flops=flops,
        output_bytes=out,
        peak_bytes=int(scratch),
        notes=notes,
    )


def _choose(flat: Flat, costs: dict[str, Cost], flops: dict[str, float], room: int) -> tuple[str, str]:
    forward, reverse = flops["forward"], flops["reverse"]
    why = f"{flat.n} inputs, {flat.m} outputs; {forward:.3g} operations forward, {reverse:.3g} reverse"
    if costs["reverse"].scratch(1) > room >= costs["forward"].scratch(1):
        return "forward", f"{why}; what reverse mode keeps would not fit the memory budget"
    if forward <= 1.2 * reverse:
        near = " (within 20 %: forward needs less memory)" if forward > reverse / 1.2 else ""
        return "forward", why + near
    return "reverse", why


def _costs(flat: Flat, names: tuple[str, ...]) -> tuple[dict[str, Cost], dict[str, str]]:
    """The cost of each mode, and why a mode that has no derivative rule is missing."""
    costs: dict[str, Cost] = {}
    failures: dict[str, str] = {}
    for name in names:
        try:
            costs[name] = _cost(flat, name)
        except (TypeError, ValueError, NotImplementedError) as error:  # how JAX says that a rule is missing
            if len(names) == 1:
                raise
            failures[name] = str(error).split(". ")[0].splitlines()[0]
    if not costs:
        raise ArgumentError(
            "jacobian: the function has neither a forward nor a reverse derivative",
            remedy="\n".join(f"{name}: {why}" for name, why in failures.items()),
        )
    return costs, failures


def _cost(flat: Flat, mode: str) -> Cost:
    x = budget.struct(flat.x.shape, flat.x.dtype)
    if mode == "forward":

        def push(x: Array, vs: Array) -> Array:
            return jax.vmap(lambda v: jax.jvp(flat.vector, (x,), (v,))[1])(vs)

        return budget.batch_cost(push, x, lambda k: (budget.struct((k, flat.n), flat.x.dtype),))
    dtype = jax.eval_shape(flat.vector, x).dtype

    def pull(x: Array, us: Array) -> Array:
        return jax.vmap(lambda u: jax.vjp(flat.vector, x)[1](u)[0])(us)

    return budget.batch_cost(pull, x, lambda k: (budget.struct((k, flat.m), dtype),))


def _seconds(prepared: Prepared, args: tuple[Any, ...], mode: str, chunk: int) -> float:
    """The fastest of a few calls."""
    jax.block_until_ready(prepared.run(mode, chunk, *args))
    runs = []
    for _ in range(5):
        began = time.perf_counter()
        jax.block_until_ready(prepared.run(mode, chunk, *args))
        runs.append(time.perf_counter() - began)
    return min(runs)


__all__ = ["MODES", "check_chunk", "jacobian", "jacobian_blocks", "matrix"]
