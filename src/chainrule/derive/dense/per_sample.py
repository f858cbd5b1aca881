"""Per-sample gradients: all of them, only their norms, or their clipped sum.

`loss(params, batch)` is the mean loss of a batch (or one loss per example). Examples must not talk to each other; a
loss that couples them, as batch normalisation does, has no per-example gradient and is refused: the loss of the batch
and its slope along a random direction must be the means of those of its examples. A compiled program compares them
when it runs, which costs a little more than one gradient of the batch; `check=False` leaves it out.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core import tree
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Tree
from chainrule.derive import validation
from chainrule.derive.dense.jacobians import check_chunk

Loss = Callable[[Any, Any], Array]


def per_sample_gradient(
    loss: Loss, params: Tree, batch: Tree, *, chunk: int | None = None, check: bool = True
) -> Tree:
    """The gradient of every example, stacked along a leading axis.

    A loss that couples examples is refused, inside `jit` when the program runs, unless `check=False`.

    >>> loss = lambda w, xy: jnp.mean((xy[0] @ w - xy[1]) ** 2)
    >>> per_sample_gradient(loss, jnp.ones(2), (jnp.eye(2), jnp.zeros(2))).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    params, batch = _checked("per_sample_gradient", loss, params, batch, chunk)
    gradients = _each(lambda gradient: gradient, loss, params, batch, chunk)
    return _uncoupled("per_sample_gradient", gradients, loss, params, batch, chunk) if check else gradients


def per_sample_norms(
    loss: Loss, params: Tree, batch: Tree, *, chunk: int | None = None, check: bool = True
) -> Float[Array, " batch"]:
    """The norm of every example's gradient; with a chunk, no more than that many gradients are held at a time.

    >>> loss = lambda w, xy: jnp.mean((xy[0] @ w - xy[1]) ** 2)
    >>> per_sample_norms(loss, jnp.ones(2), (3 * jnp.eye(2), jnp.zeros(2))).tolist()
    [18.0, 18.0]
    """
    params, batch = _checked("per_sample_norms", loss, params, batch, chunk)
    norms = _each(_norm, loss, params, batch, chunk)
    return _uncoupled("per_sample_norms", norms, loss, params, batch, chunk) if check else norms


def clipped_sum(
    loss: Loss,
    params: Tree,
    batch: Tree,
    limit: float | Array,
    *,
    chunk: int | None = None,
    check: bool = True,
) -> Tree:
    """The sum of all gradients, each scaled down to norm `limit` where it exceeds it (as private training needs).

    >>> loss = lambda w, xy: jnp.mean((xy[0] @ w - xy[1]) ** 2)
    >>> clipped_sum(loss, jnp.ones(2), (3 * jnp.eye(2), jnp.zeros(2)), 1.0).tolist()
    [1.0, 1.0]
    """
    number = isinstance(limit, jax.Array | np.ndarray | np.generic | float | int)
    if not number or (not isinstance(limit, jax.core.Tracer) and not limit > 0):
        raise ArgumentError(f"clipped_sum(limit={limit!r}): the limit must be a positive number")
    params, batch = _checked("clipped_sum", loss, params, batch, chunk)
    count = _count(batch)
    size = min(chunk or count, count)

    def add(total: Tree, part: Tree) -> tuple[Tree, None]:
        clipped = _each(partial(_clip, limit), loss, params, part, None)
        return tree.add(total, jax.tree.map(lambda a: a.sum(axis=0), clipped)), None

    whole = count // size * size
    head = jax.tree.map(lambda a: a[:whole].reshape(-1, size, *a.shape[1:]), batch)
    total, _ = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), head)
    if whole < count:
        total, _ = add(total, jax.tree.map(lambda a: a[whole:], batch))
    return _uncoupled("clipped_sum", total, loss, params, batch, chunk) if check else total


# Outside of jit every operation is compiled by itself: these are one each, whatever tree they are given.
_norm = jax.jit(tree.norm)
_dot = jax.jit(tree.dot)


@jax.jit
def _clip(limit: Array | float, gradient: Tree) -> Tree:
    return tree.scale(jnp.minimum(1.0, limit / jnp.maximum(tree.norm(gradient), 1e-30)), gradient)


def _each(reduce: Callable[[Tree], Any], loss: Loss, params: Tree, batch: Tree, chunk: int | None) -> Any:
    """Something of every example's gradient, stacked."""

    def one(example: Tree) -> Any:
        return reduce(jax.grad(lambda p: _single(loss, p, example))(params))

    if chunk is None or chunk >= _count(batch):
        return jax.vmap(one)(batch)
    return jax.lax.map(one, batch, batch_size=chunk)


def _single(loss: Loss, params: Tree, example: Tree) -> Array:
    """The loss of one example, seen as a batch of one."""
    return jnp.sum(loss(params, jax.tree.map(lambda a: a[None], example)))


def _count(batch: Tree) -> int:
    return int(jax.tree.leaves(batch)[0].shape[0])


def _checked(where: str, loss: Loss, params: Tree, batch: Tree, chunk: int | None) -> tuple[Tree, Tree]:
    validation.function(where, loss)
    check_chunk(where, chunk)
    params = validation.point(where, params, name="params")
    for path, leaf in jax.tree_util.tree_leaves_with_path(batch):
        if not isinstance(leaf, jax.Array | np.ndarray | np.generic | float | int):
            label = f"batch{jax.tree_util.keystr(path)}"
            raise ArgumentError(f"{where}: {label} is {type(leaf).__name__}, not an array")
    batch = jax.tree.map(jnp.asarray, batch)
    sizes = sorted({str(leaf.shape[0]) if leaf.ndim else "none" for leaf in jax.tree.leaves(batch)})
    if len(sizes) != 1 or sizes[0] in ("none", "0"):
        raise ArgumentError(
            f"{where}: the leaves of the batch have leading sizes {', '.join(sizes) or 'none'}",
            remedy="every leaf has one row per example, and there is at least one example",
        )
    found = jax.eval_shape(loss, params, batch)
    validation.bare(where, found)
    validation.scalar_output(where, jax.tree.map(lambda one: jax.ShapeDtypeStruct((), one.dtype), found))
    if found.shape not in ((), (_count(batch),)):
        raise ArgumentError(f"{where}: the loss has shape {found.shape}, not () or ({_count(batch)},)")
    return params, batch


class _Comparison(NamedTuple):
    """A number of the batch, the mean over its examples, and whether they differ by more than rounding."""

    whole: Float[Array, ""]
    mean: Float[Array, ""]
    differs: Bool[Array, ""]


_COUPLED = "{}: the {} of the batch is not the mean over its examples{}, so examples are coupled"
_REMEDY = "use a mean over examples, and a normalisation that does not look across the batch"


def _uncoupled(where: str, result: Tree, loss: Loss, params: Tree, batch: Tree, chunk: int | None) -> Tree:
    """The result, provided that the loss does not couple examples; in a compiled program an error when it runs.

    It is the result that waits for the comparison, so that the two share the gradients of the examples.
    """
    for what, found in _comparisons(loss, *jax.lax.stop_gradient((params, batch)), chunk).items():
        if isinstance(found.differs, jax.core.Tracer):
            sentence = _COUPLED.format(where, what, "")
            result = eqx.error_if(result, found.differs, f"{sentence}\n{_REMEDY}")
        elif found.differs:
            numbers = f" ({float(found.whole):.6g} against {float(found.mean):.6g})"
            raise ArgumentError(_COUPLED.format(where, what, numbers), remedy=_REMEDY)
    return result


def _comparisons(loss: Loss, params: Tree, batch: Tree, chunk: int | None) -> dict[str, _Comparison]:
    leaves, draws = jax.tree.leaves(params), np.random.default_rng(0)
    direction = jax.tree.map(lambda a: jnp.asarray(draws.standard_normal(a.shape), a.dtype), params)
    value, gradient = jax.value_and_grad(lambda p: jnp.mean(loss(p, batch)))(params)
    values = jax.vmap(lambda example: _single(loss, params, example))(batch)
    slopes = _each(partial(_dot, direction), loss, params, batch, chunk)
    # As many digits as the coarsest number in the loss has, less some for the sum over examples.
    tolerance = 1e3 * max(float(jnp.finfo(leaf.dtype).eps) for leaf in (value, *leaves))
    return {
        "loss": _compare(value, values, tolerance),
        "slope": _compare(_dot(direction, gradient), slopes, tolerance),
    }


@jax.jit
def _compare(whole: Array, parts: Array, tolerance: Array | float) -> _Comparison:
    mean = jnp.mean(parts)
    # A batch that is not finite tells nothing; an example alone that is not, where the batch is, does.
    close = jnp.abs(whole - mean) <= tolerance * jnp.max(jnp.abs(parts))
    return _Comparison(whole, mean, jnp.isfinite(whole) & ~close)


__all__ = ["clipped_sum", "per_sample_gradient", "per_sample_norms"]
