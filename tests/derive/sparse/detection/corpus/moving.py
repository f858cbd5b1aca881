"""Indexing in all its styles, reshaping, scatters."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.derive.sparse.detection.corpus.case import Case, sound, tight

_INDEX = np.array([4, 0, 0, -1])


def _gather_fill(x: jax.Array) -> jax.Array:
    return x.at[jnp.array([0, 9, 2])].get(mode="fill", fill_value=0.0)


def _batched_gather(x: jax.Array) -> jax.Array:
    return jax.vmap(lambda row, i: row[i])(x, jnp.array([2, 0]))


def _searched(x: jax.Array) -> jax.Array:
    edges = jnp.cumsum(jnp.arange(1, 4))
    return x[jnp.searchsorted(edges, jnp.arange(5), side="right")]


def _windowed(x: jax.Array) -> jax.Array:
    numbers = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(), start_index_map=(0,))
    return lax.gather(x, jnp.array([[0], [3], [5]]), numbers, slice_sizes=(2,), mode="clip")


def _scatter_window(x: jax.Array) -> jax.Array:
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=(1,), inserted_window_dims=(), scatter_dims_to_operand_dims=(0,)
    )
    return lax.scatter_add(jnp.zeros(5), jnp.array([[0], [2]]), x.reshape(2, 2), numbers)


CASES: list[Case] = [
    tight("slice", lambda x: x[1:5:2], (6,)),
    tight("reverse", lambda x: x[::-1] * x, (5,)),
    tight("negative stride", lambda x: x[::-2], (6,)),
    tight("integer row", lambda x: x[1] * 2, (3, 4)),
    tight("ellipsis and new axis", lambda x: x[..., None, 0], (3, 4)),
    tight("fancy index", lambda x: x[_INDEX], (5,)),
    tight("fancy pair", lambda x: x[np.array([0, 2]), np.array([1, 3])], (3, 4)),
    tight("fancy and slice", lambda x: x[:, np.array([3, 0])], (3, 4)),
    tight("mesh index", lambda x: x[np.ix_([0, 2], [1, 3])], (3, 4)),
    tight("boolean mask", lambda x: x[np.array([True, False, True, True])], (4,)),
    tight("take along axis", lambda x: jnp.take_along_axis(x, np.array([[2, 0], [1, 1]]), axis=1), (2, 3)),
    tight("take with clip", lambda x: jnp.take(x, jnp.array([0, 7]), mode="clip"), (4,)),
    tight("gather outside filled", _gather_fill, (4,)),
    tight("gather under vmap", _batched_gather, (2, 3)),
    tight("gather of windows", _windowed, (6,)),
    tight("computed constant index", _searched, (6,)),
    tight("dynamic slice at a constant", lambda x: lax.dynamic_slice(x, (2,), (3,)), (6,)),
    tight("dynamic slice past the end", lambda x: lax.dynamic_slice(x, (5,), (3,)), (6,)),
    tight("dynamic update at a constant", lambda x: lax.dynamic_update_slice(x, x[:2] ** 2, (3,)), (6,)),
    tight("dynamic index in axis", lambda x: lax.dynamic_index_in_dim(x, 1, axis=1), (2, 3)),
    sound("index from the input", lambda x: x[jnp.argmax(x)], (5,)),
    sound("row from the input", lambda x: x[jnp.argmax(x[:, 0])], (3, 2)),
    sound("order from the input", lambda x: x[jnp.argsort(x)], (5,)),
    sound("index from a cast", lambda x: x[jnp.abs(x[0]).astype(int)], (5,)),
    sound("index from a remainder", lambda x: x[(x[0] * 10).astype(int) % 3], (6,)),
    sound("index clipped", lambda x: x[jnp.clip(x[0].astype(int), 2, 3)], (6,)),
    sound(
        "take along axis by order", lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1), (2, 3)
    ),
    sound("slice from the input", lambda x: lax.dynamic_slice(x, (jnp.argmin(x),), (2,)), (5,)),
    sound("choose", lambda x: jnp.choose((x[:2] > 0).astype(int), [x[2:4], x[4:]], mode="clip"), (6,)),
    tight("reshape", lambda x: x.reshape(3, 2).sum(1), (6,)),
    tight("reshape to columns", lambda x: x.reshape((2, 3), order="F"), (6,)),
    tight("transpose", lambda x: x.T * x, (3, 3)),
    tight("move axis", lambda x: jnp.moveaxis(x, 0, -1), (2, 3, 2)),
    tight("squeeze", lambda x: jnp.squeeze(x, 1) ** 2, (3, 1)),
    tight("broadcast", lambda x: jnp.broadcast_to(x, (2, 3)) * jnp.ones((2, 3)), (3,)),
    tight("tile", lambda x: jnp.tile(x, 2), (3,)),
    tight("repeat", lambda x: jnp.repeat(x, 2), (3,)),
    tight("repeat by counts", lambda x: jnp.repeat(x, np.array([2, 0, 1]), total_repeat_length=3), (3,)),
    tight("roll", lambda x: jnp.roll(x, 2) + x, (5,)),
    tight("roll by two axes", lambda x: jnp.roll(x, (1, 1), (0, 1)) * x, (3, 3)),
    tight("rotate a square", jnp.rot90, (2, 3)),
    tight("pad", lambda x: jnp.pad(x, 1), (3,)),
    tight("pad with edges", lambda x: jnp.pad(x, 2, mode="edge"), (3,)),
    tight("pad by reflection", lambda x: jnp.pad(x, 2, mode="reflect"), (4,)),
    tight("pad by wrapping", lambda x: jnp.pad(x, 2, mode="wrap"), (4,)),
    tight("pad inside and negative", lambda x: lax.pad(x, 0.0, ((-1, 2, 1),)), (4,)),
    tight("pad with an input", lambda x: lax.pad(x[1:], x[0], ((1, 1, 1),)), (4,)),
    tight("concatenate", lambda x: jnp.concatenate([x[3:], x[:1] ** 2, x[1:3]]), (6,)),
    tight("stack", lambda x: jnp.stack([x, x[::-1]], axis=1), (3,)),
    tight("split", lambda x: jnp.split(x, 3)[1] * 2, (6,)),
    tight("unstack", lambda x: jnp.unstack(x, axis=1)[1], (2, 3)),
    tight("blocks", lambda x: jnp.block([[x, jnp.zeros((2, 2))], [jnp.zeros((2, 2)), 2 * x]]), (2, 2)),
    tight("diagonal of a matrix", jnp.diagonal, (3, 3)),
    tight("matrix of a diagonal", jnp.diag, (3,)),
    tight("trace", jnp.trace, (3, 3)),
    tight("triangle to vector", lambda x: x[np.triu_indices(3)], (3, 3)),
    tight("vector to triangle", lambda x: jnp.zeros((3, 3)).at[np.tril_indices(3)].set(x), (6,)),
    tight("set one", lambda x: x.at[2].set(1.0), (5,)),
    tight("set from input", lambda x: x.at[2].set(x[0] ** 2), (5,)),
    tight("set rows", lambda x: x.at[np.array([0, 2])].set(x[1] * 2), (3, 2)),
    tight("set column", lambda x: x.at[:, 1].set(x[:, 0]), (3, 2)),
    tight("add at repeated positions", lambda x: jnp.zeros(3).at[np.array([0, 0, 2, 0])].add(x), (4,)),
    tight("add at many repeated positions", lambda x: jnp.zeros(2).at[np.arange(12) % 2].add(x), (12,)),
    tight("subtract at", lambda x: x.at[np.array([0, 1])].subtract(x[2:4] ** 2), (4,)),
    tight("multiply at", lambda x: x.at[np.array([0, 1])].multiply(x[2:4], unique_indices=True), (4,)),
    tight("divide at", lambda x: x.at[np.array([0, 1])].divide(x[2:4], unique_indices=True), (4,)),
    sound("maximum at", lambda x: x.at[np.array([0, 1])].max(x[2:4]), (4,)),
    sound("minimum at", lambda x: x.at[np.array([0, 0])].min(x[2:4]), (4,)),
    tight("scatter dropped outside", lambda x: x.at[np.array([0, 9])].set(x[2:4] * 3, mode="drop"), (4,)),
    tight("scatter of windows", _scatter_window, (4,)),
    sound("set at an input's position", lambda x: x.at[jnp.argmax(x)].set(0.0), (5,)),
    sound("add at an input's position", lambda x: x.at[jnp.argmax(x)].add(x[0] ** 2), (5,)),
    sound("add to a zero at an input's position", lambda x: jnp.zeros(5).at[jnp.argmin(x)].add(x[1]), (5,)),
    sound(
        "set a window at an input's position",
        lambda x: lax.dynamic_update_slice(x, x[:2], (jnp.argmax(x),)),
        (5,),
    ),
    sound("scatter by order", lambda x: jnp.zeros(4).at[jnp.argsort(x)].set(x**2), (4,)),
    sound("scatter under vmap", lambda x: jax.vmap(lambda r: r.at[jnp.argmax(r)].add(r[0] ** 2))(x), (2, 3)),
    tight("segment sum", lambda x: jax.ops.segment_sum(x, np.array([0, 0, 1, 2, 2]), 3), (5,)),
    sound("segment max", lambda x: jax.ops.segment_max(x, np.array([0, 0, 1, 2, 2]), 3), (5,)),
    tight(
        "segment product", lambda x: jax.ops.segment_prod(x, np.arange(4)[::-1], 4, unique_indices=True), (4,)
    ),
    sound("segments of the input", lambda x: jax.ops.segment_sum(x, (x > 0).astype(int), 2), (5,)),
    tight("bincount weights", lambda x: jnp.bincount(np.array([0, 2, 2, 1]), weights=x, length=3), (4,)),
    sound("interpolate values", lambda x: jnp.interp(jnp.array([0.3, 1.7]), jnp.arange(4.0), x), (4,)),
    sound(
        "interpolate positions", lambda x: jnp.interp(x, jnp.arange(4.0), jnp.arange(4.0) ** 2), (3,), low=0.2
    ),
    tight(
        "map coordinates",
        lambda x: jax.scipy.ndimage.map_coordinates(x, [np.array([0.5, 1.2])], order=1),
        (4,),
    ),
    tight("windows of a signal", lambda x: jnp.stack([x[i : i + 3].sum() for i in range(4)]), (6,)),
    tight("meshgrid", lambda x: jnp.meshgrid(x[:2], x[2:])[0] * 2, (5,)),
    tight("delete and insert", lambda x: jnp.insert(jnp.delete(x, 1), 0, 3.0), (4,)),
]
