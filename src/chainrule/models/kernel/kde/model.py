"""The kernel density estimate as a model: exact likelihood, samples, and a bump on every kept example."""

from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels.bumps import BUMPS
from chainrule.kernels.density import DensityEstimate
from chainrule.models.kernel import keeping
from chainrule.models.kernel.kde import pictures
from chainrule.models.kernel.kde.settings import KDEConfig, unit_of
from chainrule.models.kernel.settings import rows
from chainrule.models.protocol import CanSample, HasDensity, HasOwnTraining, HasPictures, Metrics
from chainrule.networks import units


@final
class KDE(HasOwnTraining, HasDensity, CanSample, HasPictures):
    """`p(x) = mean_i bump(x - x_i)` over the examples that are kept."""

    points: Float[Array, "points features"]
    log_widths: Float[Array, " features"]
    """Logarithms of the widths, or of the diagonal of their factor."""
    mixed: Float[Array, "features features"] | None
    """The factor, of which what lies below the diagonal counts; none unless shape=covariance."""
    done: Bool[Array, ""]
    config: KDEConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: KDEConfig, schema: Schema, key: Key) -> None:
        del key  # the data decide everything
        entries = schema.dimensions
        self.points = jnp.zeros((keeping.room(config.points), entries))
        self.log_widths = jnp.zeros(entries)
        self.mixed = jnp.zeros((entries, entries)) if config.shape == "covariance" else None
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    @property
    def distribution(self) -> DensityEstimate:
        """Of flattened examples."""
        widths = jnp.exp(self.log_widths)
        if self.mixed is not None:
            widths = jnp.tril(self.mixed, -1) + jnp.diag(widths)
        return DensityEstimate(self.points, widths, BUMPS[self.config.bump])

    def log_prob(self, x: Array) -> Float[Array, " batch"]:
        """Exact log-density of each example."""
        return self.distribution.compiled_log_prob(x.reshape(len(x), -1))

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean negative log-density of an example, in nats; levels with noise between them."""
        return -self.log_prob(units.dequantized(self.schema, batch.x, key)).mean(), {}

    def iterate(self, examples: Batch, key: Key) -> tuple["KDE", Metrics]:
        """Examples are kept, and bumps get their widths."""
        part = keeping.part(examples, key, len(self.points))
        width = 1.0 if self.config.width == "auto" else self.config.width
        unit = width * unit_of(self.config.shape, self.schema, rows(examples.x))
        widths = np.diag(unit) if unit.ndim == 2 else unit
        new = eqx.tree_at(
            lambda m: (m.points, m.log_widths, m.done),
            self,
            (*(jnp.asarray(a, jnp.float32) for a in (rows(part.x), np.log(widths))), jnp.ones((), bool)),
        )
        if self.mixed is not None:
            new = eqx.tree_at(lambda m: m.mixed, new, jnp.asarray(unit, jnp.float32))
        loss, _ = _judged(new, jax.tree.map(jnp.asarray, part), key)
        return new, {"loss": loss}

    @property
    def converged(self) -> bool:
        """At once."""
        return bool(self.done)

    def sample(  # type: ignore[override]  # the options of this model, by name
        self, key: Key, n: int
    ) -> Array:
        """New examples: kept ones, each moved by a draw from its bump."""
        return self.distribution.sample(key, n).reshape(n, *self.schema.shape)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """The density in the plane, likelihoods by width, samples beside the examples they come from."""
        return pictures.all_of(self, data, key)


@eqx.filter_jit
def _judged(model: KDE, examples: Batch, key: Key) -> Any:
    return model.loss(examples, key)


__all__ = ["KDE"]
