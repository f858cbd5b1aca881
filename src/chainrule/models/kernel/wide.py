"""Models that are networks of infinite width: their settings, their training, their predictions.

Training is kernel ridge regression with the kernel of the network, in double precision: of centred values, or of
centred one-hot classes, whose outputs a temperature turns into probabilities. Ridge, temperature and the width of
intervals all come from predicting every kept example from the others, which has a closed form, so no example is held
out for them. Training for a time is gradient descent solved; there a fifth of the kept examples is predicted from the
rest.
"""

import abc
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool
from pydantic import Field

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data import targets
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels.data_checks import refuse_contradictions
from chainrule.kernels.infinite import Convolutional, Dense, InfiniteNetwork, Kernels, kernel_matrices
from chainrule.kernels.infinite.state import KernelState
from chainrule.kernels.wide import Wide, doubled
from chainrule.models.kernel import keeping
from chainrule.models.kernel import wide_pictures as pictures
from chainrule.models.kernel.settings import Kept, kept, refuse_unread, refuse_weights, rows
from chainrule.models.kernel.wide_training import WideTraining, for_a_time, to_the_end
from chainrule.models.protocol import (
    Config,
    HasLogits,
    HasOwnTraining,
    HasPictures,
    Metrics,
    as_prediction,
    supervised_loss,
)

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


class WideConfig(Config, abc.ABC):
    """Settings of networks of infinite width."""

    tangent: ClassVar[bool]
    """Whether the kernel is the tangent kernel; otherwise it is the covariance of outputs over random weights."""
    architecture: Literal["dense", "convolutional"] = Field(
        "dense",
        description="layers of the network; convolutional ones are for images and slide a window over them",
    )
    depth: int = Field(3, ge=1, le=100, description="hidden layers")
    activation: Literal[
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
    ] = Field("relu", description="nonlinearity after every hidden layer")
    weight_std: float = Field(
        1.4142,
        gt=0,
        le=100,
        description="standard deviation of weights, times the root of the inputs of a unit",
    )
    bias_std: float = Field(0.1, ge=0, le=100, description="standard deviation of biases")
    window: int = Field(3, ge=1, le=99, description="architecture=convolutional: pixels of a side")
    gather: Literal["flatten", "pool"] = Field(
        "flatten",
        description="architecture=convolutional: what becomes of positions at the end; pool averages them, which no "
        "longer sees where things are and costs the square of the positions",
    )
    ridge: Annotated[float, Field(ge=0)] | Literal["auto"] = Field(
        "auto",
        description="added to the diagonal of the kernel, in units of its mean: variance of noise; auto: the best at "
        "predicting every example from the others; zero with time=, where stopping keeps from noise",
    )
    time: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="how long gradient descent trains all weights (nngp: those of the last layer), in units of one "
        "over the mean of the kernel's diagonal: after 1, a direction of the mean eigenvalue is learnt to 63 %; none: "
        "to the end",
    )
    points: Kept = "auto"


def network_of(config: WideConfig, schema: Schema) -> InfiniteNetwork:
    """The network that settings describe, for inputs of this shape."""
    # The same numbers in programs of any precision: a kernel that differs in its last digits is another one to solve.
    weight_std, bias_std = (float(np.float32(value)) for value in (config.weight_std, config.bias_std))
    if config.architecture == "dense":
        return Dense(
            config.depth,
            config.activation,
            weight_std=weight_std,
            bias_std=bias_std,
            normalized=False,
            scaled_inputs=True,
        )
    return Convolutional(
        config.depth,
        config.activation,
        window=(config.window,) * (len(schema.shape) - 1),
        weight_std=weight_std,
        bias_std=bias_std,
        gather=config.gather,
        readout_std=weight_std,
    )


def measured(config: WideConfig, data: Data) -> Mapping[str, Any]:
    """How many training examples are kept; a network that does not fit the data is refused."""
    if config.architecture == "convolutional" and len(data.schema.shape) not in (2, 3):
        raise ArgumentError(
            f"architecture=convolutional: {data.name} has examples of shape {data.schema.shape}, with no positions to "
            "slide a window over",
            remedy="use architecture=dense",
        )
    for name in ("window", "gather"):
        refuse_unread(
            config, name, config.architecture == "convolutional", "architecture=dense has no positions"
        )
    if config.time is not None:
        refuse_weights(f"time={config.time:g}", data)
    elif config.ridge == 0:
        refuse_contradictions("ridge=0", rows(data.train.x), rows(data.train.y), "use ridge=auto")
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


class WideNetwork(HasOwnTraining, HasLogits, HasPictures):
    """Outputs `sum_i a_i k(x_i, x)` of kept examples, k a kernel of a network of infinite width.

    Where the ridge is small, coefficients are large and cancel: they are kept, and summed, in double precision.
    """

    points: eqx.AbstractVar[Float[Array, "points features"]]
    coefficients: eqx.AbstractVar[Wide]
    center: eqx.AbstractVar[Float[Array, " features"]]
    """Mean of the kept examples, which is subtracted."""
    offset: eqx.AbstractVar[Float[Array, " outputs"]]
    ridge: eqx.AbstractVar[Scalar]
    """In units of the mean of the kernel's diagonal."""
    done: eqx.AbstractVar[Bool[Array, ""]]
    config: eqx.AbstractVar[Any]
    schema: eqx.AbstractVar[Schema]

    def matrix_of(self, kernels: Kernels) -> np.ndarray:
        """That of the two matrices which this model goes by."""
        return np.asarray(kernels.ntk if self.config.tangent else kernels.nngp)

    def chosen(self, state: KernelState) -> Array:
        """The kernel of the two that this model goes by."""
        found = state.ntk if self.config.tangent else state.nngp
        assert found is not None  # it was asked for
        return found

    @abc.abstractmethod
    def learnt(self, found: WideTraining, kernels: Kernels, values: np.ndarray, weights: np.ndarray) -> Self:
        """With what leaving one out says beside the coefficients: temperature, or width of intervals."""

    @abc.abstractmethod
    def values_of(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Targets as rows of centred numbers, and what was subtracted."""

    @abc.abstractmethod
    def logits_of(self, outputs: Float[Array, "batch outputs"]) -> Float[Array, "batch outputs"]:
        """Logits, or values in model units, by the regression."""

    def logits(self, x: Array) -> Float[Array, "batch outputs"]:
        """Logits, or values in model units."""
        return self.logits_of(self.outputs(x))

    def outputs(self, x: Array) -> Float[Array, "batch outputs"]:
        """The regression itself."""
        found: Array = doubled(_outputs, self, x, dtype=self.precision)
        return found

    @property
    def precision(self) -> Any:
        """That of answers."""
        return jnp.promote_types(self.points.dtype, jnp.float32)

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
        part = keeping.part(examples, key, len(self.points))
        x = rows(part.x)
        # As it is kept: what predictions subtract is what was subtracted here.
        center = x.mean(axis=0).astype(self.center.dtype)
        centred = (x - center).reshape(len(x), *self.input_shape)
        found = kernel_matrices(self.network(), centred, ntk=self.config.tangent)
        matrix = self.matrix_of(found)
        values, offset = self.values_of(part.y)
        weights = np.ones(len(x)) if part.weights is None else np.asarray(part.weights, np.float64)
        unit = float(np.diagonal(matrix).mean())
        ridge = None if self.config.ridge == "auto" else self.config.ridge * unit
        if self.config.time is None:
            trained = to_the_end(matrix, values, weights, ridge)
        else:
            before = matrix if not self.config.tangent else np.asarray(found.nngp)
            trained = for_a_time(matrix, before, values, ridge or 0.0, self.config.time)
        room = len(self.points)
        new = eqx.tree_at(
            lambda m: (m.points, m.coefficients, m.center, m.offset, m.ridge, m.done),
            self.learnt(trained, found, values, weights),
            (
                jnp.asarray(keeping.filled(x, room), self.points.dtype),
                Wide.of(keeping.filled(trained.coefficients, room), self.points.dtype),
                jnp.asarray(center),
                jnp.asarray(offset, self.offset.dtype),
                jnp.asarray(trained.ridge / unit, self.ridge.dtype),
                jnp.ones((), bool),
            ),
        )
        logits = new.logits_of(jnp.asarray(trained.outputs, jnp.float32))
        given = None if part.weights is None else jnp.asarray(part.weights)
        loss, metrics = supervised_loss(self.schema, logits, jnp.asarray(part.y), weights=given)
        return new, {"loss": loss, **metrics, "ridge": new.ridge}

    @property
    def converged(self) -> bool:
        """After the fit."""
        return bool(self.done)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """The kernel of training examples by target, its spectrum, what more examples bring, how sure it is."""
        return pictures.all_of(self, data, key)


def _outputs(model: WideNetwork, x: Array) -> Float[Array, "batch outputs"]:
    coefficients = model.coefficients.double()
    return from_kernels(model, x, lambda kernels: jnp.matmul(kernels, coefficients, precision="highest"))


def own_kernel(
    model: WideNetwork, x: Array, pick: Callable[[KernelState], Array] | None = None
) -> Float[Array, " batch"]:
    """`k(x, x)` of every example; of the kernel that the model goes by unless another is picked."""
    chosen = pick or model.chosen
    network, same = model.network(), jnp.zeros((1, 1), bool)

    def own(row: Array) -> Array:
        state = network.tile(row[None], row[None], same, ntk=model.config.tangent, standard=None)
        return chosen(state)[0, 0]

    return jax.lax.map(own, model.shaped(x), batch_size=_at_once(model, 1))


def _at_once(model: WideNetwork, columns: int) -> int:
    """How many new examples meet that many kept ones at a time, by what the kernels of their positions take."""
    positions = math.prod(model.input_shape[:-1])
    held = positions**2 if model.network().needs_pairs(False) else positions
    return max(1, MEMORY // (8 * _LIVE * held * columns))


def from_kernels(
    model: WideNetwork,
    x: Array,
    use: Callable[[Array], Array],
    pick: Callable[[KernelState], Array] | None = None,
) -> Array:
    """What `use` makes of the kernels of new examples with all kept ones, `(new, points)`, in parts that fit.

    `pick` may take others than the kernel that the model goes by, one below the other.
    """
    chosen = pick or model.chosen
    network, shape, count = model.network(), model.input_shape, len(model.points)
    columns = min(count, 1024, _at_once(model, 1))
    at_once = min(_at_once(model, columns), max(1, MEMORY // (8 * count)))
    blocks = -(-count // columns)
    missing = blocks * columns - count
    points = jnp.pad(model.shaped(model.points), ((0, missing),) + ((0, 0),) * len(shape), mode="edge")
    points = points.reshape(blocks, columns, *shape)

    def of_rows(some: Array) -> Array:
        def between(block: Array) -> Array:
            apart = jnp.zeros((len(some), columns), bool)
            return chosen(network.tile(some, block, apart, ntk=model.config.tangent, standard=None))

        found = jax.lax.map(between, points)
        return use(jnp.moveaxis(found, 0, 1).reshape(found.shape[1], -1)[:, :count])

    new = model.shaped(x)
    if len(new) <= at_once:
        return of_rows(new)
    return jax.lax.map(lambda row: of_rows(row[None])[0], new, batch_size=at_once)


def one_hot(y: np.ndarray, classes: int) -> np.ndarray:
    """Centred: the own class at `1 - 1 / classes`, the others at `-1 / classes`."""
    return np.eye(classes)[np.asarray(y)] - 1 / classes


__all__ = [
    "WideConfig",
    "WideNetwork",
    "from_kernels",
    "measured",
    "network_of",
    "one_hot",
    "own_kernel",
]
