"""Generators and discriminators sized for some data: dense layers for vectors, convolutions for images."""

import abc
from typing import Annotated, Any, Literal

import jax
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Key
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.adversarial.networks import DecisionContext, Discriminator, Generator
from chainrule.models.adversarial.stages import Stage, UpsampledConv
from chainrule.models.protocol import Config
from chainrule.networks import units
from chainrule.networks.conditions import ConditionEncoder, condition_encoder
from chainrule.networks.conv_autoencoder import resolutions
from chainrule.nn import Conv, Linear, NoNorm, SpectralNorm, activations, norm

LEAKY = "leaky-relu-0.2"
_COARSEST = 7
"""Images are halved until their longer side has no more pixels than this."""
CONDITION_WIDTH = 32
"""Length of the vector that stands for a condition beside noise."""
_WIDEST = 8
"""How many times the channels of the finest resolution the coarser ones have, at most."""

Spectral = Literal["none", "layer", "operator"]
CriticNorm = Literal["none", "layer"]


class GameConfig(Config, abc.ABC):
    """Noise, how often the players move, and conditions."""

    latent: int = Field(
        16,
        ge=1,
        le=4096,
        description="entries of the noise; if not given: those of a vector, up to 16, and images: 64; gan: 16 "
        "for images up to 16 pixels a side",
    )
    base: Literal["normal", "uniform"] = Field(
        "normal", description="distribution of the noise, of variance 1"
    )
    n_critic: int = Field(1, ge=1, le=100, description="moves of the discriminator for each of the generator")
    conditional: bool = Field(
        False, description="learn examples given their class, labels or values, so that they can be asked for"
    )
    inject: Literal["concatenate", "norm"] = Field(
        "norm",
        description="conditional: the generator gets the condition beside the noise, or as scale and shift of its "
        "(normalised) features",
    )
    judging: Literal["projection", "concatenate"] = Field(
        "projection",
        description="conditional: the discriminator multiplies the condition with its features, or has it beside them",
    )
    class_shares: tuple[Annotated[float, Field(ge=0)], ...] | None = Field(
        None,
        description="conditional: how often each class is drawn when none is named; none: as in the training data",
    )

    def shares(self, classes: int) -> np.ndarray:
        """How often each of so many classes is drawn when none is named."""
        given = np.ones(classes) if self.class_shares is None else np.array(self.class_shares, np.float64)
        if len(given) != classes or not given.sum() > 0:
            raise ArgumentError(
                f"class_shares={','.join(f'{share:g}' for share in given)}: the data have {classes} classes",
                remedy="give one number for each, or leave class_shares out",
            )
        return given / given.sum()


class NetworksConfig(GameConfig, abc.ABC):
    """The same, and both networks."""

    width: int = Field(64, ge=1, le=8192, description="vectors: units of each hidden layer of both networks")
    depth: int = Field(3, ge=1, le=32, description="vectors: hidden layers of both networks")
    channels: int = Field(
        32,
        ge=1,
        le=1024,
        description="images: channels at their full size, twice as many at each half, up to eight times",
    )
    normalization: Literal["none", "batch", "layer"] = Field(
        "none", description="normalisation between the layers of the generator"
    )


def counted_classes(config: GameConfig, data: Data) -> dict[str, Any]:
    """The share of each class among the training examples, where examples are learned given theirs."""
    if config.class_shares is not None or not (config.conditional and targets.of(data.schema).one_class):
        return {}
    counts = np.bincount(np.asarray(data.train.y), minlength=len(data.schema.classes))
    return {"class_shares": tuple(float(f"{share:.6g}") for share in counts / counts.sum())}


def check_conditions(config: GameConfig, schema: Schema) -> None:
    """Raise where examples are to be learned given what the data do not have, or settings of conditions say nothing."""
    if not config.conditional:
        for name in ("inject", "judging"):
            usual = type(config).model_fields[name].default
            if getattr(config, name) != usual:
                raise ArgumentError(
                    f"{name}={getattr(config, name)}: without conditions nothing reads it",
                    remedy=f"add conditional=true, or leave {name} as it is: {name}={usual}",
                )
        return
    if not targets.of(schema).given:
        raise CapabilityError(
            "conditional=true: these data have no classes or values to learn examples by",
            remedy="leave conditional out, or say where they are: data.target=COLUMN for a table, one folder for each "
            "class of images",
        )
    if targets.of(schema).has_tokens or len(schema.target_shape) > 1:
        raise CapabilityError(
            f"conditional=true: this game takes classes, labels and values, not targets of shape {schema.target_shape}",
            remedy="leave conditional out, or train a model that takes them: chainrule train diffusion",
        )
    if config.class_shares is not None:
        config.shares(len(schema.classes))


def encoder_of(config: GameConfig, schema: Schema, width: int, key: Key) -> ConditionEncoder | None:
    """What turns conditions into vectors of this width; nothing without conditions."""
    make = condition_encoder(schema, config.conditional)
    return None if make is None else make(width, key)


def modulation_of(features: int, key: Key) -> Linear:
    """From the vector of a condition to a scale and a shift of every feature, both near nothing at first."""
    return Linear(CONDITION_WIDTH, 2 * features, key=key, gain=0.1)


def make_generator(config: NetworksConfig, schema: Schema, key: Key) -> Generator:
    """A fresh generator of examples of this schema."""
    own, for_condition = jax.random.split(key)
    condition = encoder_of(config, schema, CONDITION_WIDTH, for_condition)
    beside = condition is not None and config.inject == "concatenate"
    size = config.latent
    inputs = size + (CONDITION_WIDTH if beside else 0)
    modulated = condition is not None and not beside
    make = _image_stages if kinds.of(schema).spatial else _dense_stages
    return Generator(
        make(config, schema, inputs, modulated, own),
        seed_shape=(inputs,),
        bounded=units.unit(schema),
        condition=condition,
        beside=beside,
    )


def _stage(
    config: NetworksConfig, layer: Any, features: int, modulated: bool, key: Key, **more: Any
) -> Stage:
    """A stage of a generator with ReLU."""
    modulation = modulation_of(features, key) if modulated else None
    return Stage(layer, norm(config.normalization, features), "relu", modulation=modulation, **more)


def _dense_stages(
    config: NetworksConfig, schema: Schema, inputs: int, modulated: bool, key: Key
) -> tuple[Stage, ...]:
    keys = jax.random.split(key, 2 * config.depth + 1)
    gain, width = activations["relu"].gain, config.width
    stages = [
        _stage(
            config,
            Linear(inputs if i == 0 else width, width, key=keys[2 * i], gain=gain),
            width,
            modulated,
            keys[2 * i + 1],
        )
        for i in range(config.depth)
    ]
    last = Linear(width, schema.dimensions, key=keys[-1])
    return (*stages, Stage(last, NoNorm(schema.dimensions), "identity", folded=schema.shape))


def stage_count(schema: Schema) -> int:
    """How many resolutions images are seen at.

    >>> [stage_count(Schema("image", (side, side, 1), levels=256)) for side in (8, 28, 32, 64)]
    [2, 3, 4, 5]
    """
    side, count = max(schema.shape[:2]), 1
    while side > _COARSEST:
        side, count = -(-side // 2), count + 1
    return count


def _widths(config: NetworksConfig, schema: Schema) -> list[int]:
    """Channels at every resolution, finest first."""
    return [config.channels * min(2**i, _WIDEST) for i in range(stage_count(schema))]


def _image_stages(
    config: NetworksConfig, schema: Schema, inputs: int, modulated: bool, key: Key
) -> tuple[Stage, ...]:
    widths = _widths(config, schema)[::-1]
    sizes = resolutions(schema.shape, len(widths))[::-1]
    keys = jax.random.split(key, 2 * len(widths) + 1)
    gain = activations["relu"].gain
    start = (*sizes[0], widths[0])
    entry = Linear(inputs, int(np.prod(start)), key=keys[0], gain=gain)
    stages = [_stage(config, entry, widths[0], modulated, keys[1], folded=start)]
    for i in range(1, len(widths)):
        layer = UpsampledConv(widths[i - 1], widths[i], sizes[i], gain=gain, key=keys[2 * i])
        stages.append(_stage(config, layer, widths[i], modulated, keys[2 * i + 1]))
    channels = schema.shape[2]
    last = Conv(2, widths[-1], channels, 3, padding=1, key=keys[-1])
    return (*stages, Stage(last, NoNorm(channels), "identity"))


def make_discriminator(
    config: NetworksConfig,
    schema: Schema,
    key: Key,
    *,
    spectral: Spectral = "none",
    spectral_scale: bool = False,
    normalization: CriticNorm = "none",
    pack: int = 1,
    minibatch_std: bool = False,
) -> Discriminator:
    """A fresh discriminator of examples of this schema; nothing in it but `minibatch_std` lets examples see others."""
    own, for_condition, for_norms = jax.random.split(key, 3)
    projected = config.judging == "projection"
    if config.conditional and pack > 1:
        raise ArgumentError(
            f"pack={pack}: examples of one decision would have conditions of their own",
            remedy="leave pack out, or use conditional=false",
        )
    image = kinds.of(schema).spatial
    layers, sizes = (_convolutions if image else _dense)(config, schema, pack, minibatch_std, own)
    features = layers[-1].weight.shape[-1]
    condition = encoder_of(config, schema, features if projected else CONDITION_WIDTH, for_condition)
    flat = features * (int(np.prod(sizes[-1])) if image else 1)
    beside = CONDITION_WIDTH if condition is not None and not projected else 0
    head = Linear(flat + beside, 1, key=jax.random.fold_in(own, 1))
    keys = jax.random.split(for_norms, len(layers) + 1)

    def bounded(layer: Any, number: int, size: tuple[int, int] | None) -> Any:
        if spectral == "none":
            return layer
        size = size if spectral == "operator" else None
        return SpectralNorm(layer, key=keys[number], sizes=size, scaled=spectral_scale)

    wrapped = [bounded(layer, i, sizes[i] if image else None) for i, layer in enumerate(layers)]
    widths = [layer.weight.shape[-1] for layer in layers]
    stages = tuple(
        Stage(layer, norm(normalization, width), LEAKY) for layer, width in zip(wrapped, widths, strict=True)
    )
    context = DecisionContext(condition, projected, pack, minibatch_std)
    return Discriminator(stages, bounded(head, len(layers), None), context)


def _dense(
    config: NetworksConfig, schema: Schema, pack: int, more: bool, key: Key
) -> tuple[list[Any], list[Any]]:
    keys = jax.random.split(key, config.depth)
    inputs = [schema.dimensions * pack, *[config.width] * (config.depth - 1)]
    inputs[-1] += more
    gain = activations[LEAKY].gain
    return [Linear(size, config.width, key=k, gain=gain) for size, k in zip(inputs, keys, strict=True)], []


def _convolutions(
    config: NetworksConfig, schema: Schema, pack: int, more: bool, key: Key
) -> tuple[list[Any], list[Any]]:
    """Convolutions from the finest resolution to the coarsest, and the sizes of the images that go into each.

    The last size is that of what comes out.
    """
    widths = _widths(config, schema)
    sizes = resolutions(schema.shape, len(widths))
    keys = jax.random.split(key, len(widths))
    gain = activations[LEAKY].gain
    inputs = [schema.shape[2] * pack, *widths[:-1]]
    inputs[-1] += more
    layers = [
        Conv(2, inputs[i], widths[i], 4 if i else 3, stride=2 if i else 1, key=keys[i], gain=gain)
        for i in range(len(widths))
    ]
    return layers, [sizes[0], *sizes]


__all__ = [
    "CONDITION_WIDTH",
    "LEAKY",
    "CriticNorm",
    "GameConfig",
    "NetworksConfig",
    "Spectral",
    "check_conditions",
    "counted_classes",
    "encoder_of",
    "make_discriminator",
    "make_generator",
    "modulation_of",
    "stage_count",
]
