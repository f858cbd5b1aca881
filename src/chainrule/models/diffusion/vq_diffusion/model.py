"""Diffusion of the codes of a codebook (Gu et al., 2022): tokens are replaced one by one, and brought back.

A first stage stands for every example by a grid of words of its codebook; it comes trained and stays as it is
(`from=RUN`), or learns beside. A chain replaces the words, a network says which ones were there, and

    -log p(c) <= sum over t of KL(q(c_{t-1} | c_t, c) || p(c_{t-1} | c_t)),

the last of which is the cross-entropy of the words themselves; nothing of them is left at the noisy end, so that no
further term stands there. Where the first stage knows p(x|c), its cost and this one bound that of an example.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.diffusion import stages
from chainrule.models.diffusion.vq_diffusion import token_pictures
from chainrule.models.diffusion.vq_diffusion.chains import CHAINS, TokenChain
from chainrule.models.diffusion.vq_diffusion.network import TokenDenoiser
from chainrule.models.diffusion.vq_diffusion.settings import USUAL, VQDiffusionConfig
from chainrule.models.diffusion.vq_diffusion.walking import drawn
from chainrule.models.protocol import (
    Bounded,
    CanSample,
    HasBound,
    HasBoundParts,
    HasCodebook,
    Metrics,
    Model,
    Scored,
    read_options,
)
from chainrule.networks.condition_values import values
from chainrule.networks.conditions import ClassEncoder, class_numbers, condition_encoder

_AT_ONCE = 1024
"""Grids drawn at a time."""
_DRAWS = 8
"""Times at which one example is looked at for one estimate of the bound, spread evenly."""


class TokenModel(stages.TwoStages, CanSample, HasCodebook):
    """A first stage with a codebook, a chain over its codes, and a network that walks it back."""

    body: eqx.AbstractVar[Model]
    """The first stage."""
    network: eqx.AbstractVar[TokenDenoiser]
    config: eqx.AbstractVar[VQDiffusionConfig]
    schema: eqx.AbstractVar[Schema]

    def __init__(self, config: VQDiffusionConfig, schema: Schema, key: Key, body: Model) -> None:
        known_as = config.body["name"]
        stages.check_examples(config.example_shape, schema)
        stage = check_first_stage(body, known_as)
        if not config.frozen:
            stages.check_learning(body, known_as, "vq-diffusion")
        self.config, self.schema, self.body = config, schema, body
        self.network = TokenDenoiser(
            math.prod(stage.code_shape),
            words=len(stage.codebook),
            states=self.chain.states,
            width=config.width,
            depth=config.depth,
            read=condition_encoder(schema, config.conditional),
            key=key,
        )

    @property
    def stage(self) -> HasCodebook:
        """The first stage, which knows a codebook."""
        assert isinstance(self.body, HasCodebook)
        return eqx.nn.inference_mode(self.body)

    @property
    def chain(self) -> TokenChain:
        """The chain that replaces codes."""
        return CHAINS[self.config.kernel](len(self.stage.codebook))

    # ------------------------------------------------------------------ training

    def state(self) -> Sequence[Tree]:
        """Of the first stage everything where it is frozen, otherwise its own state."""
        return stages.stage_state(self.body, frozen=self.config.frozen)

    def loss_unit(self) -> str:
        """That of the bound of codes, and of a first stage that learns too."""
        return "bits per code" if self.config.frozen else "first stage per entry + bits per code"

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The bound at one time for each example, the cross-entropy at its weight, and that of the first stage."""
        for_times, for_codes, for_dropping, for_body = jax.random.split(key, 4)
        clean = self.tokens(batch.x)
        even = (jax.random.uniform(for_times, ()) + jnp.arange(len(clean)) / len(clean)) % 1
        encoder = self.network.embedding.condition
        y = None
        if encoder is not None:
            y = encoder.dropped(batch.y, self.config.condition_dropout, for_dropping)
        nats, entropy = self._looked_at(clean, even, y, for_codes)
        bits = 1 / (clean.shape[1] * math.log(2))
        bound, entropy = bits * nats.mean(), bits * entropy.mean()
        loss, metrics = (
            bound + self.config.cross_entropy * entropy,
            {"bound": bound, "cross_entropy": entropy},
        )
        if self.config.frozen:
            return loss, metrics, self
        first, body = stages.stage_loss(self.body, batch, for_body)
        moved = eqx.tree_at(lambda model: model.body, self, body)
        return loss + first, {**metrics, "first_stage": first}, moved

    def _looked_at(
        self, clean: Int[Array, "batch locations"], even: Float[Array, " batch"], condition: Any, key: Key
    ) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
        """The whole bound in nats, estimated at one time of each example, and the cross-entropy of its codes there."""
        total = self.config.timesteps
        number = jnp.minimum(jnp.floor(even * total), total - 1)
        t, earlier = ((number + 1) / total)[:, None], (number / total)[:, None]
        x = self.chain.noised(clean, t, key)
        logs = jax.nn.log_softmax(self.network(x, self.chain.kept(t[:, 0]), condition))
        entropy = -jnp.take_along_axis(logs, clean[..., None], axis=-1)[..., 0]
        divergence = self.chain.divergence(x, clean, self.probs(logs), t, earlier)
        return total * divergence.sum(axis=1), entropy.sum(axis=1)

    def probs(self, logs: Float[Array, "batch locations words"]) -> Float[Array, "batch locations states"]:
        """Probabilities of clean codes among all states: a mark is never clean."""
        return jnp.pad(jnp.exp(logs), ((0, 0), (0, 0), (0, self.chain.states - self.chain.words)))

    def nats_at(
        self, clean: Int[Array, "batch locations"], even: Float[Array, " batch"], condition: Any, key: Key
    ) -> Float[Array, " batch"]:
        """The bound of the codes of each example if every time of the chain did as the one given, from 0 to 1."""
        return self._looked_at(clean, even, condition, key)[0]

    def code_nats(self, clean: Int[Array, "batch locations"], key: Key, condition: Any = None) -> Array:
        """An upper bound of -log p of the codes of each example, from eight times spread evenly."""

        def one(draw: tuple[Array, Key]) -> Array:
            return self.nats_at(clean, draw[0], condition, draw[1])

        for_times, for_codes = jax.random.split(key)
        even = jnp.arange(_DRAWS)[:, None] / _DRAWS + jax.random.uniform(for_times, (1, len(clean)))
        return jax.lax.map(one, (even % 1, jax.random.split(for_codes, _DRAWS))).mean(axis=0)

    # ------------------------------------------------------------------ samples

    def sample(  # type: ignore[override]  # the options of this model, by name
        self,
        key: Key,
        n: int,
        *,
        condition: Annotated[
            Any,
            Field(description="a class by name or number, or values; one for all or each; none: all data"),
        ] = None,
        steps: Annotated[
            int | None, Field(ge=1, description="steps of the walk back; none: as many as the chain has")
        ] = None,
        guidance: Annotated[
            float, Field(ge=0, description="weight of the condition: 0 ignores it, 1 heeds it as the data do")
        ] = 1.0,
        temperature: Annotated[float, Field(gt=0, description="of the codes: below 1 likelier ones")] = 1.0,
    ) -> Array:
        """`n` examples from grids of codes that the walk back arrives at."""
        given = {"condition": condition, "steps": steps, "guidance": guidance, "temperature": temperature}
        read_options(self.sample_options(), given)
        y = None if condition is None else self.conditions(condition, n)
        if y is not None and guidance != 1 and not self.config.condition_dropout:
            raise CapabilityError(
                f"guidance={guidance:g}: the model was trained without dropping conditions",
                remedy="use guidance=1, or train with condition_dropout=0.1",
            )
        if self.needs_condition and y is None:
            raise CapabilityError(
                "the model was trained with condition_dropout=0: it knows nothing of data without a condition",
                remedy="name one (class= or y=), or train with condition_dropout=0.1",
            )
        found = []
        for number, first in enumerate(range(0, n, _AT_ONCE)):
            part = slice(first, min(first + _AT_ONCE, n))
            own = None if y is None else y[part]
            walk = (steps or self.config.timesteps, float(guidance), float(temperature))
            count = part.stop - part.start
            found.append(drawn(self, jax.random.fold_in(key, number), count, own, *map(jnp.asarray, walk)))
        return jnp.concatenate(found)

    def conditions(self, condition: Any, n: int) -> Array:
        """The conditions of `n` examples: one class or vector for all, or one for each."""
        encoder = self.network.embedding.condition
        if encoder is None:
            raise CapabilityError(
                "the model draws from all of the data together: it was trained without classes or other conditions",
                remedy="leave class= (y=) out",
            )
        if isinstance(encoder, ClassEncoder):
            return class_numbers(self.schema, condition, n)
        return values(encoder, self.schema, condition, n)

    @property
    def conditional(self) -> bool:
        """Whether it takes conditions."""
        return self.network.embedding.condition is not None

    @property
    def needs_condition(self) -> bool:
        """Whether it was never trained without its conditions."""
        return self.conditional and not self.config.condition_dropout

    # ------------------------------------------------------------------ codes: those of the first stage

    @property
    def codebook(self) -> Float[Array, "codes size"]:
        """The vectors, one row for each code."""
        return self.stage.codebook

    @property
    def code_shape(self) -> tuple[int, ...]:
        """The shape of an example's grid of codes."""
        return self.stage.code_shape

    def encode_indices(self, x: Array) -> Int[Array, "batch *grid"]:
        """The codes of each example, by their numbers."""
        return self.stage.encode_indices(x)

    def decode_indices(self, indices: Int[Array, "batch *grid"]) -> Array:
        """The example of each grid of codes."""
        return self.stage.decode_indices(indices)

    def encode(self, x: Array) -> Float[Array, "batch features"]:
        """The vectors of the codes of each example, one after another."""
        return self.stage.encode(x)

    def decode(self, z: Array) -> Array:
        """The example of such vectors."""
        return self.stage.decode(z)

    def tokens(self, x: Array) -> Int[Array, "batch locations"]:
        """The codes of each example in a row."""
        found = self.encode_indices(stages.floating(x))
        return found.reshape(len(x), -1).astype(jnp.int32)

    # ------------------------------------------------------------------ judged and shown

    def code_scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """The bound of the codes alone, in bits of each."""
        clean = self.tokens(batch.x)
        bits = 1 / (clean.shape[1] * math.log(2))
        found = {
            "bits_per_code": Scored(bits * self.code_nats(clean, key), "bound, of codes and not of the data")
        }
        if self.conditional and batch.y is not None:
            given = bits * self.code_nats(clean, key, batch.y)
            found["bits_per_code_given_y"] = Scored(given, "bound, of codes and not of the data")
        return found

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Held-out examples, what the first stage makes of them, new ones; and what each time adds to the bound."""
        return token_pictures.pictures(self, data, key)


@final
class VQDiffusion(TokenModel):
    """Diffusion of codes of a first stage that does not say how likely an example is given its codes."""

    body: Model
    network: TokenDenoiser
    config: VQDiffusionConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)


@final
class BoundedVQDiffusion(TokenModel, HasBoundParts):
    """Diffusion of codes of a first stage that does: another prior in its bound."""

    body: Model
    network: TokenDenoiser
    config: VQDiffusionConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def elbo(self, x: Array, key: Key) -> Float[Array, " batch"]:
        """`log p(x | c)`, less the bound of -log p(c), for each example and its codes, without a condition."""
        return self.bound(Batch(x), key).elbo

    def bound(self, batch: Batch, key: Key) -> Bounded:
        """The bound of each example; `codes` is what they cost, the rest its reconstruction."""
        for_stage, for_codes = jax.random.split(key)
        stage = self.stage
        assert isinstance(stage, HasBoundParts)
        own = stage.bound(Batch(batch.x), for_stage)
        # What its own prior costs is taken away: left is log p(x | c).
        likelihood = own.elbo + sum(own.parts.values(), start=jnp.zeros_like(own.elbo))
        clean = self.tokens(batch.x)
        cost, given = self.code_nats(clean, for_codes), {}
        if self.conditional and batch.y is not None:
            given["condition"] = likelihood - self.code_nats(clean, for_codes, batch.y)
        return Bounded(likelihood - cost, {"codes": cost}, given)


def check_first_stage(body: Model, known_as: str) -> HasCodebook:
    """The first stage; raise unless it has a codebook, and codes that need no condition."""
    if not isinstance(body, HasCodebook):
        raise CapabilityError(
            f"vq-diffusion replaces words of a codebook, which {known_as} does not have",
            remedy="train a first stage: chainrule train vq-vae, then chainrule train vq-diffusion from=RUN; codes "
            "that are numbers are for latent-diffusion",
        )
    stages.check_unconditional(body, known_as, USUAL)
    return body


def build(
    config: VQDiffusionConfig, schema: Schema, key: Key, body: Model
) -> VQDiffusion | BoundedVQDiffusion:
    """A fresh model around a first stage, with a bound of examples where that judges them as they are."""
    judges = isinstance(body, HasBoundParts) and isinstance(body, HasBound) and not body.likelihood_note
    made: type[Any] = BoundedVQDiffusion if judges else VQDiffusion
    model: VQDiffusion | BoundedVQDiffusion = made(config, schema, key, body)
    return model


def adopts(source: Model, known_as: str) -> dict[str, Any]:
    """The settings of a diffusion of the codes of a trained model, or of the first stage of another diffusion."""
    stage, settings = stages.first_stage_of(source), stages.settings_of(source, known_as)
    check_first_stage(stage, settings["name"])
    shape = stage.schema.shape  # type: ignore[attr-defined]  # every registered model has one
    return {"body": settings, "frozen": True, "example_shape": shape}


__all__ = [
    "BoundedVQDiffusion",
    "TokenModel",
    "VQDiffusion",
    "VQDiffusionConfig",
    "adopts",
    "build",
]
