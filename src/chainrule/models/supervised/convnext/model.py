"""ConvNeXt: a wide depthwise convolution moves information across pixels, dense layers across channels."""

from typing import Annotated, Literal, Self, final

import equinox as eqx
import jax
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.data.schema import Schema
from chainrule.models.protocol import Config
from chainrule.models.supervised.supervised_model import Supervised, output_count
from chainrule.networks.image_towers import (
    PixelsSetting,
    SizeSetting,
    Stages,
    StochasticDepthSetting,
    colours,
    depth_rates,
    entered,
)
from chainrule.nn import (
    Conv,
    LayerNorm,
    LayerScale,
    Linear,
    StochasticDepth,
    activation,
    global_average_pool,
)

EPS = 1e-6
"""What the published networks add to variances."""
KERNEL = 7
DEVIATION = 0.02
"""Of initial weights between the stages, where the sum over blocks begins: larger ones learn worse from few images."""


VARIANTS = {
    "mini": Stages((2, 2, 2), (32, 64, 128)),
    "tiny": Stages((3, 3, 9, 3), (96, 192, 384, 768)),
    "small": Stages((3, 3, 27, 3), (96, 192, 384, 768)),
    "base": Stages((3, 3, 27, 3), (128, 256, 512, 1024)),
    "large": Stages((3, 3, 27, 3), (192, 384, 768, 1536)),
}


@final
class ConvNeXtConfig(Config):
    """Settings of ConvNeXt."""

    variant: Literal["mini", "tiny", "small", "base", "large"] = Field(
        "mini", description="depths and widths: as published from tiny on; mini suits thousands of images"
    )
    depths: tuple[Annotated[int, Field(ge=1, le=1000)], ...] | None = Field(
        None, min_length=1, description="blocks of each stage; default: the variant's"
    )
    widths: tuple[Annotated[int, Field(ge=1)], ...] | None = Field(
        None, min_length=1, description="channels of each stage; default: the variant's"
    )
    stem: int | None = Field(
        None,
        ge=1,
        description="pixels a side that the first layer makes one of; default 4, 2 for images below 64, 1 below 32",
    )
    layer_scale: float = Field(
        0.1,
        gt=0,
        description="what each block's contribution is multiplied by at first; 1e-6 in the paper, for a million images",
    )
    stochastic_depth: StochasticDepthSetting = 0.0
    pixels: PixelsSetting = "none"
    size: SizeSetting = 0

    def stages(self) -> Stages:
        """Those of the variant where none are given."""
        of = VARIANTS[self.variant]
        found = Stages(self.depths or of.depths, self.widths or of.widths)
        if len(found.depths) != len(found.widths) or min(*found.depths, *found.widths) < 1:
            raise ArgumentError(
                f"convnext: depths={found.depths} and widths={found.widths} do not name the same stages",
                remedy="give both, one positive number for each stage, e.g. depths=2,2 widths=32,64",
            )
        return found


@final
class ConvNeXtBlock(eqx.Module):
    """`x + scale W₂ gelu(W₁ norm(depthwise(x)))`, four times as wide inside."""

    depthwise: Conv
    norm: LayerNorm
    widen: Linear
    narrow: Linear
    scale: LayerScale
    drop: StochasticDepth

    def __init__(self, width: int, *, layer_scale: float, stochastic_depth: float, key: Key) -> None:
        keys = jax.random.split(key, 3)
        self.depthwise = Conv(
            2,
            width,
            width,
            KERNEL,
            padding=KERNEL // 2,
            groups=width,
            key=keys[0],
        )
        self.norm = LayerNorm(width, eps=EPS)
        self.widen = Linear(width, 4 * width, key=keys[1])
        self.narrow = Linear(4 * width, width, key=keys[2])
        self.scale = LayerScale(width, layer_scale)
        self.drop = StochasticDepth(stochastic_depth)

    def __call__(
        self, x: Float[Array, "batch height width channels"], key: Key
    ) -> Float[Array, "batch height width channels"]:
        """The image, moved on."""
        wide = activation("gelu")(self.widen(self.norm(self.depthwise(x))))
        return x + self.drop(self.scale(self.narrow(wide)), key)


@final
class ConvNeXt(Supervised):
    """A stem, stages of blocks at falling resolution, the mean over the image, one affine map."""

    stem: Conv
    stem_norm: LayerNorm
    stages: tuple[tuple[ConvNeXtBlock, ...], ...]
    norms: tuple[LayerNorm, ...]
    """Before each halving of the resolution."""
    halvings: tuple[Conv, ...]
    """Between the stages."""
    norm: LayerNorm
    head: Linear
    config: ConvNeXtConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: ConvNeXtConfig, schema: Schema, key: Key) -> None:
        depths, widths = config.stages()
        side = config.size or min(schema.shape[:2])
        patch = config.stem or (4 if side >= 64 else 2 if side >= 32 else 1)
        least = patch << (len(depths) - 1)
        if side < least:
            raise ArgumentError(
                f"convnext: {len(depths)} stages need images of at least {least} pixels; these have {side}",
                remedy=f"resize them: size={least}; or use fewer stages, e.g. depths=2,2 widths=32,64, or stem=1",
            )
        for_stem, for_head, key = jax.random.split(key, 3)
        channels = colours(schema.shape, config.pixels)
        self.stem = Conv(
            2,
            channels,
            widths[0],
            patch,
            stride=patch,
            padding=0,
            initializer="normal",
            gain=DEVIATION,
            key=for_stem,
        )
        self.stem_norm = LayerNorm(widths[0], eps=EPS)
        rates = iter(depth_rates(config.stochastic_depth, sum(depths)))
        stages, norms, halvings = [], [], []
        for i, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            for_halving, *keys = jax.random.split(jax.random.fold_in(key, i), depth + 1)
            if i:
                norms.append(LayerNorm(widths[i - 1], eps=EPS))
                halvings.append(
                    Conv(
                        2,
                        widths[i - 1],
                        width,
                        2,
                        stride=2,
                        padding=0,
                        initializer="normal",
                        gain=DEVIATION,
                        key=for_halving,
                    )
                )
            stages.append(
                tuple(
                    ConvNeXtBlock(
                        width, layer_scale=config.layer_scale, stochastic_depth=next(rates), key=own
                    )
                    for own in keys
                )
            )
        self.stages, self.norms, self.halvings = tuple(stages), tuple(norms), tuple(halvings)
        self.norm = LayerNorm(widths[-1], eps=EPS)
        self.head = Linear(
            widths[-1], output_count(schema), initializer="normal", gain=DEVIATION, key=for_head
        )
        self.config = config
        self.schema = schema

    def outputs(
        self, x: Float[Array, "batch height width channels"], key: Key
    ) -> tuple[Float[Array, "batch outputs"], Self]:
        """Logits or values, and the model: it has no state."""
        x = self.stem_norm(self.stem(entered(x, self.config.pixels, self.config.size)))
        for i, stage in enumerate(self.stages):
            x = self.halvings[i - 1](self.norms[i - 1](x)) if i else x
            for j, block in enumerate(stage):
                x = block(x, jax.random.fold_in(jax.random.fold_in(key, i), j))
        return self.head(self.norm(global_average_pool(x))), self


__all__ = ["VARIANTS", "ConvNeXt", "ConvNeXtBlock", "ConvNeXtConfig"]
