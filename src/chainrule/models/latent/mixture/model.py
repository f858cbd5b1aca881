"""A mixture of Gaussians as a model: EM step by step, exact likelihood, samples, responsibilities as codes.

Data with levels are modelled as they are scored, with uniform noise over the distance between two levels, the same in
every iteration.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.latent.mixture import pictures
from chainrule.models.protocol import (
    Alarm,
    CanEncode,
    CanSample,
    Config,
    HasDensity,
    HasDiagnostics,
    HasOwnTraining,
    HasPictures,
    Metrics,
)
from chainrule.networks import units
from chainrule.probability import Full, Mixture, MultivariateNormal
from chainrule.probability.mixtures import Covariances, MixtureParameters, em_step, start_mixture
from chainrule.probability.mixtures.fitting import collapsed


@final
class MixtureConfig(Config):
    """Settings of the mixture."""

    components: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="Gaussians; auto: as many as give validation examples the highest likelihood"
    )
    covariance: Covariances = Field(
        "full",
        description="of a component: any, the same for all (tied), independent entries (diag), or one variance "
        "(spherical)",
    )
    restarts: int = Field(10, ge=1, le=1000, description="starts by k-means++, of which the best is taken")
    regularisation: float = Field(
        1e-6, ge=0, description="added to every variance, so that no component shrinks to a point"
    )
    tolerance: float = Field(
        1e-6, gt=0, description="gain of log-likelihood below which iterations end, nats an example"
    )


@final
class GaussianMixtureModel(HasOwnTraining, HasDensity, CanSample, CanEncode, HasPictures, HasDiagnostics):
    """`p(x) = Σ_k w_k N(x; m_k, C_k)`."""

    logits: Float[Array, " components"]
    means: Float[Array, "components features"]
    factors: Float[Array, "components features features"]
    """Lower triangular factors of the covariances, with logarithms on the diagonal: any numbers make a mixture."""
    done: Bool[Array, ""]
    begun: Bool[Array, ""]
    config: MixtureConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: MixtureConfig, schema: Schema, key: Key) -> None:
        count = 2 if config.components == "auto" else config.components
        entries = schema.dimensions
        self.logits = jnp.zeros(count)
        self.means = jax.random.normal(key, (count, entries))
        self.factors = jnp.zeros((count, entries, entries))
        self.done = self.begun = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    @property
    def distribution(self) -> Mixture:
        """Of flattened examples."""
        normal = MultivariateNormal(self.means, Full(_lower(self.factors)))
        return Mixture(jax.nn.softmax(self.logits), normal, normalize=True)

    def loss_unit(self) -> str:
        """That of a log-likelihood, or of a bound of one."""
        return "nats per example"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean negative log-density of an example, in nats; levels with noise between them."""
        return -self.log_prob(units.dequantized(self.schema, batch.x, key)).mean(), {}

    def iterate(self, examples: Batch, key: Key) -> tuple["GaussianMixtureModel", Metrics]:
        """Two steps of EM; the first iteration looks for a start before them."""
        rows = dequantised(self.schema, np.asarray(examples.x))
        config = self.config
        parameters = self._parameters()
        if not bool(self.begun):
            seed = int(jax.random.randint(key, (), 0, np.iinfo(np.int32).max))
            parameters = start_mixture(
                rows,
                len(self.logits),
                covariance=config.covariance,
                restarts=config.restarts,
                regularisation=config.regularisation,
                seed=seed,
            )
        between, before = em_step(parameters, rows, config.covariance, config.regularisation)
        new, after = em_step(between, rows, config.covariance, config.regularisation)
        factors = np.linalg.cholesky(new.covariances)
        diagonal = np.arange(factors.shape[1])
        factors[:, diagonal, diagonal] = np.log(factors[:, diagonal, diagonal])
        arrays = (np.log(new.weights), new.means, factors)
        model = eqx.tree_at(
            lambda m: (m.logits, m.means, m.factors, m.done, m.begun),
            self,
            (
                *(jnp.asarray(a, jnp.float32) for a in arrays),
                jnp.asarray(after - before < config.tolerance),
                jnp.ones((), bool),
            ),
        )
        shrunk = len(collapsed(new, config.regularisation))
        return model, {"loss": jnp.asarray(-after), "collapsed": jnp.asarray(float(shrunk))}

    def _parameters(self) -> MixtureParameters:
        factors = np.asarray(_lower(self.factors), np.float64)
        weights = np.asarray(jax.nn.softmax(self.logits), np.float64)
        return MixtureParameters(
            weights / weights.sum(), np.asarray(self.means, np.float64), factors @ factors.transpose(0, 2, 1)
        )

    @property
    def converged(self) -> bool:
        """Whether an iteration gained next to nothing."""
        return bool(self.done)

    def log_prob(self, x: Array) -> Float[Array, " batch"]:
        """Exact log-density of each example."""
        return self.distribution.log_prob(x.reshape(len(x), -1))

    def sample(  # type: ignore[override]  # the options of this model, by name
        self,
        key: Key,
        n: int,
        *,
        component: Annotated[
            int | None, Field(ge=0, description="draw from this component alone, from 0")
        ] = None,
    ) -> Array:
        """New examples."""
        chosen = self.distribution if component is None else self._component(component)
        return chosen.sample(key, (n,)).reshape(n, *self.schema.shape)

    def _component(self, number: int) -> MultivariateNormal:
        if not 0 <= number < len(self.logits):
            raise ArgumentError(
                f"component={number}: there are {len(self.logits)}",
                remedy=f"use a number from 0 to {len(self.logits) - 1}",
            )
        return MultivariateNormal(self.means[number], Full(_lower(self.factors[number])))

    def encode(self, x: Array) -> Float[Array, "batch components"]:
        """Responsibilities: the probability of each component given each example."""
        return self.distribution.responsibilities(x.reshape(len(x), -1))

    def alarms(self, history: Mapping[str, np.ndarray]) -> Sequence[Alarm]:
        """That components have shrunk to where only the regularisation holds them open."""
        counts = history.get("collapsed", np.zeros(0))
        seen = np.flatnonzero(np.isfinite(counts))
        if not len(seen) or not counts[seen[-1]]:
            return []
        step = int(history["step"][seen[-1]])
        return [
            Alarm(
                "collapsed components",
                step,
                f"{int(counts[seen[-1]])} of {len(self.logits)} components collapsed: in some direction only "
                f"regularisation={self.config.regularisation:g} keeps their variance above zero, and the likelihood is "
                "one of its making; use fewer components, covariance=diag, or a larger regularisation",
            )
        ]

    def curves(self, history: Mapping[str, np.ndarray]) -> Sequence[Picture]:
        """None beside the loss."""
        del history
        return []

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Components where the data are a plane, their means where they are images, weights and clusters."""
        del key
        return pictures.all_of(self, data)


def _lower(factors: Float[Array, "*batch d d"]) -> Float[Array, "*batch d d"]:
    """Triangular factors from what is stored of them."""
    diagonal = jnp.exp(jnp.diagonal(factors, axis1=-2, axis2=-1))
    return jnp.tril(factors, -1) + diagonal[..., None] * jnp.broadcast_to(
        jnp.eye(factors.shape[-1]), factors.shape
    )


def dequantised(schema: Schema, x: np.ndarray) -> Float[np.ndarray, "rows features"]:
    """Flattened examples in double precision, levels with noise between them."""
    rows = x.reshape(len(x), -1).astype(np.float64)
    if not schema.levels:
        return rows
    return rows + (np.random.default_rng(0).random(rows.shape) - 0.5) / (schema.levels - 1)


__all__ = ["GaussianMixtureModel", "MixtureConfig", "dequantised"]
