"""Probabilistic PCA and factor analysis as a model: exact likelihood, samples, posterior codes.

Data with levels are modelled as they are scored, with uniform noise over the distance between two levels. That noise
adds its variance to every entry, which is all a Gaussian asks: the closed form takes it into account exactly.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool
from pydantic import Field

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol import (
    CanDecode,
    CanEncode,
    CanSample,
    Config,
    HasDensity,
    HasOwnTraining,
    HasPictures,
    HasScores,
    Metrics,
    Scored,
)
from chainrule.networks import units
from chainrule.networks.pictures import components
from chainrule.probability.linear import (
    FactorModel,
    Factors,
    expectation_maximization,
    ppca,
    principal_components,
)


@final
class PPCAConfig(Config):
    """Settings of probabilistic PCA."""

    latent: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="factors; auto: as many as give validation examples the highest likelihood"
    )
    noise: Literal["isotropic", "diagonal"] = Field(
        "isotropic",
        description="isotropic: the same in every entry (probabilistic PCA); diagonal: its own in every entry (factor "
        "analysis)",
    )
    tolerance: float = Field(
        1e-6,
        gt=0,
        description="noise=diagonal: gain of log-likelihood below which iterations end, nats an example",
    )


@final
class PPCA(HasOwnTraining, HasDensity, CanSample, CanEncode, CanDecode, HasScores, HasPictures):
    """`x = W z + mean + noise`: a Gaussian with few directions of its own."""

    mean: Float[Array, " features"]
    loadings: Float[Array, "features latent"]
    log_noise: Float[Array, " features"]
    done: Bool[Array, ""]
    begun: Bool[Array, ""]
    config: PPCAConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: PPCAConfig, schema: Schema, key: Key) -> None:
        del key  # the data decide everything
        entries = schema.dimensions
        factors = min(16, max(entries - 1, 1)) if config.latent == "auto" else config.latent
        self.mean = jnp.zeros(entries)
        self.loadings = jnp.zeros((entries, factors))
        self.log_noise = jnp.zeros(entries)
        self.done = self.begun = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    @property
    def factors(self) -> FactorModel:
        """The model of flattened examples."""
        return FactorModel(self.mean, self.loadings, jnp.exp(self.log_noise))

    def loss_unit(self) -> str:
        """That of a log-likelihood, or of a bound of one."""
        return "nats per example"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean negative log-density of an example, in nats; levels with noise between them."""
        return -self.log_prob(units.dequantized(self.schema, batch.x, key)).mean(), {}

    def iterate(self, examples: Batch, key: Key) -> tuple["PPCA", Metrics]:
        """The closed form; for factor analysis two steps of EM, the first of which begin at that form."""
        del key
        x = np.asarray(examples.x, np.float64).reshape(len(examples.x), -1)
        added, kept = units.dequantization_variance(self.schema), self.factors.loadings.shape[1]
        found = self.factors.parameters
        if not bool(self.begun):
            whole = principal_components(x)
            found = ppca(
                replace(whole, variances=whole.variances + added, total=whole.total + x.shape[1] * added),
                kept,
            )
        if self.config.noise == "isotropic":
            return self._with(found, done=True), {"loss": jnp.asarray(-_mean_log_prob(found, x, added))}
        between, before = expectation_maximization(found, x, "diagonal", added)
        new, after = expectation_maximization(between, x, "diagonal", added)
        return self._with(new, done=after - before < self.config.tolerance), {"loss": jnp.asarray(-after)}

    def _with(self, found: Factors, *, done: bool) -> "PPCA":
        return eqx.tree_at(
            lambda m: (m.mean, m.loadings, m.log_noise, m.done, m.begun),
            self,
            (
                *(jnp.asarray(a, jnp.float32) for a in (found.mean, found.loadings, np.log(found.noise))),
                jnp.asarray(done),
                jnp.ones((), bool),
            ),
        )

    @property
    def converged(self) -> bool:
        """After the closed form, or when an iteration gains next to nothing."""
        return bool(self.done)

    def log_prob(self, x: Array) -> Float[Array, " batch"]:
        """Exact log-density of each example."""
        return self.factors.distribution.log_prob(self._rows(x))

    def sample(  # type: ignore[override]  # the options of this model, by name
        self, key: Key, n: int
    ) -> Array:
        """New examples, noise included."""
        return self.factors.sample(key, n).reshape(n, *self.schema.shape)

    def encode(self, x: Array) -> Float[Array, "batch latent"]:
        """The mean of the factors given each example."""
        return self.factors.posterior(self._rows(x))[0]

    def decode(self, z: Array) -> Array:
        """The mean of an example given its factors."""
        return self.factors.decode(z).reshape(len(z), *self.schema.shape)

    def scores(self, batch: Batch, key: Key) -> dict[str, Scored]:
        """Squared error of an entry that is rebuilt from the mean of its factors."""
        del key
        lost = jnp.square(self._rows(self.decode(self.encode(batch.x))) - self._rows(batch.x))
        return {"squared_error": Scored(lost.mean(axis=1), "per entry")}

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Variances and the noise, what each factor changes, what is rebuilt, codes."""
        del key
        train = np.asarray(data.train.x, np.float64).reshape(len(data.train), -1)
        variances = principal_components(train).variances + units.dequantization_variance(self.schema)
        x = components.shown(data)
        few = x[: components.COLUMNS]
        found = self.factors.parameters
        return [
            components.scree(variances, found.loadings.shape[1], float(found.noise.mean())),
            *components.axes(self.schema, found.loadings.T),
            *components.rebuilt(self.schema, few, np.asarray(self.decode(self.encode(jnp.asarray(few))))),
            *components.codes(data, np.asarray(self.encode(jnp.asarray(x)))),
        ]

    def _rows(self, x: Array) -> Float[Array, "batch features"]:
        return x.reshape(len(x), -1)


def _mean_log_prob(found: Factors, x: np.ndarray, added: float) -> float:
    """Mean log-density of a row; the noise of dequantisation adds its share to the mean square."""
    return expectation_maximization(found, x, "isotropic", added)[1]


__all__ = ["PPCA", "PPCAConfig"]
