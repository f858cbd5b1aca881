"""Networks of infinite width for classes and for values: what leaving one out tells beside the coefficients."""

from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.schema import Schema
from chainrule.kernels.positive import factored
from chainrule.kernels.precision import in_double
from chainrule.kernels.regression import FittedRidge
from chainrule.models.kernel.wide import WideNetwork, kept_points, mapped, one_hot, own_kernel, sharpness
from chainrule.models.protocol import HasPredictiveDistribution, output_count
from chainrule.probability import Normal


class WideClassifier(WideNetwork):
    """Regression on centred one-hot classes; outputs over a temperature are logits."""

    points: Float[Array, "points features"]
    coefficients: Float[Array, "points classes"]
    center: Float[Array, " features"]
    offset: Float[Array, " classes"]
    log_sharpness: Scalar
    """Of one over the temperature."""
    done: Bool[Array, ""]
    config: Any = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: Any, schema: Schema, key: Key) -> None:
        del key  # the data decide everything
        classes = len(schema.classes)
        self.points = jnp.zeros((kept_points(config), schema.dimensions))
        self.coefficients = jnp.zeros((kept_points(config), classes))
        self.center, self.offset = jnp.zeros(schema.dimensions), jnp.zeros(classes)
        self.log_sharpness, self.done = jnp.zeros(()), jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def logits(self, x: Array) -> Float[Array, "batch classes"]:
        """Outputs over the temperature."""
        return jnp.exp(self.log_sharpness) * (self.outputs(x) + self.offset[None])

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


class WideRegressor(WideNetwork, HasPredictiveDistribution):
    """Regression on centred values, with the intervals of a Gaussian process that has the kernel.

    Its amplitude is that at which values left out lie one standard deviation from their predictions on average.
    """

    points: Float[Array, "points features"]
    coefficients: Float[Array, "points outputs"]
    center: Float[Array, " features"]
    offset: Float[Array, " outputs"]
    whitener: Float[Array, "points points"]
    """Inverse of the lower factor of kernel and ridge, transposed: what is known of the kept examples."""
    noise: Scalar
    """The ridge: variance of noise, in units of the amplitude."""
    amplitude: Float[Array, " outputs"]
    done: Bool[Array, ""]
    config: Any = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: Any, schema: Schema, key: Key) -> None:
        del key
        count, outputs = kept_points(config), output_count(schema)
        self.points = jnp.zeros((count, schema.dimensions))
        self.coefficients = jnp.zeros((count, outputs))
        self.center, self.offset = jnp.zeros(schema.dimensions), jnp.zeros(outputs)
        self.whitener = jnp.zeros((count, count))
        self.noise, self.amplitude = jnp.zeros(()), jnp.ones(outputs)
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def logits(self, x: Array) -> Float[Array, "batch outputs"]:
        """Values in model units, flattened."""
        return self.outputs(x) + self.offset[None]

    def predictive(self, x: Array) -> Normal:
        """A Gaussian around every value, noise included."""
        white = mapped(self, x, lambda k, w: jnp.matmul(k, w, precision="highest"), self.whitener)
        own = own_kernel(self, x)
        left = jnp.maximum(own - jnp.square(white).sum(axis=1), 0.0)
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
        noise = fitted.ridge + fitted.jitter
        white = np.asarray(_whitener(matrix + np.diag(fitted.ridge / weights)))
        # The variance of a value left out is one over the diagonal of the inverse.
        inverse = np.square(white).sum(axis=1)
        amplitude = np.average(np.square(fitted.residuals) * inverse[:, None], axis=0, weights=weights)
        full = np.zeros(self.whitener.shape, np.float32)
        full[: len(white), : len(white)] = white
        return eqx.tree_at(
            lambda m: (m.whitener, m.noise, m.amplitude),
            self,
            (
                jnp.asarray(full),
                jnp.asarray(noise, jnp.float32),
                jnp.asarray(np.maximum(amplitude, 1e-12), jnp.float32),
            ),
        )


@in_double
def _whitener(matrix: Any) -> Array:
    found = factored(matrix, "K + ridge I")
    return found.whiten(jnp.eye(len(matrix), dtype=matrix.dtype)).T


__all__ = ["WideClassifier", "WideRegressor"]
