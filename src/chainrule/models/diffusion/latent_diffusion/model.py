"""Latent diffusion (Rombach et al., 2022): a diffusion model of the codes of a first stage, which decodes its draws.

The first stage is any model that encodes and decodes with continuous codes; it comes trained and stays as it is
(`from=RUN`), or learns beside. Its codes are shifted and scaled to unit deviation, by numbers that the model stores,
and diffused as points of a space of their own. Where the first stage draws its codes from a known density q(z|x),

    -log p(x) <= E[-log p(x|z)] + E[log q(z|x) - log p(z)],

with the bound of diffusion for the last term: the first stage's own bound with another prior.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import pydantic
from pydantic import Field

from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.diffusion import stages
from chainrule.models.diffusion.denoisers.selection import Name
from chainrule.models.diffusion.denoisers.settings import DenoiserConfig
from chainrule.models.diffusion.diffusion import Diffusion, DiffusionConfig
from chainrule.models.diffusion.latent_diffusion import code_pictures
from chainrule.models.diffusion.latent_diffusion.first_stage import (
    arrangement,
    check_first_stage,
    check_shape,
    code_shape,
    codes_of,
    drawn,
    examples_of,
    has_density,
)
from chainrule.models.diffusion.latent_diffusion.unit_codes import UnitCodes
from chainrule.models.protocol import (
    Bounded,
    CanEncode,
    HasBound,
    HasBoundParts,
    HasSampleCaption,
    Metrics,
    Model,
    OptionGroup,
    Scored,
)

_AT_ONCE = 2048
"""Codes decoded at a time."""
_USUAL = "vae"


@final
class LatentDiffusionConfig(DenoiserConfig):
    """Settings of latent diffusion."""

    body: dict[str, Any] = Field(
        default_factory=lambda: {"name": _USUAL},
        description="the first stage: body.name=vae, autoencoder, ... and its settings, e.g. body.latent=8; from=RUN "
        "takes that of the run",
    )
    frozen: bool = Field(
        False, description="the first stage stays as it is: what from=RUN chooses; otherwise both learn"
    )
    code_shape: tuple[int, ...] | None = Field(
        None,
        description="shape of a code, or of the map that it is; none: that of the first stage. from=RUN keeps to that "
        "of the run",
    )
    example_shape: tuple[int, ...] | None = Field(
        None,
        description="shape of the examples that the first stage knows; none: that of the data. from=RUN sets it",
    )
    target: Literal["v", "eps", "x0", "u"] = Field(
        "v", description="what the network predicts, as in diffusion"
    )
    noise: Literal["cosine", "linear", "vp-linear", "logsnr-linear", "rectified"] = Field(
        "cosine", description="noise schedule; with target=u, rectified is rectified flow"
    )

    @pydantic.field_validator("body", mode="before")
    @classmethod
    def _named(cls, body: Any) -> Any:
        """Settings of a first stage without a name are those of the usual one."""
        return stages.named(body, _USUAL)

    def network_for(self, schema: Schema) -> Name:
        """As set."""
        del schema
        return self.denoiser

    def diffusion_of(self, codes: Schema) -> DiffusionConfig:
        """The settings of the diffusion of codes: maps have a U-Net, padded where sides are odd, by default."""
        shared = {name: getattr(self, name) for name in DenoiserConfig.model_fields}
        if len(codes.shape) > 1:
            shared |= {"pad": True, "denoiser": "unet" if self.denoiser == "auto" else self.denoiser}
        return DiffusionConfig(**shared, target=self.target, noise=self.noise)


class LatentModel(stages.TwoStages, HasSampleCaption):
    """A first stage, the moments of its codes, and a diffusion model of them."""

    body: eqx.AbstractVar[Model]
    """The first stage."""
    unit: eqx.AbstractVar[UnitCodes]
    diffusion: eqx.AbstractVar[Diffusion]
    config: eqx.AbstractVar[LatentDiffusionConfig]
    schema: eqx.AbstractVar[Schema]

    def __init__(self, config: LatentDiffusionConfig, schema: Schema, key: Key, body: Model) -> None:
        known_as = config.body["name"]
        stages.check_examples(config.example_shape, schema)
        if not config.frozen:
            stages.check_learning(body, known_as, "latent-diffusion")
        self.config, self.schema, self.body = config, schema, body
        check_shape(arrangement(body, schema), config.code_shape)
        size = math.prod(self.code_shape)
        cells = self.code_map
        self.unit = UnitCodes(jnp.zeros(size), jnp.ones(size), None if cells is None else cells[-1])
        codes = codes_schema(schema, cells or (size,))
        self.diffusion = Diffusion(config.diffusion_of(codes), codes, key)

    @property
    def code_shape(self) -> tuple[int, ...]:
        """The shape of a code of the first stage."""
        return code_shape(self.body, self.schema)

    @property
    def code_map(self) -> tuple[int, int, int] | None:
        """As the entries of a code of the first stage are arranged."""
        assert isinstance(self.body, CanEncode)
        return self.body.code_map

    def arranged(self, codes: Float[Array, "batch size"]) -> Float[Array, "batch ..."]:
        """Codes of unit deviation as diffusion sees them: vectors, or maps."""
        return codes.reshape(len(codes), *self.diffusion.schema.shape)

    # ------------------------------------------------------------------ training

    def state(self) -> Sequence[Tree]:
        """The moments of the codes; of the first stage everything where it is frozen, otherwise its own state."""
        return [self.unit, *stages.stage_state(self.body, frozen=self.config.frozen)]

    def loss_unit(self) -> str:
        """That of no likelihood: errors in codes, and the loss of a first stage that learns too."""
        return "weighted squared error" if self.config.frozen else "first stage per entry + squared error"

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The loss of diffusion on codes that do not learn from it, and that of a first stage that is not frozen."""
        for_codes, for_noise, for_body = jax.random.split(key, 3)
        still = jax.lax.stop_gradient(eqx.nn.inference_mode(self.body))
        codes = codes_of(still, stages.floating(batch.x), for_codes)
        seen = Batch(self.arranged(self.unit.scaled(codes)), batch.y)
        loss, metrics = self.diffusion.loss(seen, for_noise)
        if self.config.frozen:
            return loss, metrics, self
        first, body = stages.stage_loss(self.body, batch, for_body)
        moved = eqx.tree_at(lambda model: (model.body, model.unit), self, (body, self.unit.moved(codes)))
        return loss + first, {**metrics, "first_stage": first, "latent": loss}, moved

    # ------------------------------------------------------------------ samples and codes

    @classmethod
    def sample_options(cls) -> Sequence[OptionGroup]:
        """Those of diffusion that make sense of codes: not known parts, views and other examples, which are pixels."""
        kept = ("walk", "guidance")
        return [g for g in Diffusion.sample_options() if g.name in kept or g.name.startswith("sampler ")]

    def sample(self, key: Key, n: int, **options: Any) -> Array:
        """`n` new examples from codes that diffusion draws; the options are those of its walk."""
        if options.get("classifier") is not None:
            raise CapabilityError(
                "classifier: it judges examples, and these are drawn as codes",
                remedy="lead by the network itself: guidance=2",
            )
        codes = self.draw_codes(key, n, **options)
        parts = [codes[first : first + _AT_ONCE] for first in range(0, n, _AT_ONCE)]
        return jnp.concatenate([_decoded(self, part) for part in parts])

    def draw_codes(self, key: Key, n: int, **options: Any) -> Float[Array, "n size"]:
        """`n` new codes of unit deviation, each as one vector; the options are those of diffusion."""
        return self.diffusion.sample(key, n, **options).reshape(n, -1)

    def sample_caption(self, **options: Any) -> str:
        """As diffusion says it, of codes."""
        return f"codes by {self.diffusion.sample_caption(**options)}"

    @property
    def conditional(self) -> bool:
        """Whether codes are drawn by a condition."""
        return self.diffusion.conditional

    @property
    def needs_condition(self) -> bool:
        """As diffusion of the codes does."""
        return self.diffusion.needs_condition

    def encode(self, x: Array) -> Float[Array, "batch size"]:
        """The code of each example, of unit deviation."""
        return self.unit.scaled(codes_of(eqx.nn.inference_mode(self.body), stages.floating(x)))

    def decode(self, z: Array) -> Array:
        """The example of each such code."""
        return examples_of(eqx.nn.inference_mode(self.body), self.unit.unscaled(z), self.code_shape)

    # ------------------------------------------------------------------ judged and shown

    def code_scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """The bound of diffusion on codes alone."""
        for_codes, for_bound = jax.random.split(key)
        codes = codes_of(eqx.nn.inference_mode(self.body), stages.floating(batch.x), for_codes)
        seen = Batch(self.arranged(self.unit.scaled(codes)), batch.y if self.conditional else None)
        nats = -self.diffusion.bound(seen, for_bound).elbo
        numbers = f"{self.diffusion.schema.dimensions} numbers"
        return {"latent_bound": Scored(nats, f"nats of a code of {numbers}, no likelihood of the data")}

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Held-out examples, what the first stage makes of them, new ones; codes, and errors at each noise level."""
        return code_pictures.pictures(self, data, key)


@final
class LatentDiffusion(LatentModel):
    """Diffusion of codes that have no density given an example: it draws, and bounds nothing but codes."""

    body: Model
    unit: UnitCodes
    diffusion: Diffusion
    config: LatentDiffusionConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)


@final
class BoundedLatentDiffusion(LatentModel, HasBoundParts):
    """Diffusion of codes that are drawn from a known density: a better prior of a variational auto-encoder."""

    body: Model
    unit: UnitCodes
    diffusion: Diffusion
    config: LatentDiffusionConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    @property
    def likelihood_note(self) -> str:
        """As the first stage judges examples."""
        assert isinstance(self.body, HasBound)
        return self.body.likelihood_note

    def elbo(self, x: Array, key: Key) -> Float[Array, " batch"]:
        """The lower bound of log p(x), by codes drawn without a condition."""
        return self.bound(Batch(x), key).elbo

    def bound(self, batch: Batch, key: Key) -> Bounded:
        """The bound of each example; `latent` is what its code costs under diffusion, the rest its reconstruction."""
        for_codes, for_bound = jax.random.split(key)
        found = drawn(eqx.nn.inference_mode(self.body), stages.floating(batch.x), for_codes)
        assert found is not None
        codes = self.arranged(self.unit.scaled(found.code.reshape(len(batch.x), -1)))
        prior = self.diffusion.bound(Batch(codes, batch.y if self.conditional else None), for_bound)

        def cost(log_prior: Array) -> Array:
            return found.log_posterior - (log_prior - self.unit.log_volume)

        given = {name: found.log_likelihood - cost(value) for name, value in prior.given.items()}
        latent = cost(prior.elbo)
        return Bounded(found.log_likelihood - latent, {"latent": latent}, given)


@eqx.filter_jit
def _decoded(model: LatentModel, codes: Array) -> Array:
    return model.decode(codes)


def codes_schema(schema: Schema, shape: tuple[int, ...]) -> Schema:
    """Of codes as points of a space of their own, or maps of them, beside the same targets as the examples.

    >>> codes_schema(Schema("image", (8, 8, 1), levels=17), (4,))
    Schema(kind='points', shape=(4,), ...levels=0...)
    """
    return dataclasses.replace(schema, kind="points", shape=shape, levels=0, columns=())


def build(
    config: LatentDiffusionConfig, schema: Schema, key: Key, body: Model
) -> LatentDiffusion | BoundedLatentDiffusion:
    """A fresh model around a first stage, with a bound where that draws its codes from a density."""
    check_first_stage(body, config.body["name"])
    made: type[Any] = BoundedLatentDiffusion if has_density(body, schema) else LatentDiffusion
    model: LatentDiffusion | BoundedLatentDiffusion = made(config, schema, key, body)
    return model


def adopts(source: Model, known_as: str) -> dict[str, Any]:
    """The settings of a diffusion of the codes of a trained model, or of the first stage of another diffusion."""
    stage, settings = stages.first_stage_of(source), stages.settings_of(source, known_as)
    check_first_stage(stage, settings["name"])
    schema: Schema = stage.schema  # type: ignore[attr-defined]  # every registered model has one
    shapes = {"code_shape": arrangement(stage, schema), "example_shape": schema.shape}
    return {"body": settings, "frozen": True, **shapes}


__all__ = [
    "BoundedLatentDiffusion",
    "LatentDiffusion",
    "LatentDiffusionConfig",
    "LatentModel",
    "adopts",
    "build",
    "codes_schema",
]
