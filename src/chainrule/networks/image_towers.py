"""Parts of image classifiers: convolutional blocks, dense heads, resizing."""

import math
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.nn import Conv, Dropout, Linear, Norm, activation, norm
from chainrule.nn.normalize import normalised

Normalization: TypeAlias = Literal["none", "batch", "layer"]
Pixels: TypeAlias = Literal["none", "imagenet", "half"]
PIXELS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}
"""Mean and standard deviation of red, green and blue that published weights expect to be taken out."""
FEW_FOR_WIDE = 50_000
"""Training images below which networks with tens of millions of weights in their dense layers are made narrower."""
ScaleSetting: TypeAlias = Annotated[
    float,
    Field(
        gt=0,
        description="factor on every width; 0.25, the default below 50,000 training images, leaves about a sixteenth "
        "of the weights",
    ),
]
PixelsSetting: TypeAlias = Annotated[
    Pixels,
    Field(
        description="what is done to pixels first: nothing; (x - mean) / deviation of ImageNet's colours, as most "
        "published weights expect; or of one half each. The last two take grey as three equal colours"
    ),
]
SizeSetting: TypeAlias = Annotated[
    int, Field(ge=0, description="pixels a side that images are resized to; 0: as they come")
]
StochasticDepthSetting: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        lt=1,
        description="probability that training leaves the last block out for an example; of earlier ones it is less",
    ),
]


class Stages(NamedTuple):
    """Blocks and channels of each stage."""

    depths: tuple[int, ...]
    widths: tuple[int, ...]


@final
class ConvBlock(eqx.Module):
    """Convolution, normalisation, nonlinearity."""

    conv: Conv
    norm: Norm
    inference: bool
    activation: str = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int = 3,
        *,
        key: Key,
        stride: int = 1,
        padding: int | None = None,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        normalization: Normalization = "none",
        act: str = "relu",
        gain: float | None = None,
    ) -> None:
        self.conv = Conv(
            *(2, inputs, outputs, kernel),
            stride=stride,
            padding=dilation * (kernel // 2) if padding is None else padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
            gain=activation(act).gain if gain is None else gain,
            key=key,
        )
        self.norm = norm(normalization, outputs)
        self.inference = False
        self.activation = act

    def __call__(
        self, x: Float[Array, "batch height width inputs"], key: Key
    ) -> tuple[Float[Array, "batch new_height new_width outputs"], Self]:
        """The activations, and the block with its running statistics moved on when training."""
        del key
        x, moved = normalised(self.norm, self.conv(x), not self.inference)
        return activation(self.activation)(x), eqx.tree_at(lambda block: block.norm, self, moved)


@final
class DenseHead(eqx.Module):
    """Two wide hidden layers and the outputs, on flattened features."""

    layers: tuple[Linear, Linear, Linear]
    dropout: Dropout
    drop_first: bool = eqx.field(static=True)
    """Whether the features are dropped before each hidden layer, or the hidden units after it."""

    def __init__(
        self, inputs: int, hidden: int, outputs: int, *, dropout: float, drop_first: bool, key: Key
    ) -> None:
        keys = jax.random.split(key, 3)
        gain = activation("relu").gain
        self.layers = (
            Linear(inputs, hidden, key=keys[0], gain=gain),
            Linear(hidden, hidden, key=keys[1], gain=gain),
            Linear(hidden, outputs, key=keys[2]),
        )
        self.dropout = Dropout(dropout)
        self.drop_first = drop_first

    def __call__(self, x: Float[Array, "batch *features"], key: Key) -> Float[Array, "batch outputs"]:
        """Logits or values."""
        x = x.reshape(x.shape[0], math.prod(x.shape[1:]))
        *hidden, last = self.layers
        for i, layer in enumerate(hidden):
            noise = jax.random.fold_in(key, i)
            x = self.dropout(x, noise) if self.drop_first else x
            x = jax.nn.relu(layer(x))
            x = x if self.drop_first else self.dropout(x, noise)
        return last(x)


def standardised(
    x: Float[Array, "batch height width channels"], pixels: Pixels
) -> Float[Array, "batch height width colours"]:
    """Pixels of [0, 1] as published weights expect them, `(x - mean) / deviation`; grey becomes three equal colours.

    >>> standardised(jnp.full((1, 1, 1, 1), 0.485), "imagenet")[0, 0, 0, 0]
    Array(0., dtype=float32)
    """
    if pixels == "none":
        return x
    mean, deviation = (jnp.asarray(numbers, x.dtype)[None, None, None] for numbers in PIXELS[pixels])
    return (x - mean) / deviation


def entered(x: Float[Array, "batch height width channels"], pixels: Pixels, size: int) -> Array:
    """Images as the first layer of a classifier gets them: of the right size, pixels standardised."""
    return standardised(resized(x, size), pixels)


def colours(shape: tuple[int, ...], pixels: Pixels) -> int:
    """How many channels `standardised` gives for images of this shape."""
    if pixels != "none" and shape[2] not in (1, 3):
        raise ArgumentError(
            f"pixels={pixels}: the mean of three colours cannot be taken out of {shape[2]} channels",
            remedy="leave pixels out, or give images in grey or RGB",
        )
    return shape[2] if pixels == "none" else 3


def resized(x: Float[Array, "batch height width channels"], size: int) -> Array:
    """Images of `size` x `size` pixels, bilinearly; as they came if they have that size or it is 0."""
    if size == 0 or x.shape[1:3] == (size, size):
        return x
    return jax.image.resize(x, (x.shape[0], size, size, x.shape[3]), "bilinear")


def side(shape: tuple[int, ...], size: int, least: int, name: str) -> int:
    """The side images are resized to; 0 leaves them alone. By default only images below `least` are resized.

    >>> side((28, 28, 1), 0, 32, "vgg"), side((64, 48, 3), 0, 32, "vgg"), side((28, 28, 1), 64, 32, "vgg")
    (32, 0, 64)
    """
    if 0 < size < least:
        raise ArgumentError(f"{name}(size={size}): this network needs images of at least {least} pixels")
    return size if size or min(shape[:2]) >= least else least


def scaled(width: int, scale: float) -> int:
    """A width of a published network times `scale`.

    >>> scaled(64, 0.25), scaled(64, 1e-9)
    (16, 1)
    """
    return max(1, round(width * scale))


def suited_scale(config: Any, schema: Any, examples: int | None) -> dict[str, float]:
    """A quarter of every published width where the images are far fewer than those the network was published for.

    >>> suited_scale(None, None, 1_437), suited_scale(None, None, 1_281_167), suited_scale(None, None, None)
    ({'scale': 0.25}, {}, {})
    """
    del config, schema
    return {"scale": 0.25} if examples is not None and examples < FEW_FOR_WIDE else {}


def depth_rates(last: float, blocks: int) -> list[float]:
    """How often each block is left out: rising from none to `last` (Huang et al., 2016).

    >>> depth_rates(0.2, 3)
    [0.0, 0.1, 0.2]
    """
    return [last * i / max(1, blocks - 1) for i in range(blocks)]


__all__ = [
    "FEW_FOR_WIDE",
    "PIXELS",
    "ConvBlock",
    "DenseHead",
    "Normalization",
    "Pixels",
    "PixelsSetting",
    "ScaleSetting",
    "SizeSetting",
    "Stages",
    "StochasticDepthSetting",
    "colours",
    "depth_rates",
    "entered",
    "resized",
    "scaled",
    "side",
    "standardised",
    "suited_scale",
]
