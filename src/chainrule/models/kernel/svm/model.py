"""Support vector machines as models: for classes, for values, and for examples without a target.

Training is one run of the dual solver over all examples (`kernels.support_vectors`), in double precision. The model
keeps the examples it learnt from, with a coefficient each, which is zero for those that are no support vectors; on
features in place of the kernel it keeps the features and their weights.
"""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data import targets
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.kernels.features import KernelFeatures
from chainrule.kernels.support_vectors import (
    OneClassSupportVectors,
    SupportVectorClassifier,
    SupportVectorRegressor,
)
from chainrule.kernels.support_vectors.calibration import coupled
from chainrule.kernels.wide import Wide
from chainrule.models.kernel.settings import rows
from chainrule.models.kernel.svm import pictures
from chainrule.models.kernel.svm.decisions import SupportVectors, count_of, of_all_rows, room_for
from chainrule.models.kernel.svm.settings import OUTSIDE, SVMConfig, kernel_from
from chainrule.models.protocol import (
    CanEncode,
    HasLogits,
    HasScores,
    Metrics,
    Scored,
    as_prediction,
    output_count,
    supervised_loss,
)

_LEAST = 1e-7
"""Probabilities whose logarithm is taken are at least this."""


@final
class SVMClassifier(SupportVectors, HasLogits):
    """A border of widest margin between every two classes, and calibrated probabilities."""

    points: Float[Array, "points features"] | None
    coefficients: Float[Array, "points pairs"] | None
    features: KernelFeatures | None
    weights: Wide | None
    intercepts: Float[Array, " pairs"]
    sigmoids: Float[Array, "pairs 2"]
    """Slope and offset of the probability of the second class of a pair."""
    done: Bool[Array, ""]
    config: SVMConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: SVMConfig, schema: Schema, key: Key) -> None:
        pairs = len(schema.classes) * (len(schema.classes) - 1) // 2
        self.points, self.coefficients, self.features, self.weights = room_for(config, schema, pairs, key)
        self.intercepts = jnp.zeros(pairs)
        self.sigmoids = jnp.tile(jnp.array([-1.0, 0.0]), (pairs, 1))
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def learnt(self, x: np.ndarray, examples: Batch, key: Key) -> tuple["SVMClassifier", dict[str, float]]:
        """The machines of all pairs."""
        config = self.config
        found = SupportVectorClassifier(
            kernel_from(config),
            C=config.C,
            nu=config.nu,
            class_weights=None if config.class_weights == "equal" else config.class_weights,
            probabilities=config.probability,
            tolerance=config.tolerance,
            approximate=config.approximate,
            count=count_of(config),
            key=key,
        ).fit(x, examples.y, examples.weights)
        sigmoids = self.sigmoids if found.sigmoids is None else jnp.asarray(found.sigmoids, jnp.float32)
        new = eqx.tree_at(
            lambda m: (m.intercepts, m.sigmoids),
            self.holding(found.kernel, x, of_all_rows(len(x), found.support, found.coefficients)),
            (jnp.asarray(found.intercepts, jnp.float32), sigmoids),
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

    points: Float[Array, "points features"] | None
    coefficients: Float[Array, "points outputs"] | None
    features: KernelFeatures | None
    weights: Wide | None
    intercepts: Float[Array, " outputs"]
    done: Bool[Array, ""]
    config: SVMConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: SVMConfig, schema: Schema, key: Key) -> None:
        outputs = output_count(schema)
        self.points, self.coefficients, self.features, self.weights = room_for(config, schema, outputs, key)
        self.intercepts = jnp.zeros(outputs)
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def learnt(self, x: np.ndarray, examples: Batch, key: Key) -> tuple["SVMRegressor", dict[str, float]]:
        """One machine for each value."""
        config = self.config
        machine = SupportVectorRegressor(
            kernel_from(config),
            C=config.C,
            epsilon=config.epsilon,
            tolerance=config.tolerance,
            approximate=config.approximate,
            count=count_of(config),
            key=key,
        )
        found = [machine.fit(x, y, examples.weights) for y in rows(examples.y).T]
        every = np.zeros((len(x), len(found)))
        for number, one in enumerate(found):
            every[one.support, number] = one.coefficients
        new = eqx.tree_at(
            lambda m: m.intercepts,
            self.holding(found[0].kernel, x, every),
            jnp.asarray([one.intercept for one in found], jnp.float32),
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

    points: Float[Array, "points features"] | None
    coefficients: Float[Array, "points 1"] | None
    features: KernelFeatures | None
    weights: Wide | None
    intercepts: Float[Array, " 1"]
    square: Scalar
    """Squared norm of the weights in the space of features."""
    done: Bool[Array, ""]
    config: SVMConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: SVMConfig, schema: Schema, key: Key) -> None:
        self.points, self.coefficients, self.features, self.weights = room_for(config, schema, 1, key)
        self.intercepts = jnp.zeros(1)
        self.square = jnp.zeros(())
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    @property
    def outside(self) -> float:
        """The largest share of training examples outside of the region."""
        return OUTSIDE if self.config.nu is None else self.config.nu

    def learnt(self, x: np.ndarray, examples: Batch, key: Key) -> tuple["SVMRegion", dict[str, float]]:
        """The region; coefficients are scaled to sum one."""
        config = self.config
        machine = OneClassSupportVectors(
            kernel_from(config),
            self.outside,
            config.tolerance,
            approximate=config.approximate,
            count=count_of(config),
            key=key,
        )
        found = machine.fit(x, examples.weights)
        total = found.coefficients.sum()
        every = of_all_rows(len(x), found.support, found.coefficients[:, None] / total)
        new = eqx.tree_at(
            lambda m: (m.intercepts, m.square),
            self.holding(found.kernel, x, every),
            (
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


__all__ = ["SVMClassifier", "SVMRegion", "SVMRegressor", "build"]
