"""DeepLab: segmentation by atrous convolution, in the four published versions (Chen et al., 2015 to 2018)."""

import math
import warnings
from collections.abc import Sequence
from typing import Annotated, Literal, Self, final

import equinox as eqx
import jax
from pydantic import Field

from chainrule.core.errors import ChainruleWarning
from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.protocol import CanRefine, Config, HasState, Metrics
from chainrule.models.vision.deeplab.backbone import LARGE, AtrousResNet
from chainrule.models.vision.deeplab.heads import AtrousPyramid, AtrousSum, Decoder, resized
from chainrule.models.vision.segmenting import (
    POTENTIALS,
    PixelLoss,
    PotentialsSetting,
    judged,
    probabilities,
    refined,
)
from chainrule.nn import Conv
from chainrule.nn.segmentation import Potentials
from chainrule.nn.sequential import running_statistics

Version = Literal["v1", "v2", "v3", "v3+"]
PUBLISHED: dict[str, tuple[int, ...]] = {
    "v1": (12,),
    "v2": (6, 12, 18, 24),
    "v3": (6, 12, 18),
    "v3+": (6, 12, 18),
}
"""Rates on the map of the published networks; of v3 and v3+ at output stride 16, doubled at 8."""
_SIDE = {"v1": 41, "v2": 41, "v3": 33, "v3+": 33}
"""Cells a side of that map: images of 321 pixels at stride 8, of 513 at stride 16 (at 8 there are 65)."""


@final
class DeepLabConfig(Config):
    """Settings of DeepLab."""

    version: Version = Field(
        "v3+",
        description="v1: one atrous convolution; v2: parallel ones, summed; v3: a pyramid with the mean of the image; "
        "v3+: v3 and a decoder. The first two refine predictions",
    )
    depth: Literal[8, 14, 20, 32, 44, 18, 34, 50, 101] = Field(
        14, description="layers of the residual network: 8 to 44 for small images, 18 to 101 for large"
    )
    width: int = Field(
        0, ge=0, description="channels of its first stage; 0: 16 for small images, 64 for large"
    )
    output_stride: Literal[0, 1, 2, 4, 8, 16, 32] = Field(
        0,
        description="pixels from one cell of the last map to the next; 0: 4 for small images, 8 (v1, v2) or 16 for "
        "large",
    )
    rates: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (),
        description="of the atrous convolutions of the head; (): the published ones, on small maps in proportion",
    )
    channels: int = Field(
        64, ge=1, description="of each atrous convolution of the head; published: 256 (v1, v2: 1024)"
    )
    objective: PixelLoss = "dice"
    crf: bool | None = Field(
        None, description="refine predictions by a conditional random field; unless told, v1 and v2 do"
    )
    potentials: PotentialsSetting = POTENTIALS


@final
class DeepLab(HasState, CanRefine):
    """A residual network at a chosen output stride, an atrous head, and the way back to the size of the image."""

    backbone: AtrousResNet
    head: AtrousSum | AtrousPyramid
    decoder: Decoder | None
    exit: Conv | None
    refine: bool
    config: DeepLabConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: DeepLabConfig, schema: Schema, key: Key) -> None:
        for_backbone, for_head, for_decoder, for_exit = jax.random.split(key, 4)
        large, stride = config.depth in LARGE, output_stride(config)
        self.backbone = AtrousResNet(
            schema.shape[2],
            depth=config.depth,
            width=config.width or (64 if large else 16),
            output_stride=stride,
            key=for_backbone,
        )
        chosen = rates(config, schema)
        check_rates(chosen, schema.shape, stride)
        low, high = self.backbone.channels
        classes = len(schema.classes)
        if config.version in ("v1", "v2"):
            self.head = AtrousSum(high, classes, channels=config.channels, rates=chosen, key=for_head)
            self.exit = None
        else:
            self.head = AtrousPyramid(high, channels=config.channels, rates=chosen, key=for_head)
            self.exit = Conv(2, config.channels, classes, 1, key=for_exit)
        self.decoder = Decoder(low, config.channels, key=for_decoder) if config.version == "v3+" else None
        self.refine = config.version in ("v1", "v2") if config.crf is None else config.crf
        self.config, self.schema = config, schema

    def outputs(self, x: Float[Array, "batch height width channels"], key: Key) -> tuple[Array, Self]:
        """Logits of the classes at each pixel, and the model with its state moved on when training."""
        first, h, backbone = self.backbone.advance(2 * x - 1, key)
        head, decoder = self.head, self.decoder
        if isinstance(head, AtrousPyramid):
            h, head = head.advance(h, key)
            if decoder is not None:
                h, decoder = decoder.advance(h, first, key)
            assert self.exit is not None, "a pyramid has no class scores of its own"
            h = self.exit(h)
        else:
            h = head(h)
        moved = eqx.tree_at(
            lambda model: (model.backbone, model.head, model.decoder),
            self,
            (backbone, head, decoder),
            is_leaf=lambda leaf: leaf is None,
        )
        return resized(h, x.shape[1:3]), moved

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The mean loss of the images, its parts, and the model with its state moved on."""
        out, moved = self.outputs(batch.x, key)
        return *judged(out, batch, self.config.objective), moved

    def state(self) -> Sequence[Tree]:
        """The running statistics of all normalisers."""
        return running_statistics(self)

    def predict(
        self, x: Float[Array, "batch height width channels"]
    ) -> Float[Array, "batch height width classes"]:
        """The probability of each class at each pixel."""
        still = eqx.nn.inference_mode(self)
        p = probabilities(still.outputs(x, jax.random.key(0))[0])  # nothing is drawn
        return refined(p, x, self.potentials) if self.refine else p

    @property
    def potentials(self) -> Potentials:
        """Those of the settings."""
        return Potentials(*self.config.potentials)


def output_stride(config: DeepLabConfig) -> int:
    """Pixels from one cell of the last map to the next."""
    usual = 4 if config.depth not in LARGE else 8 if config.version in ("v1", "v2") else 16
    return config.output_stride or usual


def rates(config: DeepLabConfig, schema: Schema) -> tuple[int, ...]:
    """Those of the settings; or the published ones, in proportion where the map is smaller than the published one.

    >>> schema = Schema("image", (64, 64, 3), target="mask", target_shape=(64, 64), classes=("a", "b"))
    >>> rates(DeepLabConfig(), schema), rates(DeepLabConfig(rates=(6, 12)), schema)
    ((3, 6, 9), (6, 12))
    """
    if config.rates:
        return config.rates
    stride, published = output_stride(config), PUBLISHED[config.version]
    if config.version in ("v3", "v3+") and stride == 8:
        published = tuple(2 * rate for rate in published)
    full = 65 if config.version in ("v3", "v3+") and stride == 8 else _SIDE[config.version]
    side = -(-min(schema.shape[:2]) // stride)
    return tuple(max(1, math.floor(rate * min(1.0, side / full) + 0.5)) for rate in published)


def check_rates(chosen: Sequence[int], shape: Sequence[int], stride: int) -> None:
    """Warn of kernels that lie beyond the map but for their middle: they act as 1x1."""
    side = -(-min(shape[:2]) // stride)
    beyond = [rate for rate in chosen if rate >= side]
    if beyond:
        warnings.warn(
            f"deeplab: at output stride {stride} the map has {side} cells a side; a 3x3 kernel at rate "
            f"{', '.join(map(str, beyond))} reaches beyond it everywhere and acts as 1x1: use rates below {side}, a "
            "smaller output_stride or larger images",
            ChainruleWarning,
            stacklevel=2,
        )


__all__ = ["PUBLISHED", "DeepLab", "DeepLabConfig", "check_rates", "output_stride", "rates"]
