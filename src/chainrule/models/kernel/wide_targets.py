"""Networks of infinite width for classes and for values: what leaving one out tells beside the coefficients."""

from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data import targets
from chainrule.data.schema import Schema
from chainrule.kernels.positive import factored
from chainrule.kernels.precision import in_double
from chainrule.kernels.regression import FittedRidge
from chainrule.kernels.wide import Wide, WideTriangle, doubled
from chainrule.models.kernel import keeping
from chainrule.models.kernel.calibration import sharpness
from chainrule.models.kernel.wide import WideConfig, WideNetwork, from_kernels, one_hot, own_kernel
from chainrule.models.protocol import HasPredictiveDistribution, output_count
from chainrule.probability import Normal

_NOTHING = 1e30
"""Deviation of kept examples that are none, where fewer were found than there is room for: nothing is known of them."""


@final
class WideClassifier(WideNetwork):
    """Regression on centred one-hot classes; outputs over a temperature are logits."""

    points: Float[Array, "points features"]
    coefficients: Wide
    center: Float[Array, " features"]
    offset: Float[Array, " classes"]
    ridge: Scalar
    log_sharpness: Scalar
    """Of one over the temperature."""
    done: Bool[Array, ""]
    config: WideConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: WideConfig, schema: Schema, key: Key) -> None:
        del key  # the data decide everything
        classes = len(schema.classes)
        self.points = jnp.zeros((keeping.room(config.points), schema.dimensions))
        self.coefficients = Wide.of(np.zeros((keeping.room(config.points), classes)), jnp.float32)
        self.center, self.offset = jnp.zeros(schema.dimensions), jnp.zeros(classes)
        self.ridge, self.log_sharpness, self.done = jnp.zeros(()), jnp.zeros(()), jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def logits_of(self, outputs: Float[Array, "batch classes"]) -> Float[Array, "batch classes"]:
        """Outputs over the temperature."""
        return jnp.exp(self.log_sharpness) * (outputs + self.offset[None])

    def values_of(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Centred one-hot rows."""
        classes = len(self.schema.classes)
        return one_hot(y, classes), np.zeros(classes)

    def learnt(
        self, fitted: FittedRidge, matrix: np.ndarray, values: np.ndarray, weights: np.ndarray
    ) -> Self:
        """With the temperature at which predictions of examples left out have the least cross-entropy."""
        del matrix
        found = sharpness(values - fitted.residuals, values.argmax(axis=1), weights)
        return eqx.tree_at(
            lambda m: m.log_sharpness, self, jnp.asarray(np.log(found), self.log_sharpness.dtype)
        )


@final
class WideRegressor(WideNetwork, HasPredictiveDistribution):
    """Regression on centred values, with the intervals of a Gaussian process that has the kernel.

    Its amplitude is that at which values left out lie one standard deviation from their predictions on average.
    """

    points: Float[Array, "points features"]
    coefficients: Wide
    center: Float[Array, " features"]
    offset: Float[Array, " outputs"]
    ridge: Scalar
    lower: WideTriangle
    """Factor of kernel and ridge: what is known of the kept examples."""
    noise: Scalar
    """The ridge: variance of noise, in units of the amplitude."""
    amplitude: Float[Array, " outputs"]
    done: Bool[Array, ""]
    config: WideConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: WideConfig, schema: Schema, key: Key) -> None:
        del key
        count, outputs = keeping.room(config.points), output_count(schema)
        self.points = jnp.zeros((count, schema.dimensions))
        self.coefficients = Wide.of(np.zeros((count, outputs)), jnp.float32)
        self.center, self.offset = jnp.zeros(schema.dimensions), jnp.zeros(outputs)
        self.lower = WideTriangle(jnp.eye(count), jnp.zeros(count))
        self.ridge, self.noise, self.amplitude = jnp.zeros(()), jnp.zeros(()), jnp.ones(outputs)
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def logits_of(self, outputs: Float[Array, "batch outputs"]) -> Float[Array, "batch outputs"]:
        """Values in model units, flattened."""
        return outputs + self.offset[None]

    def predictive(self, x: Array) -> Normal:
        """A Gaussian around every value, noise included."""
        left = doubled(_unknown, self, x, dtype=self.precision)
        # Before training nothing is known of the noise, and a scale of zero is none.
        variance = self.amplitude[None] * jnp.maximum(left + self.noise, 1e-12)[:, None]
        shape = (len(x), *self.schema.target_shape)
        return Normal(self.logits(x).reshape(shape), jnp.sqrt(variance).reshape(shape))

    def values_of(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values less their mean."""
        flat = np.asarray(y, np.float64).reshape(len(y), -1)
        return flat - flat.mean(axis=0), flat.mean(axis=0)

    def learnt(
        self, fitted: FittedRidge, matrix: np.ndarray, values: np.ndarray, weights: np.ndarray
    ) -> Self:
        """With the factor of the kernel, and the amplitude."""
        del values
        lower, white = _factors(matrix + np.diag(fitted.ridge / weights))
        # The variance of a value left out is one over the diagonal of the inverse.
        inverse = np.square(white).sum(axis=0)
        amplitude = np.average(np.square(fitted.residuals) * inverse[:, None], axis=0, weights=weights)
        count = len(self.points)
        full = np.diag(np.full(count, _NOTHING))
        full[: len(lower), : len(lower)] = lower
        return eqx.tree_at(
            lambda m: (m.lower, m.noise, m.amplitude),
            self,
            (
                WideTriangle.of(full, self.points.dtype),
                jnp.asarray(fitted.ridge + fitted.jitter, jnp.float32),
                jnp.asarray(np.maximum(amplitude, 1e-12), jnp.float32),
            ),
        )


def build(config: WideConfig, schema: Schema, key: Key) -> WideClassifier | WideRegressor:
    """The model for the target of the data."""
    classes = targets.of(schema).one_class
    return WideClassifier(config, schema, key) if classes else WideRegressor(config, schema, key)


@in_double
def _factors(matrix: Any) -> Any:
    """The lower factor, and its inverse."""
    found = factored(matrix, "K + ridge I")
    return found.lower, found.whiten(jnp.eye(len(matrix), dtype=matrix.dtype))


def _unknown(model: WideRegressor, x: Array) -> Float[Array, " batch"]:
    """The variance of the function that kept examples leave, by a model in double precision."""
    lower = model.lower.double()

    def known(kernels: Array) -> Array:
        white = jax.scipy.linalg.solve_triangular(lower, kernels.T, lower=True)
        return jnp.square(white).sum(axis=0)

    left = own_kernel(model, x) - jnp.where(model.done, from_kernels(model, x, known), 0.0)
    return jnp.maximum(left, 0.0)


__all__ = ["WideClassifier", "WideRegressor", "build"]
