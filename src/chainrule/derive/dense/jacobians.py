"""Dense Jacobians, with the mode and the batch size chosen for the function and the choice explained.

Forward mode gives a column per product, reverse mode a row. Which is cheaper depends on the shape and on the function,
so both are compiled and compared; `planning` says how, the `Report` of each call with what result.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Tree
from chainrule.derive import memory_budget, validation
from chainrule.derive.dense import planning
from chainrule.derive.dense.batching import basis_map
from chainrule.derive.dense.planning import PlanningProblem, Trial
from chainrule.derive.dense.preparation import PreparedDerivative
from chainrule.derive.flattening import Flat, pulled
from chainrule.derive.report import Report

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
    argnums: int | Sequence[int] = 0,
    memory: str | int | None = None,
    measure: bool | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> PreparedDerivative:
    """The Jacobian of a function, as a function: `jacobian(f)(x)` has shape output + input (blocks for PyTrees).

    - `mode`: "forward" (a product per input), "reverse" (a product per output) or "auto".
    - `chunk`: products per batch; chosen from the memory budget when not given.
    - `memory`: budget, e.g. "2GiB"; a quarter of the free device memory when not given.
    - `measure`: whether to time what "auto" chooses between. When not given, modes are timed where their operations
      are within a factor of three, which says little about time, and batch sizes where they could matter.
    - `has_aux`: the function returns `(value, extra)`, and a call `(jacobian, extra)`.

    The callable keeps a `.report` of its latest call and gives one beforehand with `.plan(x)`. Planning and compilation
    happen at the first call for each kind of input, so keep the callable and use it again.

    >>> J = jacobian(lambda x: jnp.stack([x[0] * x[1], x[1] ** 2]))
    >>> J(jnp.array([2.0, 3.0])).tolist()
    [[3.0, 2.0], [0.0, 6.0]]
    >>> J.report.mode
    'forward'
    """
    options: dict[str, Any] = {"memory": memory, "measure": measure, "has_aux": has_aux}
    return named_jacobian("jacobian", f, mode, chunk, argnums=argnums, holomorphic=holomorphic, **options)


def named_jacobian(
    name: str,
    f: Callable[..., Any],
    mode: str = "auto",
    chunk: int | None = None,
    *,
    argnums: int | Sequence[int] = 0,
    memory: str | int | None = None,
    measure: bool | None = None,
    has_aux: bool = False,
    holomorphic: bool | None = None,
    chooser: str = "argnums",
) -> PreparedDerivative:
    """`jacobian` for another public function, which messages and reports name."""
    check_choice(name, "mode", mode, MODES)
    check_chunk(name, chunk)

    def plan(flat: Flat, trial: Trial, limit: int) -> Report:
        out = memory_budget.check_output(name, flat.m * flat.n, flat.itemsize, limit, _REMEDIES)
        counts = {"forward": flat.n, "reverse": flat.m}
        names = (mode,) if mode != "auto" else sorted(counts, key=lambda name: counts[name])
        counts = {name: counts[name] for name in names}
        # Operations do not predict time better than within a factor of three.
        problem = PlanningProblem(name, flat.n, flat.m, "mode", counts, chunk, out, limit, close=3.0)
        return planning.plan(problem, trial, functools.partial(_rank, flat), measure=measure)

    def evaluate(flat: Flat, mode: str, chunk: int) -> Tree:
        return flat.jacobian_tree(matrix(flat, mode, chunk))

    return PreparedDerivative(
        name, f, argnums, memory, holomorphic, plan, evaluate, has_aux=has_aux, chooser=chooser
    )


def matrix(flat: Flat, mode: str, chunk: int) -> Array:
    """The m x n Jacobian of a flat function.

    Forward mode carries tangents along with the values and keeps nothing, so every batch evaluates the function anew;
    reverse mode evaluates it once and keeps what the pullback needs.
    """
    if mode == "forward":
        push = lambda v: jax.jvp(flat.vector, (flat.x,), (v,))[1]  # noqa: E731
        return basis_map(push, flat.n, flat.x.dtype, chunk, axis=1, traced=flat.traceable)
    y, pull = jax.vjp(flat.vector, flat.x)
    return basis_map(functools.partial(pulled, flat.x, pull), flat.m, y.dtype, chunk)


def jacobian_blocks(
    f: Callable[..., Any],
    x: Tree,
    rows: int = 1024,
    *,
    args: Any = (),
    argnums: int | Sequence[int] = 0,
) -> Iterator[tuple[slice, Array]]:
    """The Jacobian `rows` rows at a time (reverse mode), as `(slice, block)` with blocks of shape (rows, inputs).

    For results too large to hold at once; inputs and outputs are counted as in a flattened PyTree. `args` are what `f`
    takes after `x`; `argnums` says which of `(x, *args)` are differentiated.

    >>> [block.shape for _, block in jacobian_blocks(lambda x: x**2, jnp.arange(5.0), rows=2)]
    [(2, 5), (2, 5), (1, 5)]
    """
    if not isinstance(rows, int) or rows < 1:
        raise ArgumentError(f"jacobian_blocks(rows={rows!r}): rows must be a positive whole number")
    return _blocks(*validation.moving("jacobian_blocks", f, x, args, argnums), rows)


def _blocks(f: Callable[[Any], Any], x: Tree, rows: int) -> Iterator[tuple[slice, Array]]:
    y, back = jax.vjp(f, x)
    validation.outputs("jacobian_blocks", y)
    flat_y, restore = ravel_pytree(y)
    flat_x = ravel_pytree(x)[0]

    @functools.partial(jax.jit, static_argnums=2)
    def block(back: Callable[[Tree], tuple[Tree]], first: Array, count: int) -> Array:
        pull = lambda u: (ravel_pytree(back(restore(u)))[0],)  # noqa: E731
        unit = lambda i: (jnp.arange(flat_y.size) == i).astype(flat_y.dtype)  # noqa: E731
        return jax.vmap(lambda i: pulled(flat_x, pull, unit(i)))(first + jnp.arange(count))

    for first in range(0, flat_y.size, rows):
        stop = min(first + rows, flat_y.size)
        yield slice(first, stop), block(back, jnp.asarray(first), stop - first)


def check_chunk(where: str, chunk: int | None) -> None:
    """Raise unless the chunk is missing or a positive whole number."""
    if chunk is not None and (not isinstance(chunk, int) or chunk < 1):
        raise ArgumentError(
            f"{where}(chunk={chunk!r}): chunk must be a positive whole number, or None to choose one"
        )


def _rank(flat: Flat, flops: Mapping[str, float]) -> tuple[list[str], str]:
    why = f"{flat.n:,} inputs, {flat.m:,} outputs"
    if len(flops) == 1:
        return list(flops), why
    forward, reverse = flops["forward"], flops["reverse"]
    why += f"; {forward:.3g} operations forward, {reverse:.3g} reverse"
    if forward > 1.2 * reverse:
        return ["reverse", "forward"], why
    near = " (within 20 %: forward needs less memory)" if forward > reverse / 1.2 else ""
    return ["forward", "reverse"], why + near


__all__ = ["MODES", "check_chunk", "jacobian", "jacobian_blocks", "matrix", "named_jacobian"]
