"""Gaussian classes as a model: discriminant analysis and Gaussian naive Bayes, in closed form.

Data with levels are modelled as they are scored, with uniform noise over the distance between two levels. That noise
adds its variance to every entry, which the closed form takes into account exactly.
"""

import abc
import warnings
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from pydantic import Field

from chainrule.core.errors import ChainruleWarning
from chainrule.core.formatting import short_number
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Key
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol import Config, HasDensity, Metrics
from chainrule.models.supervised.gaussian_classifier import pictures
from chainrule.models.supervised.generative import GenerativeClassifier, Prior, check_classes, log_prior
from chainrule.networks import units
from chainrule.probability import Diagonal, Full, MultivariateNormal
from chainrule.probability.classification import ClassCovariances, GaussianClasses, fit_gaussian_classes


@final
class GaussianClassifierConfig(Config):
    """Settings of the Gaussian classifier."""

    covariance: ClassCovariances = Field(
        "shared",
        description="of the examples of a class: one for all classes (linear discriminant analysis), one for each "
        "(quadratic), or independent entries (diagonal: Gaussian naive Bayes)",
    )
    shrinkage: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] = Field(
        "auto",
        description="share of a multiple of the identity in every covariance; auto: that of Ledoit and Wolf, for "
        "covariance=diagonal none",
    )
    regularisation: float = Field(
        1e-6,
        gt=0,
        le=1,
        description="least variance in any direction, as a share of the mean variance of an entry; a smaller one is "
        "raised to it",
    )
    prior: Prior = "empirical"


class Spread(eqx.Module):
    """The covariances of the classes, as numbers that may be anything."""

    @abc.abstractmethod
    def log_prob(self, means: Array, x: Float[Array, "batch features"]) -> Float[Array, "batch classes"]:
        """Log-density of each row under every class."""

    @abc.abstractmethod
    def of(self, means: Float[Array, "batch features"], classes: Int[Array, " batch"]) -> MultivariateNormal:
        """The distributions of examples of these classes around these means."""

    @abc.abstractmethod
    def fitted(self, covariances: np.ndarray) -> Self:
        """With these covariances."""


@final
class FullSpread(Spread):
    """Lower triangular factors with logarithms on the diagonal; one, or one for each class."""

    factors: Float[Array, "sets features features"]

    def lower(self) -> Float[Array, "sets features features"]:
        """The factors."""
        scale = jnp.exp(jnp.diagonal(self.factors, axis1=-2, axis2=-1))
        eye = jnp.broadcast_to(jnp.eye(scale.shape[-1], dtype=scale.dtype), self.factors.shape)
        return jnp.tril(self.factors, -1) + scale[..., None] * eye

    def log_prob(self, means: Array, x: Float[Array, "batch features"]) -> Float[Array, "batch classes"]:
        """Rows are whitened with all means where these share a covariance, and otherwise class by class."""
        lower = self.lower()
        middle = means.mean(axis=0, keepdims=True)  # so that differences keep their digits

        def whitened(factor: Array, rows: Array) -> Float[Array, "features rows"]:
            return jax.scipy.linalg.solve_triangular(factor, rows.T, lower=True)

        if len(lower) == 1:
            seen, known = (whitened(lower[0], rows - middle) for rows in (x, means))
            squares = jnp.square(seen[:, :, None] - known[:, None, :]).sum(axis=0)
        else:
            # One class after another: the factors are large, and so is what each makes of the rows.
            squares = jax.lax.map(
                lambda one: jnp.square(whitened(one[0], x - one[1][None])).sum(axis=0), (lower, means)
            ).T
        log_det = jnp.diagonal(self.factors, axis1=-2, axis2=-1).sum(axis=-1)
        constant = 0.5 * x.shape[1] * jnp.log(2 * jnp.pi) + log_det
        return -0.5 * squares - jnp.broadcast_to(constant, squares.shape)

    def of(self, means: Float[Array, "batch features"], classes: Int[Array, " batch"]) -> MultivariateNormal:
        """With full covariances."""
        lower = self.lower()
        return MultivariateNormal(means, Full(lower[classes if len(lower) > 1 else jnp.zeros_like(classes)]))

    def fitted(self, covariances: np.ndarray) -> "FullSpread":
        """Their factors."""
        factors = np.linalg.cholesky(covariances)
        diagonal = np.arange(factors.shape[1])
        factors[:, diagonal, diagonal] = np.log(factors[:, diagonal, diagonal])
        return FullSpread(jnp.asarray(factors, self.factors.dtype))


@final
class DiagonalSpread(Spread):
    """Logarithms of the standard deviations."""

    log_scales: Float[Array, "classes features"]

    def log_prob(self, means: Array, x: Float[Array, "batch features"]) -> Float[Array, "batch classes"]:
        """The sum over entries."""
        normal = MultivariateNormal(means, Diagonal(jnp.exp(2 * self.log_scales)))
        return normal.log_prob(x[:, None])

    def of(self, means: Float[Array, "batch features"], classes: Int[Array, " batch"]) -> MultivariateNormal:
        """With variances alone."""
        return MultivariateNormal(means, Diagonal(jnp.exp(2 * self.log_scales[classes])))

    def fitted(self, covariances: np.ndarray) -> "DiagonalSpread":
        """From variances."""
        return DiagonalSpread(jnp.asarray(0.5 * np.log(covariances), self.log_scales.dtype))


def _spread(kind: ClassCovariances, classes: int, features: int) -> Spread:
    if kind == "diagonal":
        return DiagonalSpread(jnp.zeros((classes, features)))
    return FullSpread(jnp.zeros((1 if kind == "shared" else classes, features, features)))


@final
class GaussianClassifier(GenerativeClassifier, HasDensity):
    """`p(x | class) = N(x; m_class, C_class)`."""

    log_prior: Float[Array, " classes"]
    means: Float[Array, "classes features"]
    spread: Spread
    raised: Int[Array, " sets"]
    """Directions of each covariance whose variance was raised."""
    done: Bool[Array, ""]
    config: GaussianClassifierConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: GaussianClassifierConfig, schema: Schema, key: Key) -> None:
        del key  # the data decide everything
        classes, features = len(schema.classes), schema.dimensions
        self.log_prior = jnp.zeros(classes)
        self.means = jnp.zeros((classes, features))
        self.spread = _spread(config.covariance, classes, features)
        self.raised = jnp.zeros(1 if config.covariance == "shared" else classes, jnp.int32)
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def iterate(self, examples: Batch, key: Key) -> tuple["GaussianClassifier", Metrics]:
        """The closed form."""
        found = fitted(self.config, self.schema, examples)
        prior = log_prior(self.config.prior, found.counts)
        new = eqx.tree_at(
            lambda m: (m.log_prior, m.means, m.spread, m.raised, m.done),
            self,
            (
                jnp.asarray(prior, self.log_prior.dtype),
                jnp.asarray(found.means, self.means.dtype),
                self.spread.fitted(found.covariances),
                jnp.asarray(found.raised, jnp.int32),
                jnp.ones((), bool),
            ),
        )
        loss, metrics = _judged(new, jax.tree.map(jnp.asarray, examples), key)
        return new, {"loss": loss, **metrics, "raised": jnp.asarray(float(found.raised.sum()))}

    @property
    def converged(self) -> bool:
        """After the closed form."""
        return bool(self.done)

    def class_log_prob(self, x: Array) -> Float[Array, "batch classes"]:
        """`log N(x; m_class, C_class)`."""
        return self.spread.log_prob(self.means, x.reshape(len(x), -1))

    def draw(self, key: Key, classes: Int[Array, " batch"]) -> Array:
        """From the Gaussian of each class."""
        drawn = self.spread.of(self.means[classes], classes).sample(key)
        return drawn.reshape(len(classes), *self.schema.shape)

    def noised(self, x: Array, key: Key) -> Array:
        """Levels with noise between them."""
        return units.dequantized(self.schema, x, key)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Classes in a table, their means, and the directions that tell them apart."""
        del key
        return pictures.all_of(self, data)


@eqx.filter_jit
def _judged(model: GaussianClassifier, examples: Batch, key: Key) -> Any:
    return model.loss(examples, key)


def fitted(config: GaussianClassifierConfig, schema: Schema, examples: Batch) -> GaussianClasses:
    """The closed form, in double precision."""
    return fit_gaussian_classes(
        np.asarray(examples.x, np.float64).reshape(len(examples.x), -1),
        np.asarray(examples.y),
        len(schema.classes),
        covariance=config.covariance,
        shrinkage=config.shrinkage,
        regularisation=config.regularisation,
        added=units.dequantization_variance(schema),
        weights=None if examples.weights is None else np.asarray(examples.weights),
    )


def examined(config: GaussianClassifierConfig, data: Data) -> Mapping[str, Any]:
    """Nothing is chosen; what cannot be learnt is refused, and covariances that had to be mended are named."""
    check_classes(config.prior, data)
    found = fitted(config, data.schema, data.train.batch(np.arange(len(data.train))))
    if found.raised.any():
        warnings.warn(_mended(config, data, found), ChainruleWarning, stacklevel=2)
    return {}


def _mended(config: GaussianClassifierConfig, data: Data, found: GaussianClasses) -> str:
    features = found.means.shape[1]
    worst = int(found.raised.argmax())
    name = "all classes" if config.covariance == "shared" else f"class {data.schema.classes[worst]!r}"
    others = int((found.raised > 0).sum()) - 1
    beside = f" (and {others} more)" if others else ""
    what = "variances" if config.covariance == "diagonal" else "covariance"
    return (
        f"gaussian-classifier: the {what} of {name}{beside} is singular or nearly so: in {int(found.raised[worst])} of "
        f"{features} directions training examples vary less than {short_number(np.sqrt(found.floor))} (model units); "
        "there that standard deviation is taken. A larger shrinkage or regularisation makes densities there less sharp"
    )


__all__ = ["GaussianClassifier", "GaussianClassifierConfig", "examined", "fitted"]
