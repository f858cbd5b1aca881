"""A small classifier of real examples that judges generated ones.

It knows nothing of the model that is judged. Its answers say whether an example is of its class, and what it sees just
before it answers are features in which two sets can be compared. Probes report how often it is right about held-out
examples beside what it says of samples.

Colour images are read by convolutions first: the same thing in another colour is another point in space, and dense
layers would have to learn each. Grey images, of which dense layers know as much, and rows of tables are read as they
are.
"""

from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int, Shaped

from chainrule.core import random
from chainrule.core.checks import check_class_numbers
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Scalar, Tree
from chainrule.nn import Conv, Linear

_BATCH = 128
_STEPS = 1000
_RATE = 2e-3
_DECAY = 0.05
_NOISE = 0.3
"""Standard deviation of the noise on inputs of unit variance while training: it keeps the judge from being too sure."""

_CHANNELS = (32, 64, 64, 64, 64)
"""Of convolutions over colour images, each of which halves the sides, until they have no more than `_COARSE` pixels."""
_COARSE = 8
_BLOCK = 500

_Some = Float[np.ndarray, "some features"]


class _Network(NamedTuple):
    """What is learnt."""

    convolutions: tuple[Conv, ...]
    dense: tuple[Linear, Linear, Linear]


@final
class ReferenceClassifier(eqx.Module):
    """Two hidden layers over examples as rows, scaled to unit variance; of colour images, over what convolutions see.

    >>> x = np.repeat([[-1.0, 0.0], [1.0, 0.0]], 40, axis=0)
    >>> judge = trained(x, np.repeat([0, 1], 40), 2, steps=50)
    >>> judge.probabilities(np.array([[2.0, 0.0]])).argmax().item()
    1
    """

    network: _Network
    shape: tuple[int, ...] = eqx.field(static=True)
    """Of an example, as convolutions read it."""
    mean: Float[Array, " features"]
    scale: Float[Array, ""]
    seen: Float[Array, "2 width"]
    """Mean and standard deviation of what is seen of the training examples."""

    def __init__(self, x: _Some, classes: int, width: int, key: Key, shape: tuple[int, ...] = ()) -> None:
        keys = jax.random.split(key, 3)
        self.shape = shape
        convolutions = _convolutions(shape, random.named(key, "convolutions"))
        sizes = (_flat_size(convolutions, shape, x.shape[1]), 2 * width, width, classes)
        one, two, three = (
            Linear(before, after, key=k) for before, after, k in zip(sizes, sizes[1:], keys, strict=False)
        )
        self.network = _Network(convolutions, (one, two, three))
        self.mean = jnp.asarray(x.mean(axis=0), jnp.float32)
        self.scale = jnp.asarray(max(float(x.std(axis=0).mean()), 1e-6), jnp.float32)
        self.seen = jnp.stack([jnp.zeros(width), jnp.ones(width)])

    def features(self, x: _Some) -> Float[np.ndarray, "some width"]:
        """What the last layer reads, each entry with mean zero and unit variance over the training examples."""
        return np.asarray((self.hidden(x) - self.seen[:1]) / self.seen[1:], np.float64)

    def probabilities(self, x: _Some) -> Float[np.ndarray, "some classes"]:
        """Of each class."""
        return np.asarray(jax.nn.softmax(self.network.dense[2](self.hidden(x))), np.float64)

    def accuracy(self, x: _Some, y: Int[np.ndarray, " some"]) -> float:
        """Share of examples whose class is the most probable one."""
        return float((self.probabilities(x).argmax(axis=1) == y).mean())

    def hidden(self, x: _Some) -> Float[Array, "some width"]:
        """What the last layer reads; of images a block at a time, whose features would not fit into memory at once."""
        block = _BLOCK if self.network.convolutions else max(1, len(x))
        found = [_hidden(self, self.inside(x[at : at + block])) for at in range(0, len(x), block)]
        return jnp.concatenate(found)

    def inside(self, x: _Some) -> Float[Array, "some features"]:
        """Rows as the first layer reads them."""
        return (jnp.asarray(x, jnp.float32) - self.mean[None]) / self.scale


def _convolutions(shape: tuple[int, ...], key: Key) -> tuple[Conv, ...]:
    """For colour images as many as leave no more than a few pixels a side; none for other examples."""
    made: list[Conv] = []
    if len(shape) == 3 and shape[-1] > 1:
        side, inputs = max(shape[:2]), shape[-1]
        for outputs in _CHANNELS:
            made.append(Conv(2, inputs, outputs, 3, stride=2, padding=1, key=random.at(key, len(made))))
            side, inputs = -(-side // 2), outputs
            if side <= _COARSE:
                break
    return tuple(made)


def _flat_size(convolutions: tuple[Conv, ...], shape: tuple[int, ...], size: int) -> int:
    """How many numbers the dense layers read of an example of this shape and size."""
    if not convolutions:
        return size
    image = jax.ShapeDtypeStruct((1, *shape), jnp.float32)
    return eqx.filter_eval_shape(_read, convolutions, shape, image).size


def _read(convolutions: tuple[Conv, ...], shape: tuple[int, ...], x: Array) -> Array:
    """Rows as the dense layers read them."""
    if not convolutions:
        return x
    h = x.reshape(-1, *shape)
    for layer in convolutions:
        h = jax.nn.silu(layer(h))
    return h.reshape(len(h), -1)


@eqx.filter_jit
def _hidden(judge: ReferenceClassifier, x: Float[Array, "some features"]) -> Float[Array, "some width"]:
    first, second, _ = judge.network.dense
    return jax.nn.silu(second(jax.nn.silu(first(_read(judge.network.convolutions, judge.shape, x)))))


def trained(
    x: Float[np.ndarray, "examples features"],
    y: Int[np.ndarray, " examples"],
    classes: int,
    *,
    width: int = 64,
    shape: tuple[int, ...] = (),
    steps: int = _STEPS,
    seed: int = 0,
) -> ReferenceClassifier:
    """A judge that has seen these examples; the same ones make the same judge. `shape` is that of an image."""
    if len(x) != len(y) or not len(x):
        raise ArgumentError(f"trained(x, y): {len(x)} examples and {len(y)} classes")
    check_class_numbers("trained", "y", y, classes)
    start, walk = jax.random.split(jax.random.key(seed))
    judge = ReferenceClassifier(x, classes, width, start, shape)
    rows = judge.inside(x)
    learnt = _descended(judge, rows, jnp.asarray(y), jax.random.split(walk, steps))
    judge = eqx.tree_at(lambda j: j.network, judge, learnt)
    hidden = judge.hidden(x)
    seen = jnp.stack([hidden.mean(axis=0), jnp.maximum(hidden.std(axis=0), 1e-6)])
    made: ReferenceClassifier = eqx.tree_at(lambda j: j.seen, judge, seen)
    return made


@jax.jit
def _descended(
    judge: ReferenceClassifier,
    rows: Float[Array, "examples features"],
    labels: Int[Array, " examples"],
    keys: Shaped[Array, " steps"],
) -> _Network:
    """What the judge learns, after a step for each key."""
    optimizer = optax.adamw(optax.cosine_decay_schedule(_RATE, len(keys)), weight_decay=_DECAY)

    def loss(learnt: _Network, key: Key) -> Scalar:
        choose, blur = jax.random.split(key)
        some = jax.random.randint(choose, (_BATCH,), 0, len(rows))
        noisy = rows[some] + _NOISE * jax.random.normal(blur, (_BATCH, rows.shape[1]))
        logits = learnt.dense[2](_hidden(eqx.tree_at(lambda j: j.network, judge, learnt), noisy))
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels[some]).mean()

    def step(carry: tuple[_Network, Tree], key: Key) -> tuple[tuple[_Network, Tree], None]:
        learnt, state = carry
        change, state = optimizer.update(jax.grad(loss)(learnt, key), state, learnt)
        return (optax.apply_updates(learnt, change), state), None

    return jax.lax.scan(step, (judge.network, optimizer.init(judge.network)), keys)[0][0]


__all__ = ["ReferenceClassifier", "trained"]
