"""How transferable the layers of a network are: copies of the first n layers, kept or trained on, below fresh ones.

Two tasks A and B. `BnB` are the first n layers of a network trained on B, kept as they are below fresh layers that are
trained on B again: what it loses is the price of layers that had adapted to each other. `AnB` are those of a network
trained on A: what it loses beside `BnB` is how special the layers are to A. With a plus copied layers learn on.
Copies of layers that were never trained show how much of it is learning at all.

All arms and seeds are one program: start, layers that learn and examples are arguments of it, mapped over.

Reference: Yosinski, Clune, Bengio and Lipson, How transferable are features in deep neural networks?, 2014,
arXiv:1411.1792.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int

from chainrule.core import random
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Tree
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.nn import Conv, Linear, max_pool
from chainrule.nn.losses import cross_entropy
from chainrule.nn.normalize import BatchNorm

Shape: TypeAlias = tuple[int, ...]
ARMS = ("BnB", "AnB", "BnB+", "AnB+", "random")
"""Copies from B and from A, kept; the same, trained on; layers that were never trained, kept."""
_CHANNELS = (32, 32, 64, 64, 64)
_POOLED = (0, 1, 4)
"""Convolutions after which the image is halved, where it can be."""
_HIDDEN = (128, 128)


class TaskExamples(NamedTuple):
    """Examples of a task, for training and for judging."""

    x: np.ndarray
    y: Int[np.ndarray, " rows"]
    test_x: np.ndarray
    test_y: Int[np.ndarray, " others"]


@final
class LayerStack(eqx.Module):
    """Layers one after another, with rectifiers between them: convolutions first, then dense ones.

    With `normalised`, batch normalisation stands before every rectifier and belongs to the layer below it.
    """

    layers: tuple[Any, ...]
    norms: tuple[BatchNorm, ...]
    """One for each layer but the last, or none at all."""
    pooled: tuple[bool, ...] = eqx.field(static=True)

    def __init__(
        self,
        shape: Shape,
        classes: int,
        channels: Shape,
        hidden: Shape,
        key: Key,
        *,
        normalised: bool = False,
    ) -> None:
        keys = iter(jax.random.split(key, len(channels) + len(hidden) + 1))
        found: list[Any] = []
        pooled: list[bool] = []
        inside = tuple(shape)
        for number, width in enumerate(channels):
            found.append(Conv(2, inside[2], width, 3, initializer="he", gain=2**0.5, key=next(keys)))
            halved = number in _POOLED and min(inside[:2]) >= 4
            pooled.append(halved)
            inside = (*((side // 2 if halved else side) for side in inside[:2]), width)
        sizes = [int(np.prod(inside)), *hidden, classes]
        for n, m in itertools.pairwise(sizes):
            found.append(Linear(n, m, initializer="he", gain=2**0.5, key=next(keys)))
            pooled.append(False)
        self.layers, self.pooled = tuple(found), tuple(pooled)
        self.norms = tuple(BatchNorm(width) for width in (*channels, *hidden)) if normalised else ()

    def __call__(self, x: Float[Array, "batch ..."]) -> Float[Array, "batch classes"]:
        """Logits, by running averages."""
        return self.advance(x, None)[0]

    def advance(
        self, x: Float[Array, "batch ..."], learns: Float[Array, " layers"] | None
    ) -> tuple[Float[Array, "batch classes"], tuple[BatchNorm, ...]]:
        """Logits as in training, and normalisers with their averages moved on; layers that do not learn stay still."""
        norms = list(self.norms)
        for number, (layer, halved) in enumerate(zip(self.layers, self.pooled, strict=True)):
            if isinstance(layer, Linear):
                x = x.reshape(len(x), -1)
            x = layer(x)
            if number < len(norms):
                x, norms[number] = _normalised(norms[number], x, None if learns is None else learns[number])
            if number < len(self.layers) - 1:
                x = jax.nn.relu(x)
            x = max_pool(x, 2) if halved else x
        return x, tuple(norms)


def _normalised(norm: BatchNorm, x: Array, learns: Array | None) -> tuple[Array, BatchNorm]:
    """By the batch where the layer learns, by running averages, which then stay, where it does not."""
    if learns is None:
        return norm(x), norm
    seen, moved = norm.advance(x)
    kept: BatchNorm = jax.tree.map(lambda new, old: jnp.where(learns > 0, new, old), moved, norm)
    return jnp.where(learns > 0, seen, norm(x)), kept


@final
@dataclass(frozen=True)
class LayerTransfer:
    """What came out: accuracies on the test examples of B, of every arm, number of copied layers and seed."""

    layers: tuple[int, ...]
    """How many layers were copied."""
    base: Float[np.ndarray, " seeds"]
    """Networks trained on B from the start."""
    accuracy: dict[str, Float[np.ndarray, "layers seeds"]]
    """By arm."""

    @property
    def co_adaptation(self) -> Float[np.ndarray, "layers seeds"]:
        """What is lost with layers that had adapted to each other: base - BnB."""
        return self.base[None] - self.accuracy["BnB"]

    @property
    def specificity(self) -> Float[np.ndarray, "layers seeds"]:
        """What is lost because copied layers are those of another task: BnB - AnB."""
        return self.accuracy["BnB"] - self.accuracy["AnB"]

    @staticmethod
    def mean(values: Float[np.ndarray, "layers seeds"]) -> tuple[np.ndarray, np.ndarray]:
        """Mean over seeds and its standard error."""
        spread = values.std(axis=-1, ddof=1) if values.shape[-1] > 1 else np.zeros(values.shape[:-1])
        return values.mean(axis=-1), spread / np.sqrt(values.shape[-1])


def split_classes(
    data: Data, first: Sequence[str] | None = None, seed: int = 0
) -> tuple[TaskExamples, TaskExamples]:
    """The classes of one labelled set as two tasks: `first` and the rest, or two halves drawn at random."""
    schema = data.schema
    if not targets.of(schema).one_class:
        raise ArgumentError(
            f"{data.name} has no classes to split", remedy="take data with a class for each example"
        )
    names = list(schema.classes)
    if first is None:
        if len(names) % 2 or len(names) < 4:
            raise ArgumentError(
                f"{data.name} has {len(names)} classes, which cannot be halved into two tasks",
                remedy=f"say which are the first task: classes={names[0]},{names[-1]}",
            )
        drawn = np.random.default_rng(seed).permutation(len(names))[: len(names) // 2]
        chosen = sorted(int(i) for i in drawn)
    else:
        unknown = [name for name in first if name not in names]
        if unknown or len(set(first)) < len(first) or not 1 < len(first) < len(names) - 1:
            raise ArgumentError(
                f"classes={','.join(first)}: two different ones of {len(names)} classes or more for each of two tasks",
                remedy=f"they are: {', '.join(names[:12])}",
            )
        chosen = [names.index(name) for name in first]
    rest = [i for i in range(len(names)) if i not in chosen]
    test = data.held_out()[0]
    return _task(data, test, chosen), _task(data, test, rest)


def _task(data: Data, test: Any, classes: list[int]) -> TaskExamples:
    parts = []
    for split in (data.train, test):
        x, y = np.asarray(split.x, np.float32), np.asarray(split.y)
        own = np.isin(y, classes)
        parts += [
            x[own],
            np.searchsorted(classes, y[own]) if classes == sorted(classes) else _numbers(y[own], classes),
        ]
    return TaskExamples(*parts)


def _numbers(y: np.ndarray, classes: list[int]) -> np.ndarray:
    return np.array([classes.index(int(one)) for one in y])


def layer_transfer(
    a: TaskExamples,
    b: TaskExamples,
    *,
    layers: Sequence[int] | None = None,
    channels: Shape | None = None,
    hidden: Shape = _HIDDEN,
    seeds: int = 5,
    steps: int = 1000,
    batch: int = 64,
    lr: float = 1e-3,
    seed: int = 0,
    arms: Sequence[str] = ARMS,
    normalised: bool = False,
) -> LayerTransfer:
    """Train networks on both tasks, and on B above copies of their first layers.

    `channels` are those of the convolutions: five of them for images unless told, none for vectors. `hidden` are dense
    layers before the last, which is never copied. With `normalised` layers have batch normalisation, whose averages are
    copied with them and stand still where they are kept. Both tasks need one number of classes and shape of examples.
    """
    for name, value in (("seeds", seeds), ("steps", steps), ("batch", batch)):
        whole("layer_transfer", name, value)
    shape = a.x.shape[1:]
    channels = (_CHANNELS if len(shape) == 3 else ()) if channels is None else tuple(channels)
    classes = int(max(a.y.max(), b.y.max())) + 1
    depth = len(channels) + len(hidden) + 1
    counts = tuple(range(1, depth)) if layers is None else tuple(layers)
    if b.x.shape[1:] != shape or any(not 1 <= n < depth for n in counts):
        raise ArgumentError(
            f"layer_transfer(layers={list(counts)}): 1 to {depth - 1} layers can be copied, for tasks "
            "of one shape",
            remedy=f"leave layers out for all of them, or name some: layers=1{',2' if depth > 2 else ''}",
        )
    for arm in arms:
        if arm not in ARMS:
            raise ArgumentError(f"layer_transfer(arms={arm!r}): no such arm", remedy=f"use {', '.join(ARMS)}")
    keys = [random.key(seed + number, "layer-transfer") for number in range(seeds)]

    def drawn(purpose: str) -> list[LayerStack]:
        return [
            LayerStack(shape, classes, channels, hidden, random.named(key, purpose), normalised=normalised)
            for key in keys
        ]

    fit = _Fitting(a, b, steps, batch, lr)
    everything = np.ones((2 * seeds, depth), np.float32)
    bases, base_accuracy = fit([*drawn("a"), *drawn("b")], everything, [0] * seeds + [1] * seeds, seed)
    sources = {"A": bases[:seeds], "B": bases[seeds:], "r": drawn("random")}
    starts, masks, order = [], [], []
    for arm in arms:
        for n in counts:
            fresh = drawn(f"fresh {n}")
            starts += [_copied(new, old, n) for new, old in zip(fresh, sources[arm[0]], strict=True)]
            learns = (np.arange(depth) >= n) | arm.endswith("+")
            masks += [learns.astype(np.float32)] * seeds
            order.append((arm, n))
    _, found = fit(starts, np.stack(masks), [1] * len(starts), seed + 1)
    table = found.reshape(len(arms), len(counts), seeds)
    return LayerTransfer(counts, base_accuracy[seeds:], {arm: table[i] for i, arm in enumerate(arms)})


def _copied(fresh: LayerStack, old: LayerStack, n: int) -> LayerStack:
    layers, norms = (*old.layers[:n], *fresh.layers[n:]), (*old.norms[:n], *fresh.norms[n:])
    return eqx.tree_at(lambda stack: (stack.layers, stack.norms), fresh, (layers, norms))


@final
class _Fitting:
    """Many trainings of one network in one program, in groups that fit into the caches of a processor."""

    def __init__(self, a: TaskExamples, b: TaskExamples, steps: int, batch: int, lr: float) -> None:
        rows = min(len(a.x), len(b.x))
        if batch > rows:
            raise ArgumentError(
                f"layer_transfer(batch={batch}): a task has {rows} examples", remedy=f"batch={rows}"
            )
        self.tasks, self.steps, self.batch = (a, b), steps, batch
        self.optimizer = optax.adam(optax.cosine_decay_schedule(lr, steps))
        self.compiled = jax.jit(self._fit_all, static_argnums=3)

    def __call__(
        self, starts: list[LayerStack], masks: np.ndarray, tasks: list[int], seed: int
    ) -> tuple[list[LayerStack], np.ndarray]:
        ended: list[LayerStack] = []
        accuracy = np.zeros(len(starts))
        for task in dict.fromkeys(tasks):
            own = [i for i, one in enumerate(tasks) if one == task]
            examples = self.tasks[task]
            keys = jnp.stack([random.at(random.key(seed, "fits"), i) for i in own])
            stacked = jax.tree.map(
                lambda *leaves: jnp.stack(leaves), *(eqx.filter(starts[i], eqx.is_array) for i in own)
            )
            static = eqx.filter(starts[own[0]], eqx.is_array, inverse=True)
            x, y = jnp.asarray(examples.x), jnp.asarray(examples.y)
            arrays = self.compiled(stacked, jnp.asarray(masks[own]), keys, _Hashable(static), x, y)
            for position, i in enumerate(own):
                model = eqx.combine(jax.tree.map(lambda leaf, p=position: leaf[p], arrays), static)
                ended.append(model)
                accuracy[i] = _accuracy(model, examples)
        return ended, accuracy

    def _fit_all(
        self, arrays: Tree, masks: Array, keys: Array, static: "_Hashable", x: Array, y: Array
    ) -> Tree:
        """Vectors: all at once. Images: one after another in one program, for mapped convolutions are slow on CPUs."""
        if x.ndim == 2:
            return jax.vmap(lambda a, m, k: self._fit(a, m, k, static, x, y))(arrays, masks, keys)
        return jax.lax.map(lambda one: self._fit(one[0], one[1], one[2], static, x, y), (arrays, masks, keys))

    def _fit(self, arrays: Tree, mask: Array, key: Key, static: "_Hashable", x: Array, y: Array) -> Tree:
        def loss(arrays: Tree, rows: Array) -> tuple[Array, tuple[BatchNorm, ...]]:
            logits, norms = eqx.combine(arrays, static.tree).advance(x[rows], mask)
            return cross_entropy(logits, y[rows]).mean(), eqx.filter(norms, eqx.is_array)

        def step(carry: tuple[Tree, Tree], number: Array) -> tuple[tuple[Tree, Tree], None]:
            arrays, state = carry
            rows = jax.random.randint(random.at(key, number), (self.batch,), 0, len(x))
            slopes, norms = jax.grad(loss, has_aux=True)(arrays, rows)
            updates, state = self.optimizer.update(slopes, state)
            # Layers that are kept move by exactly nothing.
            moved = [
                tuple(
                    jax.tree.map(lambda u, m=mask[i]: jnp.where(m > 0, u, 0), layer)
                    for i, layer in enumerate(part)
                )
                for part in (updates.layers, updates.norms)
            ]
            updates = eqx.tree_at(lambda stack: [stack.layers, stack.norms], updates, moved)
            arrays = optax.apply_updates(arrays, updates)
            averages = [one for norm in norms for one in (norm.mean, norm.var)]
            return (_with_averages(arrays, averages), state), None

        carry = (arrays, self.optimizer.init(arrays))
        return jax.lax.scan(step, carry, jnp.arange(self.steps))[0][0]


def _with_averages(arrays: Tree, averages: list[Array]) -> Tree:
    """A network whose normalisers have these running averages, which gradients do not move."""
    if not averages:
        return arrays
    return eqx.tree_at(
        lambda stack: [one for norm in stack.norms for one in (norm.mean, norm.var)], arrays, averages
    )


@final
class _Hashable:
    """What is no array of a network, as one value of a compiled function; equal for networks of one structure."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.key = str(jax.tree.structure(tree))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashable) and self.key == other.key


@eqx.filter_jit
def _said(model: LayerStack, x: Array) -> Array:
    return model(x).argmax(axis=-1)


def _accuracy(model: LayerStack, examples: TaskExamples) -> float:
    parts = [
        np.asarray(_said(model, jnp.asarray(examples.test_x[i : i + 1000])))
        for i in range(0, len(examples.test_x), 1000)
    ]
    return float((np.concatenate(parts) == examples.test_y).mean())


__all__ = ["ARMS", "LayerStack", "LayerTransfer", "TaskExamples", "layer_transfer", "split_classes"]
