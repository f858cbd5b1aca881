"""Kernel ridge regression as a model: values, or classes with probabilities calibrated on predictions left out."""

import abc
from collections.abc import Sequence
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool
from scipy.linalg import solve_triangular

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data import targets
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels.nystrom import Nystrom
from chainrule.kernels.random_features import RandomFourierFeatures
from chainrule.kernels.regression import FittedFeatures, FittedRidge, KernelRidge
from chainrule.kernels.wide import Wide, doubled
from chainrule.models.kernel import feature_maps, keeping
from chainrule.models.kernel.approximating import USUAL
from chainrule.models.kernel.calibration import sharpness
from chainrule.models.kernel.kernel_ridge import pictures
from chainrule.models.kernel.kernel_ridge.settings import MOST, KernelRidgeConfig, kernel_from, regressed
from chainrule.models.kernel.settings import rows
from chainrule.models.protocol import (
    HasLogits,
    HasOwnTraining,
    HasPictures,
    Metrics,
    as_prediction,
    output_count,
    supervised_loss,
)


class RidgeModel(HasOwnTraining, HasLogits, HasPictures):
    """A regression in closed form; of classes, the softmax of a multiple of it."""

    offset: eqx.AbstractVar[Float[Array, " outputs"]]
    log_sharpness: eqx.AbstractVar[Scalar]
    """What values of classes are multiplied by before the softmax: one over a temperature."""
    done: eqx.AbstractVar[Bool[Array, ""]]
    config: eqx.AbstractVar[KernelRidgeConfig]
    schema: eqx.AbstractVar[Schema]

    @abc.abstractmethod
    def centred(self, x: Array) -> Float[Array, "batch outputs"]:
        """The regression less its offset."""

    @abc.abstractmethod
    def holding(self, fitted: FittedRidge | FittedFeatures) -> Self:
        """The model with what was found."""

    @property
    @abc.abstractmethod
    def learnt_from(self) -> int | None:
        """How many training examples it learns from at most; None: all of them."""

    def values(self, x: Array) -> Float[Array, "batch outputs"]:
        """The regression: values, or one number for each class that is one where the class is sure."""
        found = self.centred(x)
        return found + jnp.broadcast_to(self.offset, found.shape)

    def logits(self, x: Array) -> Float[Array, "batch outputs"]:
        """Values, or of classes the logarithms of probabilities up to a constant."""
        return self.values(x) * jnp.exp(self.log_sharpness)

    def predict(self, x: Array) -> Array:
        """Values, or probabilities of classes."""
        return as_prediction(self.schema, self.logits(x))

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean squared error, or cross-entropy in nats with the accuracy."""
        del key
        return supervised_loss(self.schema, self.logits(batch.x), batch.y, weights=batch.weights)

    def iterate(self, examples: Batch, key: Key) -> tuple[Self, Metrics]:
        """The closed form, in double precision, and for classes the temperature."""
        most = len(examples.x) if self.learnt_from is None else self.learnt_from
        part = keeping.part(examples, key, most)
        x, y = rows(part.x), regressed(self.schema, part.y)
        weights = np.ones(len(x)) if part.weights is None else np.asarray(part.weights, np.float64)
        offset = np.average(y, axis=0, weights=weights)
        fitted = _machine(self.config, key).fit(x, y - offset, weights)
        left_out = y - fitted.residuals
        sharp = 1.0
        if targets.of(self.schema).one_class:
            sharp = sharpness(left_out, np.asarray(part.y), weights)
        new = eqx.tree_at(
            lambda m: (m.offset, m.log_sharpness, m.done),
            self.holding(fitted),
            (*(jnp.asarray(a, jnp.float32) for a in (offset, np.log(sharp))), jnp.ones((), bool)),
        )
        seen = jax.tree.map(lambda a: jnp.asarray(a[keeping.spread(len(x), MOST)]), part)
        loss, metrics = _judged(new, seen, key)
        alone = supervised_loss(self.schema, jnp.asarray(left_out * sharp, jnp.float32), jnp.asarray(part.y))
        return new, {"loss": loss, **metrics, **{f"left_out_{k}": v for k, v in _named(*alone).items()}}

    @property
    def converged(self) -> bool:
        """After the closed form."""
        return bool(self.done)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """The Gram matrix by target, its spectrum, and what each ridge would have given."""
        del key
        return pictures.all_of(self.config, data)


@final
class KernelRidgeModel(RidgeModel):
    """`f(x) = sum_i a_i k(x_i, x) + offset` of training examples x_i that are kept, or of landmarks among them."""

    points: Float[Array, "points features"]
    coefficients: Wide
    """Of double precision: where the ridge is small they are large and cancel."""
    offset: Float[Array, " outputs"]
    log_sharpness: Scalar
    done: Bool[Array, ""]
    config: KernelRidgeConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: KernelRidgeConfig, schema: Schema, key: Key) -> None:
        del key  # the data decide everything
        points = config.points if config.approximate == "none" else config.features
        room, outputs = keeping.room(points), output_count(schema)
        self.points = jnp.zeros((room, schema.dimensions))
        self.coefficients = Wide.of(np.zeros((room, outputs)), jnp.float32)
        self.offset = jnp.zeros(outputs)
        self.log_sharpness = jnp.zeros(())
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    @property
    def learnt_from(self) -> int | None:
        """As many as are kept; with landmarks, all."""
        return len(self.points) if self.config.approximate == "none" else None

    def centred(self, x: Array) -> Float[Array, "batch outputs"]:
        """The weighted sum of kernels."""
        found: Array = doubled(_of_kernels, self, x, dtype=jnp.promote_types(self.points.dtype, jnp.float32))
        return found

    def holding(self, fitted: FittedRidge | FittedFeatures) -> "KernelRidgeModel":
        """With points and their coefficients."""
        if isinstance(fitted, FittedRidge):
            points, coefficients = fitted.points, fitted.coefficients
        else:
            # Features are L^-1 k(Z, x), so that weights w of them are coefficients L'^-1 w of landmarks Z.
            landmarks = fitted.features
            assert isinstance(landmarks, Nystrom)
            points = np.asarray(landmarks.landmarks)
            coefficients = solve_triangular(
                np.asarray(landmarks.lower), fitted.weights, lower=True, trans="T"
            )
        room = len(self.points)
        return eqx.tree_at(
            lambda m: (m.points, m.coefficients),
            self,
            (
                jnp.asarray(keeping.filled(points, room), jnp.float32),
                Wide.of(keeping.filled(coefficients, room), jnp.float32),
            ),
        )


@final
class FourierRidgeModel(RidgeModel):
    """`f(x) = w · psi(x) + offset` with random Fourier features psi."""

    features: RandomFourierFeatures
    weights: Wide
    offset: Float[Array, " outputs"]
    log_sharpness: Scalar
    done: Bool[Array, ""]
    config: KernelRidgeConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: KernelRidgeConfig, schema: Schema, key: Key) -> None:
        outputs, count = output_count(schema), _count(config)
        self.features = RandomFourierFeatures(
            kernel_from(config), schema.dimensions, frequencies=count // 2, key=key
        )
        self.weights = Wide.of(np.zeros((count, outputs)), jnp.float32)
        self.offset = jnp.zeros(outputs)
        self.log_sharpness = jnp.zeros(())
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    @property
    def learnt_from(self) -> int | None:
        """All."""
        return None

    def centred(self, x: Array) -> Float[Array, "batch outputs"]:
        """The weighted sum of features."""
        return feature_maps.weighted(self.features, self.weights, x.reshape(len(x), -1))

    def holding(self, fitted: FittedRidge | FittedFeatures) -> "FourierRidgeModel":
        """With the features that were drawn, and their weights."""
        assert isinstance(fitted, FittedFeatures)
        assert isinstance(fitted.features, RandomFourierFeatures)
        drawn = jnp.asarray(fitted.features.w, jnp.float32)
        return eqx.tree_at(
            lambda m: (m.features.w, m.weights), self, (drawn, Wide.of(fitted.weights, jnp.float32))
        )


def build(config: KernelRidgeConfig, schema: Schema, key: Key) -> KernelRidgeModel | FourierRidgeModel:
    """The model of kernels with examples or landmarks, or that of random features."""
    if config.approximate == "rff":
        return FourierRidgeModel(config, schema, key)
    return KernelRidgeModel(config, schema, key)


def _count(config: KernelRidgeConfig) -> int:
    return USUAL if config.features == "auto" else config.features


def _machine(config: KernelRidgeConfig, key: Key) -> KernelRidge:
    ridge = 1.0 if config.ridge == "auto" else config.ridge
    with jax.enable_x64(True):  # scales as precise as those of predictions
        kernel = kernel_from(config)
    return KernelRidge(kernel, ridge, approximate=config.approximate, count=_count(config), key=key)


def _of_kernels(model: KernelRidgeModel, x: Array) -> Float[Array, "batch outputs"]:
    """By a model in double precision."""
    tile = kernel_from(model.config).tile(x.reshape(len(x), -1), model.points)
    return jnp.matmul(tile, model.coefficients.double(), precision="highest")


def _named(loss: Scalar, metrics: Metrics) -> dict[str, Array]:
    return {"loss": loss, **metrics}


@eqx.filter_jit
def _judged(model: RidgeModel, examples: Batch, key: Key) -> Any:
    return model.loss(examples, key)


__all__ = ["FourierRidgeModel", "KernelRidgeModel", "RidgeModel", "build"]
