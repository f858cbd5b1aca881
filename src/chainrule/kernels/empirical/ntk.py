"""The empirical neural tangent kernel: inner products of gradients of a network's outputs by its parameters.

`Theta(x, y) = <df(x)/dtheta, df(y)/dtheta>` says how much a small step of gradient descent on y moves the output at x.
It is the kernel of the network linearised at its parameters, and what a very wide network is trained by throughout.

Reference: Jacot, Gabriel and Hongler, Neural tangent kernel: convergence and generalization in neural networks, NeurIPS
2018, arXiv:1806.07572.
"""

import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Tree
from chainrule.kernels.empirical.planning import KernelPlan, plan
from chainrule.kernels.empirical.routes import ROUTES, ByStructure, LayerByLayer, Route
from chainrule.kernels.empirical.subjects import (
    Arrays,
    Subject,
    Where,
    count,
    no_forward_mode,
    prepared,
    rows,
)
from chainrule.kernels.precision import traced

Output: TypeAlias = str | int
"""Outputs summed over ("trace"), kept ("full"), or the only one that counts."""

_PLANS: "weakref.WeakKeyDictionary[Any, dict[Any, KernelPlan]]" = weakref.WeakKeyDictionary()
"""Compiled programs by function, then by shapes and choices."""
_KEPT = 16
"""Programs of one function that are kept."""


def empirical_ntk(
    f: Any,
    params: Any,
    x: Any,
    y: Any = None,
    output: Output = "trace",
    *,
    route: str = "auto",
    where: Where = None,
    memory: str | int | None = None,
) -> Float[Array, "rows columns *outputs"]:
    """The tangent kernel of every pair of examples from x and y, or from x alone.

    `f(params, x)` gives the outputs of a batch; `empirical_ntk(model, None, x)` takes the logits of a model, or the
    mean of one that gives distributions of values, in inference mode, and what it learns. `output="full"` gives
    (N, M, O, O), "trace" the sum over equal outputs (not their mean: divide by O for the kernel of one of many like
    outputs), a number the kernel of that output alone. `where` chooses parameters by name. `route` is "jacobian",
    "products", "structured", or whichever the compiler finds cheapest; blocks are such that scratch memory stays within
    `memory`, by default a quarter of what is free.

    >>> f = lambda w, x: (x @ w)[:, None]
    >>> empirical_ntk(f, np.float32([1.0, 2.0]), np.float32([[1, 0], [3, 4]])).tolist()
    [[1.0, 3.0], [3.0, 25.0]]
    """
    subject, arrays = prepared("empirical_ntk", f, params, where, _index(output))
    left = rows("empirical_ntk", "x", x)
    right = None if y is None else rows("empirical_ntk", "y", y)
    full = output == "full"
    if traced(arrays, left, right):
        with jax.default_matmul_precision(
            "highest"
        ):  # inside a larger program: all at once, by layers unless told
            return _routes("structured" if route == "auto" else route)[0].tile(
                subject, arrays, left, right, full=full
            )
    found = _planned(subject, arrays, left, right, full=full, routes=_routes(route), memory=memory)
    return _assembled(found, arrays, left, right, full)


def ntk_plan(
    f: Any,
    params: Any,
    x: Any,
    y: Any = None,
    output: Output = "trace",
    *,
    route: str = "auto",
    where: Where = None,
    memory: str | int | None = None,
) -> KernelPlan:
    """What `empirical_ntk` would do with these arguments: the route, its blocks, and the compiled cost of each route.

    >>> f = lambda w, x: jnp.tanh(x @ w["in"]) @ w["out"]
    >>> w = {"in": np.ones((3, 256), np.float32), "out": np.ones((256, 10), np.float32)}
    >>> ntk_plan(f, w, np.ones((8, 3), np.float32)).route
    'structured'
    """
    subject, arrays = prepared("ntk_plan", f, params, where, _index(output))
    left = rows("ntk_plan", "x", x)
    right = None if y is None else rows("ntk_plan", "y", y)
    return _planned(subject, arrays, left, right, full=output == "full", routes=_routes(route), memory=memory)


def ntk_by_layer(
    f: Any,
    params: Any,
    x: Any,
    y: Any = None,
    output: Output = "trace",
    *,
    where: Where = None,
    memory: str | int | None = None,
) -> dict[str, Float[Array, "rows columns *outputs"]]:
    """What every parameter adds to the kernel, by name; the sum is `empirical_ntk`.

    For the matrix of a dense layer this is `<g, g'> <b, b'>`: the inner product of what goes in, times that of what
    backpropagation brings back. Shares of the trace of the kernel: `layer_shares`.

    >>> f = lambda w, x: jnp.tanh(x @ w["in"]) @ w["out"]
    >>> w = {"in": np.ones((1, 2), np.float32), "out": np.ones((2, 1), np.float32)}
    >>> {name: part.tolist() for name, part in ntk_by_layer(f, w, np.float32([[0.0]])).items()}
    {'in': [[0.0]], 'out': [[0.0]]}
    """
    subject, arrays = prepared("ntk_by_layer", f, params, where, _index(output))
    left = rows("ntk_by_layer", "x", x)
    right = None if y is None else rows("ntk_by_layer", "y", y)
    full = output == "full"
    if traced(arrays, left, right):
        with jax.default_matmul_precision("highest"):
            terms = ByStructure().terms(subject, arrays, left, right, full=full)
        return dict(zip(subject.names, terms, strict=True))
    found = _planned(subject, arrays, left, right, full=full, routes=[LayerByLayer()], memory=memory)
    parts = _assembled(found, arrays, left, right, full)
    return {name: parts[..., number] for number, name in enumerate(subject.names)}


def layer_shares(parts: dict[str, Any]) -> dict[str, float]:
    """The share of every layer in the trace of a kernel: what `ntk_by_layer` gives of examples with themselves.

    Parameters of one layer (`head.weight` and `head.bias`) are counted together.

    >>> layer_shares({"head.weight": np.eye(2), "head.bias": np.eye(2), "body.weight": 2 * np.eye(2)})
    {'head': 0.5, 'body': 0.5}
    """
    traces: dict[str, float] = {}
    for name, part in parts.items():
        array = np.asarray(part, np.float64)
        if array.shape[0] != array.shape[1]:
            raise ArgumentError(
                f"layer_shares({name}): shares are those of examples with themselves, not of shape {array.shape}",
                remedy="leave y out of ntk_by_layer",
            )
        own = np.einsum("nn->", array) if array.ndim == 2 else np.einsum("nnoo->", array)
        layer = name.rpartition(".")[0] or name
        traces[layer] = traces.get(layer, 0.0) + float(own)
    total = sum(traces.values())
    return {layer: trace / total if total else 0.0 for layer, trace in traces.items()}


def ntk_product(
    f: Any, params: Any, x: Any, y: Any = None, *, where: Where = None, block: int | None = None
) -> Callable[[Any], Float[Array, "rows outputs"]]:
    """The kernel as a function `v -> Theta v`, without the matrix: one reverse and one forward pass.

    v has shape (M, O), one number for every column and output; the result (N, O). No more than `block`
    examples are looked at at a time, all unless told.

    >>> f = lambda w, x: (x @ w)[:, None]
    >>> times = ntk_product(f, np.float32([1.0, 2.0]), np.float32([[1, 0], [3, 4]]))
    >>> times(np.float32([[1.0], [0.0]])).tolist()
    [[1.0], [3.0]]
    """
    subject, arrays = prepared("ntk_product", f, params, where)
    left = rows("ntk_product", "x", x)
    right = left if y is None else rows("ntk_product", "y", y)
    outputs = jax.eval_shape(subject.outputs, arrays.chosen, arrays.others, right)
    size = None if block is None else whole("ntk_product", "block", block)
    if not subject.has_forward_mode(arrays, left):
        raise no_forward_mode("ntk_product", "take the matrix: empirical_ntk(f, params, x, y) @ v")

    @jax.jit
    def product(arrays: Arrays, left: Tree, right: Tree, v: Array) -> Array:
        def pulled(total: list[Array], part: tuple[Tree, Array]) -> tuple[list[Array], None]:
            batch, weights = part
            pull = jax.vjp(lambda chosen: subject.each(chosen, arrays.others, batch), arrays.chosen)[1]
            return jax.tree.map(jnp.add, total, pull(weights)[0]), None

        def pushed(batch: Tree) -> Array:
            return jax.jvp(
                lambda chosen: subject.each(chosen, arrays.others, batch), (arrays.chosen,), (direction,)
            )[1]

        with jax.default_matmul_precision("highest"):
            zero = jax.tree.map(jnp.zeros_like, arrays.chosen)
            direction, _ = jax.lax.scan(pulled, zero, (_blocks(right, size), _blocks(v, size)))
            found = jax.lax.map(pushed, _blocks(left, size))
        return found.reshape(-1, found.shape[-1])[: count(left)]

    def times(v: Any) -> Float[Array, "rows outputs"]:
        weights = jnp.asarray(v, outputs.dtype)
        if weights.shape != outputs.shape:
            raise ArgumentError(
                f"ntk_product(v): v has shape {weights.shape}; it needs one number for each of {outputs.shape[0]} "
                f"examples and {outputs.shape[1]} outputs",
                remedy=f"v.reshape({outputs.shape[0]}, {outputs.shape[1]})"
                if weights.size == outputs.size
                else "",
            )
        return product(jax.tree.map(jnp.asarray, arrays), left, right, weights)

    return times


def _blocks(batch: Tree, size: int | None) -> Tree:
    """A batch in blocks of one size; the last is filled up with zeros, which weigh nothing."""

    def cut(a: Array) -> Array:
        wanted = min(size or len(a), len(a))
        missing = -len(a) % wanted
        padded = jnp.concatenate([a, jnp.zeros((missing, *a.shape[1:]), a.dtype)]) if missing else a
        return padded.reshape(-1, wanted, *a.shape[1:])

    return jax.tree.map(cut, batch)


def _index(output: Output) -> int | None:
    if output in ("trace", "full"):
        return None
    if isinstance(output, bool) or not isinstance(output, int | np.integer):
        raise ArgumentError(
            f'empirical_ntk(output={output!r}): output must be "trace", "full" or the number of one'
        )
    return int(output)


def _routes(route: str) -> list[Route]:
    check_choice("empirical_ntk", "route", route, ["auto", *ROUTES])
    return list(ROUTES.values()) if route == "auto" else [ROUTES[route]]


def _planned(
    subject: Subject,
    arrays: Arrays,
    x: Tree,
    y: Tree | None,
    *,
    full: bool,
    routes: list[Route],
    memory: str | int | None,
) -> KernelPlan:
    """The plan, kept for as long as the function lives."""
    shapes = tuple((a.shape, str(a.dtype)) for a in jax.tree.leaves((arrays, x, y)))
    signature = (
        (
            subject.structure,
            subject.fixed,
            subject.chosen,
            subject.output,
            shapes,
            jax.tree.structure((x, y)),
        ),
        (full, tuple(route.name for route in routes), memory, bool(jax.config.jax_enable_x64)),  # type: ignore[attr-defined]
    )
    try:
        known = _PLANS.setdefault(subject.f, {})
        kept = known.get(signature)
    except TypeError:  # a function or a setting that cannot be looked up: nothing is kept
        return plan(subject, arrays, x, y, full=full, routes=routes, memory=memory)
    if kept is None:
        while len(known) >= _KEPT:
            known.pop(next(iter(known)))
        kept = known[signature] = plan(subject, arrays, x, y, full=full, routes=routes, memory=memory)
    return kept


def _assembled(
    found: KernelPlan, arrays: Arrays, x: Tree, y: Tree | None, full: bool
) -> Float[Array, "rows columns *outputs"]:
    """The kernel block by block."""
    arrays = jax.tree.map(jnp.asarray, arrays)
    program, height, width = found.chosen.program, found.chosen.rows, found.chosen.columns
    n, m = count(x), count(x if y is None else y)
    if (height, width) == (n, m):
        whole_kernel: Array = program(arrays, x, y)
        return whole_kernel
    result: np.ndarray | None = None
    columns = x if y is None else y
    for top in _starts(n, height):
        for start in _starts(m, width):
            if y is None and start < top:
                continue
            block = np.asarray(program(arrays, _cut(x, top, height), _cut(columns, start, width)))
            if result is None:
                result = np.zeros((n, m, *block.shape[2:]), block.dtype)
            result[top : top + height, start : start + width] = block
            if y is None:
                turned = block.swapaxes(0, 1).swapaxes(2, 3) if full else block.swapaxes(0, 1)
                result[start : start + width, top : top + height] = turned
    return jnp.asarray(result)


def _starts(size: int, block: int) -> list[int]:
    """Where blocks begin; the last one early enough to be whole."""
    return [min(start, size - block) for start in range(0, size, block)]


def _cut(batch: Tree, start: int, size: int) -> Tree:
    return jax.tree.map(lambda a: a[start : start + size], batch)


__all__ = ["Output", "empirical_ntk", "layer_shares", "ntk_by_layer", "ntk_plan", "ntk_product"]
