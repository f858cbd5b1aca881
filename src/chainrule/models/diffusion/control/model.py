"""Control of a diffusion model by pictures: a branch beside a frozen network."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.diffusion import samplers
from chainrule.models.diffusion.control.adapter import Adapter
from chainrule.models.diffusion.control.branch import Branch, Combined
from chainrule.models.diffusion.control.combining import branches_of, each_of, together
from chainrule.models.diffusion.control.control_net import ControlNet
from chainrule.models.diffusion.control.control_pictures import control_pictures
from chainrule.models.diffusion.control.extractors import extractors
from chainrule.models.diffusion.denoisers.learned import NetworkDenoiser
from chainrule.models.diffusion.diffusion import Diffusion, DiffusionConfig
from chainrule.models.diffusion.steering.variations import similarity
from chainrule.models.protocol import (
    Config,
    HasControl,
    HasPictures,
    HasScores,
    HasState,
    Metrics,
    Model,
    OptionGroup,
    SampleOptions,
    Scored,
    read_options,
)
from chainrule.networks.pictures.images import controlled
from chainrule.networks.unet import UNet

_KINDS: Mapping[str, Any] = {"controlnet": ControlNet, "adapter": Adapter}
_STEPS = 20
"""Steps of the sampler where samples are judged and shown."""
_SHOWN = 8
Strength: TypeAlias = Annotated[float, Field(ge=0)]


@final
class ControlConfig(Config):
    """Settings of the branch, and of the model it stands beside."""

    kind: Literal["controlnet", "adapter"] = Field(
        "controlnet",
        description="controlnet: a trained copy of the encoder; adapter: a few convolutions, run once for a sample",
    )
    extract: str = Field(
        "edges",
        description="what the branch is shown of a picture: edges, mask, depth (a relief), or what was added to "
        "control.extractors",
    )
    blank: float = Field(
        0.5,
        ge=0,
        lt=1,
        description="share of conditions withheld, so that the picture has to say what is wanted",
    )
    frozen: bool = Field(
        False, description="the diffusion model stays as it is: what from=RUN chooses; otherwise both learn"
    )
    body: DiffusionConfig = Field(
        DiffusionConfig(denoiser="unet"), description="the diffusion model; from=RUN takes that of the run"
    )


@final
class ControlOptions(SampleOptions):
    """What samples follow."""

    control: Any = Field(
        None,
        description="the control itself, for all or for some in turn: a PNG or JPEG file, an NPZ file with an array "
        "control, or an array in [0, 1]",
    )
    like: Any = Field(
        None, description="pictures to extract it from: the same, an NPZ file with an array samples"
    )
    strength: Strength | tuple[Strength, ...] = Field(
        1.0,
        description="how much the branch adds: 0 nothing, 1 what it was trained for; with beside, one for each",
    )
    beside: Any = Field(
        None,
        description="further runs of control of the same diffusion model, to be followed as well; control, like and "
        "strength are then one for all or one for each, this run first, with commas between them",
    )


@final
class Control(HasState, HasControl, HasScores, HasPictures):
    """Makes pictures that have the edges, the mask or the relief of a given one."""

    body: Diffusion
    branch: Branch
    config: ControlConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: ControlConfig, schema: Schema, key: Key) -> None:
        for_body, for_branch = jax.random.split(key)
        self.config, self.schema = config, schema
        self.body = Diffusion(config.body, schema, for_body)
        self.branch = _KINDS[config.kind](_unet(self.body), self.condition_shape[-1], for_branch)

    @property
    def condition_shape(self) -> tuple[int, ...]:
        """Height, width and channels of the pictures that the branch is shown."""
        one = jax.ShapeDtypeStruct((1, *self.schema.shape), jnp.float32)
        return tuple(jax.eval_shape(extractors[self.config.extract], one).shape[1:])

    def extract(self, x: Float[Array, "batch ..."]) -> Float[Array, "batch ..."]:
        """What the branch is shown of some pictures in [0, 1]."""
        return extractors[self.config.extract](x)

    def seeing(self, picture: Float[Array, "some ..."], strength: float | Array) -> Diffusion:
        """The diffusion model with its branch looking at a picture, one for all examples or one for each."""
        shown = self.branch.beside(_unet(self.body), self.body.denoiser.target, picture, strength)
        return eqx.tree_at(lambda model: model.denoiser, self.body, shown)

    # ------------------------------------------------------------------ training

    def state(self) -> Sequence[Tree]:
        """The frozen network: nothing moves it."""
        return [self.body] if self.config.frozen else []

    def loss_unit(self) -> str:
        """That of the diffusion model."""
        return self.body.loss_unit()

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The loss of the diffusion model, its denoiser looking at the condition; some conditions withheld."""
        y, encoder = batch.y, self.body.denoiser.condition_encoder
        if encoder is not None:
            y = encoder.dropped(y, self.config.blank, jax.random.fold_in(key, 1))
        loss, metrics = self.seeing(self.extract(batch.x), 1.0).loss(Batch(batch.x, y), key)
        return loss, {**metrics, **self.branch.gates()}, self

    # ------------------------------------------------------------------ samples

    @classmethod
    def sample_options(cls) -> Sequence[OptionGroup]:
        """What to follow and how strongly; all other options are those of diffusion."""
        own = OptionGroup("control", "The picture to follow.", ControlOptions)
        return [own, *Diffusion.sample_options()]

    def sample(self, key: Key, n: int, **options: Any) -> Array:
        """`n` new pictures that follow `control`, or what is extracted from `like`; without either, of the model alone.

        All other options are those of diffusion.
        """
        own = read_options(self.sample_options(), options)["control"]
        assert isinstance(own, ControlOptions)
        all_of = together(self, own.beside)
        asked = each_of(len(all_of), control=own.control, like=own.like, strength=own.strength)
        wanted = self.sample_controls(n, control=own.control, like=own.like, beside=own.beside)
        model = self.body if wanted is None else self.seeing(wanted, asked[0]["strength"])
        if wanted is not None and len(all_of) > 1:
            model = self.seeing_all(all_of, n, asked)
        others = {name: value for name, value in options.items() if name not in ControlOptions.model_fields}
        if wanted is not None and others.get("condition") is None and others.get("guidance") is None:
            others["guidance"] = 0.0  # the picture says what is wanted, not a class drawn at random
        return model.sample(key, n, **others)

    def sample_controls(
        self, n: int, *, control: Any = None, like: Any = None, beside: Any = None, **options: Any
    ) -> Array | None:
        """The pictures that `n` samples are to follow, one for each; of several controls, those of the first."""
        del options
        asked = each_of(1 + len(branches_of(beside)), control=control, like=like)[0]
        found = control_pictures(
            asked["control"], asked["like"], self.schema, self.condition_shape, self.extract
        )
        return None if found is None else jnp.take(found, jnp.arange(n), axis=0, mode="wrap")

    def seeing_all(
        self, models: "Sequence[Control]", n: int, asked: Sequence[Mapping[str, Any]]
    ) -> Diffusion:
        """The diffusion model with the branches of several, this one first, each looking at a picture of its own."""
        base, target = _unet(self.body), self.body.denoiser.target
        parts = []
        for model, one in zip(models, asked, strict=True):
            picture = model.sample_controls(n, control=one["control"], like=one["like"])
            if picture is None:
                raise ArgumentError(
                    "beside: every control needs something to follow",
                    remedy="give like=PICTURE for all, or control=PICTURE,PICTURE, one for each",
                )
            parts.append(model.branch.beside(base, target, picture, one["strength"]))
        shown = Combined(base=base, parts=tuple(parts), target=target)
        return eqx.tree_at(lambda model: model.denoiser, self.body, shown)

    def followed(
        self, key: Key, control: Float[Array, "batch ..."], y: Any, strength: float | Array
    ) -> Float[Array, "batch ..."]:
        """One sample for each picture, by DDIM in 20 steps without guidance, compiled or not."""
        model = self.seeing(control, strength)
        with jax.ensure_compile_time_eval():
            levels = model.levels(_STEPS)
        noise = jax.random.normal(key, (len(control), *self.schema.shape), jnp.float32)
        condition = None if model.denoiser.condition_encoder is None else y
        drawn = samplers.walk(
            model.denoiser, noise, levels, samplers.DDIM(), key, condition=condition, clip="static"
        )
        return self.body.to_model_units(drawn.samples)

    # ------------------------------------------------------------------ judged and shown

    @property
    def extracted(self) -> str:
        """What the branch is shown of a picture."""
        return self.config.extract

    def agreement(self, x: Array, control: Array) -> Float[Array, " batch"]:
        """The correlation of what is extracted from examples with the control."""
        return similarity(self.extract(x), control)

    def scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """How well samples follow what was extracted from each example, and how well those of the model alone do."""
        control = self.extract(batch.x)

        def one(strength: Array) -> Array:  # one program for both
            return self.agreement(self.followed(key, control, batch.y, strength), control)

        followed, alone = jax.lax.map(one, jnp.array([1.0, 0.0]))
        return {
            "agreement": Scored(followed, "correlation"),
            "agreement_uncontrolled": Scored(alone, "correlation"),
        }

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Held-out pictures, what the branch is shown of them, and samples that follow it or do not."""
        part = data.val if len(data.val) else data.train
        batch = part.batch(np.arange(min(_SHOWN, len(part))))
        x = jnp.asarray(batch.x)
        control = self.extract(x)
        y = None if batch.y is None else jnp.asarray(batch.y)
        drawn = [self.followed(key, control, y, strength) for strength in (1.0, 0.0)]
        return [controlled("control", x, control, {"followed": drawn[0], "without": drawn[1]})]


def adopts(source: Model, known_as: str) -> dict[str, Any]:
    """The settings of a branch beside a trained model, which stays as it is."""
    if not isinstance(source, Diffusion):
        raise CapabilityError(
            f"control stands beside a diffusion model, not beside a {known_as}",
            remedy="begin with a run of diffusion: chainrule train diffusion denoiser=unet",
        )
    _unet(source)
    return {"body": source.config.model_dump(), "frozen": True}


def _unet(model: Diffusion) -> UNet:
    base = model.denoiser
    body = base.body if isinstance(base, NetworkDenoiser) else base
    if not isinstance(body, UNet):
        raise CapabilityError(
            f"control needs a U-Net; this model has a {type(body).__name__}",
            remedy="train the diffusion model with denoiser=unet, variance=fixed",
        )
    return body


__all__ = ["Control", "ControlConfig", "adopts"]
