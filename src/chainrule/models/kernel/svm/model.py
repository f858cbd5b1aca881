"""Support vector machines as models: for classes, for values, and for examples without a target.

Training is one run of the dual solver over all examples (`kernels.support_vectors`), in double precision. The model
keeps the examples it learnt from, with a coefficient each, which is zero for those that are no support vectors.
"""

import abc
from collections.abc import Sequence
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data import targets
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels.support_vectors import (
    OneClassSupportVectors,
    SupportVectorClassifier,
    SupportVectorRegressor,
)
from chainrule.kernels.support_vectors.calibration import coupled
from chainrule.models.kernel import keeping
from chainrule.models.kernel.settings import rows
from chainrule.models.kernel.svm import pictures
from chainrule.models.kernel.svm.settings import OUTSIDE, SVMConfig, kernel_from
from chainrule.models.protocol import (
    CanEncode,
    HasLogits,
    HasOwnTraining,
    HasPictures,
    HasScores,
    Metrics,
    Scored,
    as_prediction,
    output_count,
    supervised_loss,
)

_LEAST = 1e-7
"""Probabilities whose logarithm is taken are at least this."""


class SupportVectors(HasOwnTraining, HasPictures):
    """Decision values `sum_i b_i k(x_i, x) + intercept` of kept examples."""

    points: eqx.AbstractVar[Float[Array, "points features"]]
    coefficients: eqx.AbstractVar[Float[Array, "points outputs"]]
    intercepts: eqx.AbstractVar[Float[Array, " outputs"]]
    done: eqx.AbstractVar[Bool[Array, ""]]
    config: eqx.AbstractVar[SVMConfig]
    schema: eqx.AbstractVar[Schema]

    @abc.abstractmethod
    def learnt(self, x: np.ndarray, examples: Batch) -> tuple[Self, dict[str, float]]:
        """The model fitted to these rows, and numbers worth watching: support vectors, the gap."""

    @abc.abstractmethod
    def room(self, values: np.ndarray, batch: Batch) -> Float[np.ndarray, " rows"]:
        """How far examples of these decision values are on their side of margin, tube or region; below zero: not."""

    @property
    @abc.abstractmethod
    def room_name(self) -> str:
        """What that is, in a few words."""

    def decision(self, x: Array) -> Float[Array, "batch outputs"]:
        """Decision values in model units."""
        tile = kernel_from(self.config).tile(x.reshape(len(x), -1), self.points)
        found = tile.astype(self.coefficients.dtype) @ self.coefficients
        return found + jnp.broadcast_to(self.intercepts, found.shape)

    def iterate(self, examples: Batch, key: Key) -> tuple[Self, Metrics]:
        """The whole fit, from all examples or from as many as are kept."""
        part = keeping.part(examples, key, len(self.points))
        fitted, numbers = self.learnt(rows(part.x), part)
        new = eqx.tree_at(lambda m: m.done, fitted, jnp.ones((), bool))
        loss, metrics = _judged(new, jax.tree.map(jnp.asarray, part), key)
        return new, {"loss": loss, **metrics, **{name: jnp.asarray(value) for name, value in numbers.items()}}

    @property
    def converged(self) -> bool:
        """After the fit."""
        return bool(self.done)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Support vectors by class, margins in the plane, decision values, examples that violate most."""
        del key
        return pictures.all_of(self, data)


@eqx.filter_jit
def _judged(model: SupportVectors, examples: Batch, key: Key) -> Any:
    return model.loss(examples, key)


def _spread(
    model: SupportVectors, x: np.ndarray, support: np.ndarray, coefficients: np.ndarray
) -> tuple[Array, Array]:
    """Points and coefficients of the shapes that the model has; examples that are no support vectors get zeros."""
    points = np.zeros(model.points.shape, np.float32)
    every = np.zeros(model.coefficients.shape, np.float32)
    points[: len(x)] = x
    every[support] = coefficients
    return jnp.asarray(points), jnp.asarray(every)


@final
class SVMClassifier(SupportVectors, HasLogits):
    """A border of widest margin between every two classes, and calibrated probabilities."""

    points: Float[Array, "points features"]
    coefficients: Float[Array, "points pairs"]
    intercepts: Float[Array, " pairs"]
    sigmoids: Float[Array, "pairs 2"]
    """Slope and offset of the probability of the second class of a pair."""
    done: Bool[Array, ""]
    config: SVMConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: SVMConfig, schema: Schema, key: Key) -> None:
        del key  # the data decide everything
        pairs = len(schema.classes) * (len(schema.classes) - 1) // 2
        self.points = jnp.zeros((keeping.room(config.points), schema.dimensions))
        self.coefficients = jnp.zeros((keeping.room(config.points), pairs))
        self.intercepts = jnp.zeros(pairs)
        self.sigmoids = jnp.tile(jnp.array([-1.0, 0.0]), (pairs, 1))
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def learnt(self, x: np.ndarray, examples: Batch) -> tuple["SVMClassifier", dict[str, float]]:
        """The machines of all pairs."""
        config = self.config
        found = SupportVectorClassifier(
            kernel_from(config),
            C=config.C,
            nu=config.nu,
            class_weights=None if config.class_weights == "equal" else config.class_weights,
            probabilities=config.probability,
            tolerance=config.tolerance,
        ).fit(x, examples.y, examples.weights)
        points, coefficients = _spread(self, x, found.support, found.coefficients)
        sigmoids = self.sigmoids if found.sigmoids is None else jnp.asarray(found.sigmoids, jnp.float32)
        new = eqx.tree_at(
            lambda m: (m.points, m.coefficients, m.intercepts, m.sigmoids),
            self,
            (points, coefficients, jnp.asarray(found.intercepts, jnp.float32), sigmoids),
        )
        return new, {
            "support_vectors": float(len(found.support)),
            "gap": float(sum(one.gap for one in found.optima)),
        }

    def logits(self, x: Array) -> Float[Array, "batch classes"]:
        """Logarithms of the probabilities."""
        values = self.decision(x)
        z = values * self.sigmoids[None, :, 0] + self.sigmoids[None, :, 1]
        if len(self.schema.classes) == 2:
            return jnp.concatenate([jax.nn.log_sigmoid(z), jax.nn.log_sigmoid(-z)], axis=1)
        found = coupled(jax.nn.sigmoid(-z), len(self.schema.classes))
        return jnp.log(jnp.maximum(found, _LEAST))

    def predict(self, x: Array) -> Float[Array, "batch classes"]:
        """Probabilities of the classes."""
        return as_prediction(self.schema, self.logits(x))

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Cross-entropy of the probabilities in nats, with the accuracy."""
        del key
        return supervised_loss(self.schema, self.logits(batch.x), batch.y, weights=batch.weights)

    def room(self, values: np.ndarray, batch: Batch) -> Float[np.ndarray, " rows"]:
        """The least decision value for an example's own class: below one inside of the margin, below zero wrong."""
        return pictures.own_margins(values, np.asarray(batch.y), len(self.schema.classes)) - 1

    @property
    def room_name(self) -> str:
        """Beyond the margin."""
        return "decision value for the own class, less the margin"


@final
class SVMRegressor(SupportVectors, HasLogits):
    """Values within a tube, one machine for each."""

    points: Float[Array, "points features"]
    coefficients: Float[Array, "points outputs"]
    intercepts: Float[Array, " outputs"]
    done: Bool[Array, ""]
    config: SVMConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: SVMConfig, schema: Schema, key: Key) -> None:
        del key
        outputs = output_count(schema)
        self.points = jnp.zeros((keeping.room(config.points), schema.dimensions))
        self.coefficients = jnp.zeros((keeping.room(config.points), outputs))
        self.intercepts = jnp.zeros(outputs)
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def learnt(self, x: np.ndarray, examples: Batch) -> tuple["SVMRegressor", dict[str, float]]:
        """One machine for each value."""
        config = self.config
        machine = SupportVectorRegressor(
            kernel_from(config), C=config.C, epsilon=config.epsilon, tolerance=config.tolerance
        )
        found = [machine.fit(x, y, examples.weights) for y in rows(examples.y).T]
        every = np.zeros((len(x), len(found)))
        for number, one in enumerate(found):
            every[one.support, number] = one.coefficients
        points, coefficients = _spread(self, x, np.arange(len(x)), every)
        new = eqx.tree_at(
            lambda m: (m.points, m.coefficients, m.intercepts),
            self,
            (points, coefficients, jnp.asarray([one.intercept for one in found], jnp.float32)),
        )
        return new, {
            "support_vectors": float(every.any(axis=1).sum()),
            "gap": float(sum(one.optimum.gap for one in found)),
        }

    def logits(self, x: Array) -> Float[Array, "batch outputs"]:
        """Values in model units, flattened."""
        return self.decision(x)

    def predict(self, x: Array) -> Array:
        """Values in model units."""
        return as_prediction(self.schema, self.logits(x))

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean squared error in model units; what training minimises does not count errors inside of the tube."""
        del key
        return supervised_loss(self.schema, self.logits(batch.x), batch.y, weights=batch.weights)

    def room(self, values: np.ndarray, batch: Batch) -> Float[np.ndarray, " rows"]:
        """Half the width of the tube less the largest error: negative outside of it."""
        return self.config.epsilon - np.abs(values - rows(batch.y)).max(axis=1)

    @property
    def room_name(self) -> str:
        """Within the tube."""
        return "half the tube less the error"


@final
class SVMRegion(SupportVectors, CanEncode, HasScores):
    """The region of most examples: how far inside each one lies."""

    points: Float[Array, "points features"]
    coefficients: Float[Array, "points 1"]
    intercepts: Float[Array, " 1"]
    square: Scalar
    """Squared norm of the weights in the space of features."""
    done: Bool[Array, ""]
    config: SVMConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: SVMConfig, schema: Schema, key: Key) -> None:
        del key
        self.points = jnp.zeros((keeping.room(config.points), schema.dimensions))
        self.coefficients = jnp.zeros((keeping.room(config.points), 1))
        self.intercepts = jnp.zeros(1)
        self.square = jnp.zeros(())
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    @property
    def outside(self) -> float:
        """The largest share of training examples outside of the region."""
        return OUTSIDE if self.config.nu is None else self.config.nu

    def learnt(self, x: np.ndarray, examples: Batch) -> tuple["SVMRegion", dict[str, float]]:
        """The region; coefficients are scaled to sum one."""
        machine = OneClassSupportVectors(kernel_from(self.config), self.outside, self.config.tolerance)
        found = machine.fit(x, examples.weights)
        total = found.coefficients.sum()
        points, coefficients = _spread(self, x, found.support, found.coefficients[:, None] / total)
        new = eqx.tree_at(
            lambda m: (m.points, m.coefficients, m.intercepts, m.square),
            self,
            (
                points,
                coefficients,
                jnp.asarray([-found.threshold / total], jnp.float32),
                jnp.asarray(2 * found.optimum.objective / total**2, jnp.float32),
            ),
        )
        return new, {"support_vectors": float(len(found.support)), "gap": found.optimum.gap}

    def encode(self, x: Array) -> Float[Array, "batch 1"]:
        """The decision value of each example: positive inside of the region, the lower the more unusual."""
        return self.decision(x)

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """The objective of training: half the squared norm, less the threshold, and what examples lie outside by."""
        del key
        value = self.decision(batch.x)[:, 0]
        beyond = jnp.maximum(-value, 0).mean() / self.outside
        return 0.5 * self.square + self.intercepts[0] + beyond, {"outside": (value < 0).mean()}

    def scores(self, batch: Batch, key: Key) -> dict[str, Scored]:
        """Whether examples lie outside of the region, and how far inside."""
        del key
        value = self.decision(batch.x)[:, 0]
        return {"outside": Scored((value < 0).astype(jnp.float32)), "decision": Scored(value)}

    def room(self, values: np.ndarray, batch: Batch) -> Float[np.ndarray, " rows"]:
        """The decision value itself."""
        del batch
        return values[:, 0]

    @property
    def room_name(self) -> str:
        """Inside of the region."""
        return "decision value"


def build(config: SVMConfig, schema: Schema, key: Key) -> SVMClassifier | SVMRegressor | SVMRegion:
    """The machine that the target asks for."""
    target = targets.of(schema)
    if target.one_class:
        return SVMClassifier(config, schema, key)
    return SVMRegressor(config, schema, key) if target.has_values else SVMRegion(config, schema, key)


__all__ = ["SVMClassifier", "SVMRegion", "SVMRegressor", "SupportVectors", "build"]
