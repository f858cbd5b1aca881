"""Several tasks in one network: a shared trunk, weights that stay close, layers that are one, weights of tasks.

Hard sharing is one trunk with a head for each task. Soft sharing gives every task a network of its own and a price to
the distance between them. Tied layers are the same arrays under several names, at whatever path. Losses of tasks are
added by fixed weights, or by weights that are learned with the noise of each (Kendall, Gal and Cipolla, 2018,
arXiv:1705.07115). A layer may also be made wider, put in or taken out without changing what a network computes (Chen,
Goodfellow and Shlens, Net2Net, 2016, arXiv:1511.05641).
"""

from collections.abc import Sequence
from typing import Any, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import tree
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.nn import Linear

T = TypeVar("T")


@final
class SharedTrunk(eqx.Module):
    """A trunk that all tasks share, and a head for each.

    >>> keys = jax.random.split(jax.random.key(0), 3)
    >>> both = SharedTrunk(Linear(4, 8, key=keys[0]), [Linear(8, n, key=k) for n, k in zip((3, 2), keys[1:])])
    >>> [out.shape for out in both(jnp.zeros((5, 4)))]
    [(5, 3), (5, 2)]
    """

    trunk: Any
    heads: tuple[Any, ...]

    def __init__(self, trunk: Any, heads: Sequence[Any]) -> None:
        if not heads:
            raise ArgumentError("SharedTrunk(heads): give a head for each task")
        self.trunk, self.heads = trunk, tuple(heads)

    def __call__(self, x: Array) -> list[Array]:
        """The outputs of every task."""
        features = self.trunk(x)
        return [head(features) for head in self.heads]


def soft_sharing(networks: Sequence[Tree], strength: float = 1.0) -> Scalar:
    """`strength/2` times the squared distances of all pairs of networks, a price for being different.

    >>> float(soft_sharing([jnp.zeros(2), jnp.ones(2)], 3.0))
    3.0
    """
    if strength < 0 or len(networks) < 2:
        raise ArgumentError(
            f"soft_sharing(strength={strength}): two networks or more, and a price of at least 0"
        )
    arrays = [eqx.filter(network, eqx.is_inexact_array) for network in networks]
    first = {name: leaf.shape for name, leaf in tree.named_leaves(arrays[0])}
    for number, other in enumerate(arrays[1:], start=1):
        shapes = {name: leaf.shape for name, leaf in tree.named_leaves(other)}
        if shapes != first:
            odd = next(name for name in {**first, **shapes} if first.get(name) != shapes.get(name))
            raise ArgumentError(
                f"soft_sharing: {odd} is {first.get(odd)} in network 0 and {shapes.get(odd)} in network "
                f"{number}",
                remedy="share between networks of one structure, such as their trunks alone",
            )
    pairs = [(a, b) for i, a in enumerate(arrays) for b in arrays[i + 1 :]]
    return strength / 2 * sum((_square(tree.subtract(a, b)) for a, b in pairs), start=jnp.zeros(()))


def _square(change: Tree) -> Scalar:
    return jnp.real(tree.dot(change, change))


def tied(model: T, source: str, copies: Sequence[str]) -> T:
    """The model with the arrays at the path `source` also at those of `copies`.

    Called inside a loss, gradients of all of them meet in the source: the copies are the same layer.

    >>> layers = {"a": jnp.ones(2), "b": jnp.zeros(2)}
    >>> jax.grad(lambda both: (tied(both, "a", ["b"])["b"] * 3).sum())(layers)["a"].tolist()
    [3.0, 3.0]
    """
    named = dict(tree.named_leaves(model))
    wanted: dict[str, Any] = {}
    for copy in copies:
        for name, leaf in named.items():
            if not tree.matches(name, copy):
                continue
            origin = named.get(source + name.removeprefix(copy))
            if origin is None or origin.shape != leaf.shape:
                raise ArgumentError(
                    f"tied({source!r}, {copy!r}): {name} finds no array of its shape{suggest(source, named)}",
                    remedy="tie layers of one structure",
                )
            wanted[name] = origin
    missing = [copy for copy in copies if not any(tree.matches(name, copy) for name in wanted)]
    if missing:
        raise ArgumentError(f"tied: no array has the name {missing[0]!r}{suggest(missing[0], named)}")
    return jax.tree_util.tree_map_with_path(lambda path, leaf: wanted.get(tree.path_name(path), leaf), model)


@final
class TaskWeights(eqx.Module):
    """Weights of tasks that are learned: `Σ exp(-s) loss + s`, with s the logarithm of each task's noise."""

    log_noise: Float[Array, " tasks"]

    def __init__(self, tasks: int) -> None:
        self.log_noise = jnp.zeros(whole("TaskWeights", "tasks", tasks))

    def __call__(self, losses: Sequence[Scalar]) -> Scalar:
        """The weighted sum. At its least, s is the logarithm of the loss."""
        if len(losses) != len(self.log_noise):
            raise ArgumentError(f"TaskWeights: {len(losses)} losses for {len(self.log_noise)} tasks")
        return (jnp.exp(-self.log_noise) * jnp.stack(list(losses)) + self.log_noise).sum()


def widened(first: Linear, second: Linear, width: int, key: Key) -> tuple[Linear, Linear]:
    """Two dense layers with more units between them, which compute the same whatever the nonlinearity.

    Every new unit is a copy of an old one, and what the next layer reads of a unit is divided among its copies.
    """
    old = first.weight.shape[1]
    _check_follows("widened", first, second)
    if width < old:
        raise ArgumentError(
            f"widened(width={width}): the layers have {old} units between them", remedy="give more"
        )
    copied = np.asarray(jax.random.randint(key, (width - old,), 0, old))
    origin = np.concatenate([np.arange(old), copied])
    share = 1 / np.bincount(origin, minlength=old)[origin]
    wide = eqx.tree_at(lambda layer: layer.weight, first, first.weight[:, origin])
    if first.bias is not None:
        wide = eqx.tree_at(lambda layer: layer.bias, wide, first.bias[origin])
    after = second.weight[origin] * jnp.asarray(share, second.weight.dtype)[:, None]
    return wide, eqx.tree_at(lambda layer: layer.weight, second, after)


def _check_follows(where: str, first: Linear, second: Linear) -> None:
    if first.weight.shape[1] != second.weight.shape[0]:
        raise ArgumentError(
            f"{where}: the first layer gives {first.weight.shape[1]} numbers, the second reads "
            f"{second.weight.shape[0]}",
            remedy="give two layers that follow each other",
        )


def removed(first: Linear, second: Linear) -> Linear:
    """One dense layer in the place of two with nothing between them, which computes the same.

    Where there is a nonlinearity between the two, none can; what it is nearest to then is a matter of training.

    >>> one, two = Linear(2, 5, key=jax.random.key(0)), Linear(5, 3, key=jax.random.key(1))
    >>> bool(jnp.allclose(removed(one, two)(jnp.ones((1, 2))), two(one(jnp.ones((1, 2)))), atol=1e-5))
    True
    """
    _check_follows("removed", first, second)
    weight = first.weight @ second.weight
    parts = [first.bias @ second.weight] if first.bias is not None else []
    parts += [second.bias] if second.bias is not None else []
    layer = Linear(*weight.shape, bias=bool(parts), key=jax.random.key(0))
    layer = eqx.tree_at(lambda one: one.weight, layer, weight)
    return eqx.tree_at(lambda one: one.bias, layer, sum(parts)) if parts else layer


def inserted(width: int) -> Linear:
    """A dense layer that changes nothing, to be put between rectifiers: the identity, which can learn from there."""
    layer = Linear(width, width, key=jax.random.key(0))
    layer = eqx.tree_at(lambda one: one.weight, layer, jnp.eye(width))
    return layer if layer.bias is None else eqx.tree_at(lambda one: one.bias, layer, jnp.zeros(width))


__all__ = ["SharedTrunk", "TaskWeights", "inserted", "removed", "soft_sharing", "tied", "widened"]
