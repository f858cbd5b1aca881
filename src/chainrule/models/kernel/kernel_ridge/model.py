"""Kernel ridge regression as a model: values, or classes with probabilities calibrated on predictions left out."""

from collections.abc import Sequence
from typing import Any, final

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
from chainrule.kernels.regression import FittedRidge, KernelRidge
from chainrule.kernels.wide import Wide, doubled
from chainrule.models.kernel import keeping
from chainrule.models.kernel.calibration import sharpness
from chainrule.models.kernel.kernel_ridge import pictures
from chainrule.models.kernel.kernel_ridge.settings import KernelRidgeConfig, kernel_from, regressed
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


@final
class KernelRidgeModel(HasOwnTraining, HasLogits, HasPictures):
    """`f(x) = sum_i a_i k(x_i, x) + offset`; of classes, the softmax of a multiple of f."""

    points: Float[Array, "points features"]
    coefficients: Wide
    """Of double precision: where the ridge is small they are large and cancel."""
    offset: Float[Array, " outputs"]
    log_sharpness: Scalar
    """What values of classes are multiplied by before the softmax: one over a temperature."""
    done: Bool[Array, ""]
    config: KernelRidgeConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: KernelRidgeConfig, schema: Schema, key: Key) -> None:
        del key  # the data decide everything
        room, outputs = keeping.room(config.points), output_count(schema)
        self.points = jnp.zeros((room, schema.dimensions))
        self.coefficients = Wide.of(np.zeros((room, outputs)), jnp.float32)
        self.offset = jnp.zeros(outputs)
        self.log_sharpness = jnp.zeros(())
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def values(self, x: Array) -> Float[Array, "batch outputs"]:
        """The regression: values, or one number for each class that is one where the class is sure."""
        found: Array = doubled(_values, self, x, dtype=jnp.promote_types(self.points.dtype, jnp.float32))
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

    def iterate(self, examples: Batch, key: Key) -> tuple["KernelRidgeModel", Metrics]:
        """The closed form, in double precision, and for classes the temperature."""
        part = keeping.part(examples, key, len(self.points))
        x, y = rows(part.x), regressed(self.schema, part.y)
        weights = np.ones(len(x)) if part.weights is None else np.asarray(part.weights, np.float64)
        offset = np.average(y, axis=0, weights=weights)
        ridge = 1.0 if self.config.ridge == "auto" else self.config.ridge
        with jax.enable_x64(True):  # scales as precise as those of predictions
            kernel = kernel_from(self.config)
        fitted = KernelRidge(kernel, ridge).fit(x, y - offset, weights)
        assert isinstance(fitted, FittedRidge)  # nothing is approximated
        left_out = y - fitted.residuals
        sharp = 1.0
        if targets.of(self.schema).one_class:
            sharp = sharpness(left_out, np.asarray(part.y), weights)
        room = len(self.points)
        new = eqx.tree_at(
            lambda m: (m.points, m.coefficients, m.offset, m.log_sharpness, m.done),
            self,
            (
                jnp.asarray(keeping.filled(x, room), jnp.float32),
                Wide.of(keeping.filled(fitted.coefficients, room), jnp.float32),
                *(jnp.asarray(a, jnp.float32) for a in (offset, np.log(sharp))),
                jnp.ones((), bool),
            ),
        )
        loss, metrics = _judged(new, jax.tree.map(jnp.asarray, part), key)
        alone = supervised_loss(self.schema, jnp.asarray(left_out * sharp, jnp.float32), jnp.asarray(part.y))
        return new, {"loss": loss, **metrics, **{f"left_out_{k}": v for k, v in _named(*alone).items()}}

    @property
    def converged(self) -> bool:
        """After the closed form."""
        return bool(self.done)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """The Gram matrix by target, its spectrum, and what each ridge would have given."""
        del key
        return pictures.all_of(self, data)


def _values(model: KernelRidgeModel, x: Array) -> Float[Array, "batch outputs"]:
    """The regression less its offset, by a model in double precision."""
    tile = kernel_from(model.config).tile(x.reshape(len(x), -1), model.points)
    return jnp.matmul(tile, model.coefficients.double(), precision="highest")


def _named(loss: Scalar, metrics: Metrics) -> dict[str, Array]:
    return {"loss": loss, **metrics}


@eqx.filter_jit
def _judged(model: KernelRidgeModel, examples: Batch, key: Key) -> Any:
    return model.loss(examples, key)


__all__ = ["KernelRidgeModel"]
