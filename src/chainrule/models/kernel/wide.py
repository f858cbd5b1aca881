"""Models that are networks of infinite width: their settings, their training, their predictions.

Training is kernel ridge regression with the kernel of the network, in double precision: of centred values, or of
centred one-hot classes, whose outputs a temperature turns into probabilities. Ridge, temperature and the width of
intervals all come from predicting every kept example from the others, which has a closed form, so no example is held
out for them.
"""

import abc
import math
import warnings
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Protocol, Self, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.special
from jaxtyping import Bool
from pydantic import Field

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data import targets
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels import Precomputed
from chainrule.kernels.infinite import Convolutional, Dense, InfiniteNetwork, kernel_matrices
from chainrule.kernels.infinite.state import KernelState
from chainrule.kernels.regression import FittedRidge, KernelRidge
from chainrule.models.kernel.settings import kept, rows
from chainrule.models.protocol import HasLogits, HasOwnTraining, Metrics, as_prediction, supervised_loss

Architecture = Annotated[
    Literal["dense", "convolutional"],
    Field(
        description="layers of the network; convolutional ones are for images and slide a window over them"
    ),
]
Depth = Annotated[int, Field(ge=1, le=100, description="hidden layers")]
WideActivation = Annotated[
    Literal[
        "relu",
        "leaky_relu",
        "abs",
        "erf",
        "gelu",
        "sin",
        "cos",
        "tanh",
        "sigmoid",
        "silu",
        "softplus",
        "gaussian",
    ],
    Field(description="nonlinearity after every hidden layer"),
]
WeightStd = Annotated[
    float,
    Field(gt=0, le=100, description="standard deviation of weights, times the root of the inputs of a unit"),
]
BiasStd = Annotated[float, Field(ge=0, le=100, description="standard deviation of biases")]
WindowSize = Annotated[int, Field(ge=1, le=99, description="architecture=convolutional: pixels of a side")]
Gather = Annotated[
    Literal["flatten", "pool"],
    Field(
        description="architecture=convolutional: what becomes of positions at the end; pool averages them, which no "
        "longer sees where things are and costs the square of the positions"
    ),
]
Ridge = Annotated[
    Annotated[float, Field(ge=0)] | Literal["auto"],
    Field(
        description="added to the diagonal of the kernel, in units of its mean: variance of noise; auto: the best at "
        "predicting every example from the others"
    ),
]

MOST = {"dense": 5000, "convolutional": 500}
"""Training examples that are kept unless told, by architecture: what takes about a minute on two cores."""
MOST_VALUES = 2000
"""The same for values, whose intervals need a matrix of all kept examples."""
MOST_POOLED = 60
"""The same where all pairs of positions are held."""
MEMORY = 2**27
"""Bytes that the kernels of a batch of new examples may take at a time."""
_LIVE = 8
"""Arrays of the size of the kernel that are alive at once, about."""


@runtime_checkable
class WideSettings(Protocol):
    """What settings of all these models have."""

    architecture: str
    depth: int
    activation: str
    weight_std: float
    bias_std: float
    window: int
    gather: Any
    ridge: Any
    points: Any


def network_of(config: WideSettings, schema: Schema) -> InfiniteNetwork:
    """The network that settings describe, for inputs of this shape."""
    if config.architecture == "dense":
        return Dense(
            config.depth,
            config.activation,
            weight_std=config.weight_std,
            bias_std=config.bias_std,
            normalized=False,
            scaled_inputs=True,
        )
    return Convolutional(
        config.depth,
        config.activation,
        window=(config.window,) * (len(schema.shape) - 1),
        weight_std=config.weight_std,
        bias_std=config.bias_std,
        gather=config.gather,
        readout_std=config.weight_std,
    )


def measured(config: WideSettings, data: Data) -> Mapping[str, Any]:
    """How many training examples are kept; a network that does not fit the data is refused."""
    if config.architecture == "convolutional" and len(data.schema.shape) not in (2, 3):
        raise ArgumentError(
            f"architecture=convolutional: {data.name} has examples of shape {data.schema.shape}, with no positions to "
            "slide a window over",
            remedy="use architecture=dense",
        )
    pooled = config.architecture == "convolutional" and config.gather == "pool"
    most = MOST_POOLED if pooled else MOST[config.architecture]
    if targets.of(data.schema).has_values:
        most = min(most, MOST_VALUES)
    points = kept(config.points, data, most)
    if config.points == "auto" and points < len(data.train):
        warnings.warn(
            f"{points:,} of {len(data.train):,} training examples are kept, drawn at random; time grows with the cube "
            f"of their number. More of them: points={min(2 * points, len(data.train))}",
            ChainruleWarning,
            stacklevel=2,
        )
    return {"points": points}


def kept_points(config: WideSettings) -> int:
    """How many examples are kept; settings that no data were asked about yet keep one."""
    return 1 if config.points == "auto" else int(config.points)


class WideNetwork(HasOwnTraining, HasLogits):
    """Outputs `sum_i a_i k(x_i, x)` of kept examples, k a kernel of a network of infinite width."""

    points: eqx.AbstractVar[Float[Array, "points features"]]
    coefficients: eqx.AbstractVar[Float[Array, "points outputs"]]
    center: eqx.AbstractVar[Float[Array, " features"]]
    """Mean of the kept examples, which is subtracted."""
    offset: eqx.AbstractVar[Float[Array, " outputs"]]
    done: eqx.AbstractVar[Bool[Array, ""]]
    config: eqx.AbstractVar[Any]
    schema: eqx.AbstractVar[Schema]

    @staticmethod
    @abc.abstractmethod
    def chosen(state: KernelState) -> Array:
        """The kernel of the two that this model goes by."""

    @staticmethod
    @abc.abstractmethod
    def tangent() -> bool:
        """Whether it is the tangent kernel."""

    @abc.abstractmethod
    def learnt(
        self, fitted: FittedRidge, matrix: np.ndarray, values: np.ndarray, weights: np.ndarray
    ) -> Self:
        """With what leaving one out says beside the coefficients: temperature, or width of intervals."""

    @abc.abstractmethod
    def values_of(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Targets as rows of centred numbers, and what was subtracted."""

    @abc.abstractmethod
    def logits(self, x: Array) -> Float[Array, "batch outputs"]:
        """Logits, or values in model units."""

    def outputs(self, x: Array) -> Float[Array, "batch outputs"]:
        """The regression itself, in single precision and in parts that fit into memory."""
        return mapped(self, x, lambda k, state: jnp.matmul(k, state, precision="highest"), self.coefficients)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """That of one example, as the network takes it."""
        shape = self.schema.shape
        return shape if self.config.architecture == "convolutional" else (math.prod(shape),)

    def shaped(self, x: Array) -> Array:
        """Examples less the mean, as the network takes them."""
        return (x.reshape(len(x), -1) - self.center[None]).reshape(len(x), *self.input_shape)

    def network(self) -> InfiniteNetwork:
        """The network whose kernel this is."""
        return network_of(self.config, self.schema)

    def predict(self, x: Array) -> Array:
        """Probabilities of classes, or values in model units."""
        return as_prediction(self.schema, self.logits(x))

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Cross-entropy of the probabilities in nats with the accuracy, or mean squared error."""
        del key
        return supervised_loss(self.schema, self.logits(batch.x), batch.y, weights=batch.weights)

    def iterate(self, examples: Batch, key: Key) -> tuple[Self, Metrics]:
        """The whole fit."""
        some = _drawn(key, examples, len(self.points))
        part = jax.tree.map(lambda a: np.asarray(a)[some], examples)
        x = rows(part.x)
        center = x.mean(axis=0)
        centred = (x - center).reshape(len(x), *self.input_shape)
        found = kernel_matrices(self.network(), centred, ntk=self.tangent())
        matrix = found.ntk if self.tangent() else found.nngp
        values, offset = self.values_of(part.y)
        weights = np.ones(len(x)) if part.weights is None else np.asarray(part.weights, np.float64)
        unit = float(np.diagonal(matrix).mean())
        ridge = None if self.config.ridge == "auto" else self.config.ridge * unit
        fitted = KernelRidge(Precomputed(matrix), ridge).fit(np.arange(len(x))[:, None], values, weights)
        assert isinstance(fitted, FittedRidge)  # nothing is approximated here
        new = eqx.tree_at(
            lambda m: (m.points, m.coefficients, m.center, m.offset, m.done),
            self.learnt(fitted, np.asarray(matrix), values, weights),
            (
                _filled(x, self.points),
                _filled(fitted.coefficients, self.coefficients),
                jnp.asarray(center, self.center.dtype),
                jnp.asarray(offset, self.offset.dtype),
                jnp.ones((), bool),
            ),
        )
        loss, metrics = _judged(new, jax.tree.map(jnp.asarray, part), key)
        return new, {"loss": loss, **metrics, "ridge": jnp.asarray(fitted.ridge / unit)}

    @property
    def converged(self) -> bool:
        """After the fit."""
        return bool(self.done)


def _filled(found: np.ndarray, like: Array) -> Array:
    """Rows of a model; where fewer examples were found than are kept, zeros follow."""
    full = np.zeros(like.shape, np.float32)
    full[: len(found)] = found
    return jnp.asarray(full, like.dtype)


def _drawn(key: Key, examples: Batch, most: int) -> np.ndarray:
    """The examples that are learnt from: all that count, or some of them drawn at random."""
    there = np.arange(len(examples.x))
    if examples.weights is not None:
        there = there[np.asarray(examples.weights) > 0]
    if len(there) <= most:
        return there
    return np.sort(there[np.asarray(jax.random.permutation(key, len(there)))[:most]])


@eqx.filter_jit
def _judged(model: WideNetwork, examples: Batch, key: Key) -> Any:
    return model.loss(examples, key)


def own_kernel(model: WideNetwork, x: Array) -> Float[Array, " batch"]:
    """`k(x, x)` of every example."""
    network, same = model.network(), jnp.zeros((1, 1), bool)

    def own(row: Array) -> Array:
        state = network.tile(row[None], row[None], same, ntk=model.tangent(), standard=None)
        return model.chosen(state)[0, 0]

    return jax.lax.map(own, model.shaped(x), batch_size=_at_once(model, 1))


def _at_once(model: WideNetwork, columns: int) -> int:
    """How many new examples meet that many kept ones at a time, by what the kernels of their positions take."""
    positions = math.prod(model.input_shape[:-1])
    held = positions**2 if model.network().needs_pairs(False) else positions
    return max(1, MEMORY // (4 * _LIVE * held * columns))


def mapped(model: WideNetwork, x: Array, use: Any, per_point: Array) -> Array:
    """The sum over kept examples of `use(kernel of new and kept, what belongs to the kept)`, part by part."""
    network, shape = model.network(), model.input_shape
    columns = min(len(model.points), 1024, _at_once(model, 1))
    at_once = _at_once(model, columns)
    # Angles between points need digits: kernels are computed in single precision at least.
    precise = jnp.promote_types(per_point.dtype, jnp.float32)
    blocks = -(-len(model.points) // columns)
    missing = blocks * columns - len(model.points)
    points = jnp.pad(
        model.shaped(model.points).astype(precise), ((0, missing),) + ((0, 0),) * len(shape), mode="edge"
    )
    numbers = jnp.pad(per_point.astype(precise), ((0, missing),) + ((0, 0),) * (per_point.ndim - 1))
    points = points.reshape(blocks, columns, *shape)
    numbers = numbers.reshape(blocks, columns, *per_point.shape[1:])

    def of_rows(some: Array) -> Array:
        def add(total: Array, block: tuple[Array, Array]) -> tuple[Array, None]:
            apart = jnp.zeros((len(some), columns), bool)
            state = network.tile(some, block[0], apart, ntk=model.tangent(), standard=None)
            return total + use(model.chosen(state), block[1]), None

        start = jnp.zeros((len(some), *per_point.shape[1:]), precise)
        return jax.lax.scan(add, start, (points, numbers))[0]

    new = model.shaped(x).astype(precise)
    if len(new) <= at_once:
        return of_rows(new)
    return jax.lax.map(lambda row: of_rows(row[None])[0], new, batch_size=at_once)


def sharpness(outputs: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """What outputs are multiplied by so that their softmax has the least cross-entropy: one over the temperature."""

    def cross_entropy(log_scale: float) -> float:
        logits = math.exp(log_scale) * outputs
        own = np.take_along_axis(logits, y[:, None], axis=1)[:, 0]
        return float(np.average(scipy.special.logsumexp(logits, axis=1) - own, weights=weights))

    found = scipy.optimize.minimize_scalar(cross_entropy, bounds=(-4.0, 8.0), method="bounded")
    return math.exp(float(found.x))


def one_hot(y: np.ndarray, classes: int) -> np.ndarray:
    """Centred: the own class at `1 - 1 / classes`, the others at `-1 / classes`."""
    return np.eye(classes)[np.asarray(y)] - 1 / classes


__all__ = [
    "Architecture",
    "BiasStd",
    "Depth",
    "Gather",
    "Ridge",
    "WeightStd",
    "WideActivation",
    "WideNetwork",
    "WideSettings",
    "WindowSize",
    "kept_points",
    "mapped",
    "measured",
    "network_of",
    "one_hot",
    "own_kernel",
    "sharpness",
]
