"""A small classifier of real examples that judges generated ones.

It knows nothing of the model that is judged. Its answers say whether an example is of its class, and what it sees just
before it answers are features in which two sets can be compared. Probes report how often it is right about held-out
examples beside what it says of samples.
"""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int, Shaped

from chainrule.core.checks import check_class_numbers
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Scalar, Tree
from chainrule.nn import Linear

_BATCH = 128
_STEPS = 1000
_RATE = 2e-3
_DECAY = 0.05
_NOISE = 0.3
"""Standard deviation of the noise on inputs of unit variance while training: it keeps the judge from being too sure."""

_Some = Float[np.ndarray, "some features"]


@final
class ReferenceClassifier(eqx.Module):
    """Two hidden layers over examples as rows, scaled to unit variance.

    >>> x = np.repeat([[-1.0, 0.0], [1.0, 0.0]], 40, axis=0)
    >>> judge = trained(x, np.repeat([0, 1], 40), 2, steps=50)
    >>> judge.probabilities(np.array([[2.0, 0.0]])).argmax().item()
    1
    """

    layers: tuple[Linear, Linear, Linear]
    mean: Float[Array, " features"]
    scale: Float[Array, ""]
    seen: Float[Array, "2 width"]
    """Mean and standard deviation of what is seen of the training examples."""

    def __init__(self, x: _Some, classes: int, width: int, key: Key) -> None:
        keys = jax.random.split(key, 3)
        sizes = (x.shape[1], 2 * width, width, classes)
        one, two, three = (
            Linear(before, after, key=k) for before, after, k in zip(sizes, sizes[1:], keys, strict=False)
        )
        self.layers = (one, two, three)
        self.mean = jnp.asarray(x.mean(axis=0), jnp.float32)
        self.scale = jnp.asarray(max(float(x.std(axis=0).mean()), 1e-6), jnp.float32)
        self.seen = jnp.stack([jnp.zeros(width), jnp.ones(width)])

    def features(self, x: _Some) -> Float[np.ndarray, "some width"]:
        """What the last layer reads, each entry with mean zero and unit variance over the training examples."""
        hidden = _hidden(self, self.inside(x))
        return np.asarray((hidden - self.seen[:1]) / self.seen[1:], np.float64)

    def probabilities(self, x: _Some) -> Float[np.ndarray, "some classes"]:
        """Of each class."""
        return np.asarray(jax.nn.softmax(self.layers[2](_hidden(self, self.inside(x)))), np.float64)

    def accuracy(self, x: _Some, y: Int[np.ndarray, " some"]) -> float:
        """Share of examples whose class is the most probable one."""
        return float((self.probabilities(x).argmax(axis=1) == y).mean())

    def inside(self, x: _Some) -> Float[Array, "some features"]:
        """Rows as the first layer reads them."""
        return (jnp.asarray(x, jnp.float32) - self.mean[None]) / self.scale


@eqx.filter_jit
def _hidden(judge: ReferenceClassifier, x: Float[Array, "some features"]) -> Float[Array, "some width"]:
    first, second, _ = judge.layers
    return jax.nn.silu(second(jax.nn.silu(first(x))))


def trained(
    x: Float[np.ndarray, "examples features"],
    y: Int[np.ndarray, " examples"],
    classes: int,
    *,
    width: int = 64,
    steps: int = _STEPS,
    seed: int = 0,
) -> ReferenceClassifier:
    """A judge that has seen these examples; the same ones make the same judge."""
    if len(x) != len(y) or not len(x):
        raise ArgumentError(f"trained(x, y): {len(x)} examples and {len(y)} classes")
    check_class_numbers("trained", "y", y, classes)
    start, walk = jax.random.split(jax.random.key(seed))
    judge = ReferenceClassifier(x, classes, width, start)
    rows = judge.inside(x)
    layers = _descended(judge, rows, jnp.asarray(y), jax.random.split(walk, steps))
    judge = eqx.tree_at(lambda j: j.layers, judge, layers)
    hidden = _hidden(judge, rows)
    seen = jnp.stack([hidden.mean(axis=0), jnp.maximum(hidden.std(axis=0), 1e-6)])
    made: ReferenceClassifier = eqx.tree_at(lambda j: j.seen, judge, seen)
    return made


@jax.jit
def _descended(
    judge: ReferenceClassifier,
    rows: Float[Array, "examples features"],
    labels: Int[Array, " examples"],
    keys: Shaped[Array, " steps"],
) -> Tree:
    """The layers of the judge after a step for each key."""
    optimizer = optax.adamw(optax.cosine_decay_schedule(_RATE, len(keys)), weight_decay=_DECAY)

    def loss(layers: Tree, key: Key) -> Scalar:
        choose, blur = jax.random.split(key)
        some = jax.random.randint(choose, (_BATCH,), 0, len(rows))
        noisy = rows[some] + _NOISE * jax.random.normal(blur, (_BATCH, rows.shape[1]))
        logits = layers[2](_hidden(eqx.tree_at(lambda j: j.layers, judge, layers), noisy))
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels[some]).mean()

    def step(carry: tuple[Tree, Tree], key: Key) -> tuple[tuple[Tree, Tree], None]:
        layers, state = carry
        change, state = optimizer.update(jax.grad(loss)(layers, key), state, layers)
        return (optax.apply_updates(layers, change), state), None

    return jax.lax.scan(step, (judge.layers, optimizer.init(judge.layers)), keys)[0][0]


__all__ = ["ReferenceClassifier", "trained"]
