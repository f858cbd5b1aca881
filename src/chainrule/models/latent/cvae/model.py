"""The conditional variational auto-encoder (Sohn, Lee and Yan, 2015): encoder, prior and decoder are told a condition.

What the condition tells, the code need not: codes of a class or value hold what is left, as the slant of a digit whose
number is known. A condition is left out now and then in training, so that examples can be drawn and judged without.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Images, Picture
from chainrule.core.types import Array, Key
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.latent import latent_pictures
from chainrule.models.latent.coded import Entries, Temperature
from chainrule.models.latent.networks import Given, LatentNetworks
from chainrule.models.latent.priors import GaussianPrior
from chainrule.models.latent.rate_weighted import RateConfig, RateWeighted
from chainrule.networks.condition_values import values
from chainrule.networks.conditions import ClassEncoder, class_numbers, condition_encoder

_CODES = 10
"""Codes that are shown under every class."""


@final
class CVAEConfig(RateConfig):
    """Settings of the conditional variational auto-encoder."""

    prior: Literal["learned", "standard"] = Field(
        "learned",
        description="distribution of codes given the condition: a learned Gaussian, or the standard one",
    )
    condition_dropout: float = Field(
        0.1, gt=0, lt=1, description="share of training examples whose condition is left out"
    )


@final
class CVAE(RateWeighted):
    """A variational auto-encoder of examples given their class, labels or value."""

    networks: LatentNetworks
    config: CVAEConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: CVAEConfig, schema: Schema, key: Key) -> None:
        self.config, self.schema = config, schema
        learned = config.prior == "learned"
        self.networks = LatentNetworks(config, schema, key, condition_encoder(schema), learned)

    def trained_given(self, batch: Batch, key: Key) -> Given:
        """The targets of the batch, a share of them left out."""
        assert self.networks.condition is not None
        kept = self.networks.condition.dropped(batch.y, self.config.condition_dropout, key)
        return self.networks.given(kept, len(batch.x))

    def conditions(self, condition: Any, n: int) -> Array:
        """The conditions of `n` examples: one class, vector or number for all, or one for each."""
        if isinstance(self.networks.condition, ClassEncoder):
            return class_numbers(self.schema, condition, n)
        assert self.networks.condition is not None
        return values(self.networks.condition, self.schema, condition, n)

    def transfer(self, x: Array, condition: Any, to: Any, *, key: Key | None = None) -> Array:
        """Examples as they would be under another condition, all that their codes say being kept."""
        z = self.encode(x, condition=self.conditions(condition, len(x)), key=key)
        return self.decode(z, condition=self.conditions(to, len(x)))

    def sample(  # type: ignore[override]  # the options of this model, by name
        self,
        key: Key,
        n: int,
        *,
        condition: Annotated[
            Any,
            Field(description="class, labels or value, one for all or one for each; none: of all the data"),
        ] = None,
        temperature: Temperature = 1.0,
        entries: Entries = "auto",
    ) -> Array:
        """`n` examples from codes drawn from the prior given the condition."""
        y = None if condition is None else self.conditions(condition, n)
        return self.sampled(key, n, y, {"temperature": temperature, "entries": entries})

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Those of every variational auto-encoder, and the same codes under every class."""
        found = latent_pictures.pictures(self, data, key, circles=self.around_zero)
        pixels = kinds.of(self.schema).shows_pixels(self.schema)
        if not pixels or not isinstance(self.networks.condition, ClassEncoder):
            return found
        return [*found, _same_codes(self, key)]


def _same_codes(model: CVAE, key: Key) -> Images:
    count = len(model.schema.classes)
    noise = jax.random.normal(key, (1, _CODES, model.config.latent))
    z = jnp.broadcast_to(noise, (count, _CODES, model.config.latent)).reshape(-1, model.config.latent)
    y = jnp.repeat(jnp.arange(count), _CODES)
    images = np.asarray(_under_classes(model, z, y))
    labels = [name for name in model.schema.classes for _ in range(_CODES)]
    return Images(
        "same-codes",
        "The same codes under every class",
        np.clip(images, 0, 1),
        labels,
        columns=_CODES,
        caption="Every column is one draw of noise, every row the class it is decoded as: what stays the same along a "
        "column is what codes are used for.",
        aligned=True,
    )


@eqx.filter_jit
def _under_classes(model: CVAE, noise: Array, y: Array) -> Array:
    prior = model.networks.given(y, len(noise)).prior
    z = (
        prior.gaussian.draw(noise)
        if isinstance(prior, GaussianPrior)
        else noise / jnp.linalg.norm(noise, axis=-1, keepdims=True)
    )
    return model.decode(z, condition=y)


__all__ = ["CVAE", "CVAEConfig"]
