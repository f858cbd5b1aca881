"""Summaries of networks: layers, shapes, parameters, multiply-adds and receptive fields of any Equinox module.

The network is traced, never run: a summary of a network of a billion parameters takes no memory beyond its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Tree
from chainrule.nn.convolution.layers import Conv, ConvTranspose
from chainrule.nn.modes import mode
from chainrule.nn.native.availability import without_native
from chainrule.nn.sequential import running_statistics
from chainrule.nn.summary.dependence import Intervals, of_input
from chainrule.nn.summary.program import NOTHING, RowInProgress, Value, Walk
from chainrule.nn.summary.table import LayerSummary, Summary


def summarize(
    network: Tree,
    *inputs: Any,
    call: Callable[..., Any] | None = None,
    space: Sequence[int] | None = None,
    name: str | None = None,
    examples: bool = False,
) -> Summary:
    """The summary of a network for inputs of a shape; arrays, `jax.ShapeDtypeStruct` or shapes.

    `call(network, *inputs)` is what is looked at, the network itself unless given; list layers to have them called
    one after another. `space` are the axes of the first input whose receptive field is wanted: all but the last
    unless given (tokens: all), and (1, 2) for images that have their channels first. With `examples`, the first axis
    counts examples and is left out of the table.

    >>> from chainrule.nn import Conv
    >>> stack = [Conv(2, 3, 8, 3, stride=2, padding=1, key=jax.random.key(0))]
    >>> summarize(stack, (7, 7, 3)).layers[0].shape
    (4, 4, 8)
    """
    given = [_like(x) for x in inputs]
    if not given:
        raise ArgumentError(
            "summarize: what goes into the network is missing",
            remedy="give the shape of an input, for example summarize(network, (28, 28, 1))",
        )
    call = call or (_in_turn if isinstance(network, list | tuple) else lambda network, *x: network(*x))
    arrays, rest = eqx.partition(network, _is_array)
    with without_native():
        closed = jax.make_jaxpr(lambda arrays, *x: call(eqx.combine(arrays, rest), *x))(arrays, *given)
    owners, kinds, sizes, kernels = _layers(network)
    first = jax.tree.leaves(given[0])[0]
    if space is None:
        features = len(first.shape) > 1 and jnp.issubdtype(first.dtype, jnp.inexact)
        space = range(examples, len(first.shape) - features)
    leaves = jax.tree.leaves(given)
    values = [
        *(Value(owner, False, None) for owner in owners),
        *(Value(None, True, of_input(first.shape, space) if x is first else None) for x in leaves),
    ]
    walk = Walk(kinds)
    walk.program(closed, [*values, *[NOTHING] * (len(closed.jaxpr.invars) - len(values))])
    return Summary(
        name or type(network).__name__,
        tuple(tuple(x.shape)[examples:] for x in leaves),
        tuple(
            replace(row, kernel=kernels.get(row.layer, ()))
            for row in _rows(walk.rows, kinds, sizes, examples)
        ),
        sum(sizes.values()),
        tuple(sorted(walk.uncounted)),
        mode(network),
    )


def receptive_fields(
    f: Callable[[Any], Any], shape: Sequence[int], space: Sequence[int]
) -> list[Intervals | None]:
    """For each array that a function makes of an input of this shape: what its entries see of the input, by axis.

    >>> (rows,), = receptive_fields(lambda x: x[1:] + x[:-1], (8,), (0,))
    >>> rows.at({0: 3})
    (3, 4)
    """
    x = jax.ShapeDtypeStruct(tuple(shape), jnp.float32)
    with without_native():
        closed = jax.make_jaxpr(f)(x)
    found = Walk({}).program(closed, [Value(None, True, of_input(x.shape, space))])
    return [value.spans for value in found]


def _rows(
    rows: list[RowInProgress], kinds: dict[str, str], sizes: dict[str, int], examples: bool
) -> tuple[LayerSummary, ...]:
    widest: list[int | None] = []
    for row in rows:
        fields = _fields(row.spans)
        widest = [_larger(a, b) for a, b in zip(widest or fields, fields, strict=False)] or widest
    seen = [
        n for n, width in enumerate(widest) if width != 1
    ]  # axes whose entries never meet, such as examples
    found = []
    for row in rows:
        fields = _fields(row.spans)
        own = sizes.get(row.path, 0) if kinds.get(row.path) == row.kind else 0
        kept = tuple(fields[n] for n in seen if n < len(fields))
        found.append(LayerSummary(row.path, row.kind, row.shape[examples:], own, row.multiply_adds, kept))
    reached = {row.path for row in rows if kinds.get(row.path) == row.kind}
    missed = [path for path in kinds if path not in reached and sizes.get(path)]
    return (*found, *(LayerSummary(path, kinds[path], (), sizes[path], 0, ()) for path in missed))


def _fields(spans: Intervals | None) -> list[int | None]:
    return [] if spans is None else [None if span.whole else span.width for span in spans]


def _larger(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)


def _layers(network: Tree) -> tuple[list[str], dict[str, str], dict[str, int], dict[str, tuple[int, ...]]]:
    """The layer of every array, and of each layer its class, its own parameters and, of a convolution, its kernel."""
    flat, structure = jax.tree_util.tree_flatten_with_path(network)
    numbered = jax.tree_util.tree_unflatten(structure, range(len(flat)))
    state = set(jax.tree.leaves(running_statistics(numbered)))
    owners: list[str] = []
    kinds: dict[str, str] = {}
    sizes: dict[str, int] = {}
    kernels: dict[str, tuple[int, ...]] = {}
    for number, (keys, leaf) in enumerate(flat):
        if not _is_array(leaf):
            continue
        node, path, owner, kind = network, [], "", type(network).__name__
        for key in keys:
            node = _child(node, key)
            path.append(_word(key))
            if isinstance(node, eqx.Module):
                owner, kind = ".".join(path), type(node).__name__
            if isinstance(node, Conv | ConvTranspose):
                kernels[owner] = (node.outputs, node.inputs // node.groups, *node.kernel)
        owners.append(owner)
        kinds[owner] = kind
        counts = jnp.issubdtype(leaf.dtype, jnp.inexact) and number not in state
        sizes[owner] = sizes.get(owner, 0) + (leaf.size if counts else 0)
    return owners, kinds, sizes, kernels


def _child(node: Any, key: Any) -> Any:
    match key:
        case jax.tree_util.GetAttrKey():
            return getattr(node, key.name)
        case jax.tree_util.SequenceKey():
            return node[key.idx]
        case jax.tree_util.DictKey():
            return node[key.key]
    return None


def _word(key: Any) -> str:
    match key:
        case jax.tree_util.GetAttrKey():
            return key.name
        case jax.tree_util.SequenceKey():
            return str(key.idx)
        case jax.tree_util.DictKey():
            return str(key.key)
    return str(key)


def _is_array(leaf: Any) -> bool:
    """An array, or the shape of one: `eqx.filter_eval_shape` makes networks that are too large to be held."""
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _like(x: Any) -> Any:
    if isinstance(x, tuple | list) and all(isinstance(n, int) for n in x):
        return jax.ShapeDtypeStruct(tuple(x), jnp.float32)
    return x


def _in_turn(layers: Sequence[Callable[[Any], Any]], x: Any) -> Any:
    for layer in layers:
        x = layer(x)
    return x


__all__ = ["LayerSummary", "Summary", "receptive_fields", "summarize"]
