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
from chainrule.kernels.infinite import Kernels
from chainrule.kernels.infinite.state import KernelState
from chainrule.kernels.positive import factored
from chainrule.kernels.precision import in_double
from chainrule.kernels.wide import Wide, WideTriangle, doubled
from chainrule.models.kernel import keeping
from chainrule.models.kernel.calibration import sharpness
from chainrule.models.kernel.wide import WideConfig, WideNetwork, from_kernels, one_hot, own_kernel
from chainrule.models.kernel.wide_training import WideTraining, applied
from chainrule.models.protocol import HasPredictiveDistribution, output_count
from chainrule.probability import Normal

_NOTHING = 1e30
"""Deviation of kept examples that are none, where fewer were found than there is room for: nothing is known of them."""
_QUIETEST = 1e-6
"""The least noise after a time, in units of the variance of the values."""


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

    def learnt(self, found: WideTraining, kernels: Kernels, values: np.ndarray, weights: np.ndarray) -> Self:
        """With the temperature at which predictions of examples left out have the least cross-entropy."""
        del kernels
        best = sharpness(found.left_out, values[found.held].argmax(axis=1), weights[found.held])
        return eqx.tree_at(
            lambda m: m.log_sharpness, self, jnp.asarray(np.log(best), self.log_sharpness.dtype)
        )


class WideValues(WideNetwork, HasPredictiveDistribution):
    """Regression on centred values, flattened."""

    def logits_of(self, outputs: Float[Array, "batch outputs"]) -> Float[Array, "batch outputs"]:
        """Values in model units, flattened."""
        return outputs + self.offset[None]

    def values_of(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values less their mean."""
        flat = np.asarray(y, np.float64).reshape(len(y), -1)
        return flat - flat.mean(axis=0), flat.mean(axis=0)

    def around(self, x: Array, variance: Float[Array, "batch outputs"]) -> Normal:
        """Gaussians of these variances around the predictions."""
        shape = (len(x), *self.schema.target_shape)
        return Normal(self.logits(x).reshape(shape), jnp.sqrt(variance).reshape(shape))


@final
class WideRegressor(WideValues):
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

    def predictive(self, x: Array) -> Normal:
        """A Gaussian around every value, noise included."""
        left = doubled(_unknown, self, x, dtype=self.precision)
        # Before training nothing is known of the noise, and a scale of zero is none.
        return self.around(x, self.amplitude[None] * jnp.maximum(left + self.noise, 1e-12)[:, None])

    def learnt(self, found: WideTraining, kernels: Kernels, values: np.ndarray, weights: np.ndarray) -> Self:
        """With the factor of the kernel, and the amplitude."""
        lower, white = _factors(self.matrix_of(kernels) + np.diag(found.ridge / weights))
        # The variance of a value left out is one over the diagonal of the inverse.
        inverse = np.square(white).sum(axis=0)
        missed = np.square(values - found.left_out)
        amplitude = np.average(missed * inverse[:, None], axis=0, weights=weights)
        count = len(self.points)
        full = np.diag(np.full(count, _NOTHING))
        full[: len(lower), : len(lower)] = lower
        return eqx.tree_at(
            lambda m: (m.lower, m.noise, m.amplitude),
            self,
            (
                WideTriangle.of(full, self.points.dtype),
                jnp.asarray(found.ridge + found.jitter, jnp.float32),
                jnp.asarray(np.maximum(amplitude, 1e-12), jnp.float32),
            ),
        )


@final
class DescentRegressor(WideValues):
    """Networks that gradient descent has trained for a time: their mean, and how far they are apart.

    The noise is what squared errors of examples left out are larger by than networks differ there.
    """

    points: Float[Array, "points features"]
    coefficients: Wide
    center: Float[Array, " features"]
    offset: Float[Array, " outputs"]
    ridge: Scalar
    solved: WideTriangle
    """`Theta^-1 (I - exp(-t Theta))`, its lower half: what makes coefficients of targets."""
    covariance: WideTriangle
    """That of the outputs at kept examples before training, its lower half."""
    noise: Float[Array, " outputs"]
    done: Bool[Array, ""]
    config: WideConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: WideConfig, schema: Schema, key: Key) -> None:
        del key
        count, outputs = keeping.room(config.points), output_count(schema)
        self.points = jnp.zeros((count, schema.dimensions))
        self.coefficients = Wide.of(np.zeros((count, outputs)), jnp.float32)
        self.center, self.offset = jnp.zeros(schema.dimensions), jnp.zeros(outputs)
        self.solved = self.covariance = WideTriangle(jnp.zeros((count, count)), jnp.zeros(count))
        self.ridge, self.noise, self.done = jnp.zeros(()), jnp.ones(outputs), jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def predictive(self, x: Array) -> Normal:
        """A Gaussian around every value: variance over initial weights, and the noise."""
        apart = doubled(_apart, self, x, dtype=self.precision)
        return self.around(x, apart[:, None] + self.noise[None])

    def learnt(self, found: WideTraining, kernels: Kernels, values: np.ndarray, weights: np.ndarray) -> Self:
        """With what variances are made of."""
        assert found.ensemble is not None  # training was stopped
        count = len(self.points)
        solved, covariance = np.zeros((2, count, count))
        kept = len(values)
        solved[:kept, :kept] = applied(found.ensemble, np.eye(kept))
        covariance[:kept, :kept] = np.asarray(kernels.nngp)
        missed = np.square(values[found.held] - found.left_out) - found.variance[:, None]
        least = _QUIETEST * np.maximum(values.var(axis=0), 1e-6)
        noise = np.maximum(np.average(missed, axis=0, weights=weights[found.held]), least)
        return eqx.tree_at(
            lambda m: (m.solved, m.covariance, m.noise),
            self,
            (
                WideTriangle.of(solved, self.points.dtype),
                WideTriangle.of(covariance, self.points.dtype),
                jnp.asarray(noise, jnp.float32),
            ),
        )


def build(config: WideConfig, schema: Schema, key: Key) -> WideClassifier | WideRegressor | DescentRegressor:
    """The model for the target of the data."""
    if targets.of(schema).one_class:
        return WideClassifier(config, schema, key)
    found = WideRegressor if config.time is None else DescentRegressor
    return found(config, schema, key)


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


def _apart(model: DescentRegressor, x: Array) -> Float[Array, " batch"]:
    """The variance of networks from different weights, by a model in double precision: `K_xx + A K A' - 2 A K_x'`."""
    solved, covariance = (_whole(half.double()) for half in (model.solved, model.covariance))

    def both(state: KernelState) -> Array:
        return jnp.concatenate([model.chosen(state), state.nngp])

    def learnt(kernels: Array) -> Array:
        trains, before = jnp.split(kernels, 2)
        moved = trains @ solved
        return (moved * (moved @ covariance - 2 * before)).sum(axis=1)

    own = own_kernel(model, x, lambda state: state.nngp)
    return jnp.maximum(own + from_kernels(model, x, learnt, both), 0.0)


def _whole(lower: Array) -> Array:
    """A symmetric matrix by its lower half."""
    return lower + jnp.tril(lower, -1).T


__all__ = ["DescentRegressor", "WideClassifier", "WideRegressor", "WideValues", "build"]
