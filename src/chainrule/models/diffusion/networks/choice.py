"""Which network suits the data, and in which size."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

from chainrule.core.compiling import once
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Key
from chainrule.data import kinds, targets
from chainrule.data.schema import Schema
from chainrule.models.diffusion.networks.base import Network
from chainrule.models.diffusion.networks.conditions import (
    ClassReader,
    MakeReader,
    PictureReader,
    TextReader,
    TokenReader,
    VectorReader,
)
from chainrule.models.diffusion.networks.dit import DiTDenoiser
from chainrule.models.diffusion.networks.embedding import Inject
from chainrule.models.diffusion.networks.mlp import MLPDenoiser
from chainrule.models.diffusion.networks.unet import UNetDenoiser

Name: TypeAlias = Literal["auto", "mlp", "unet", "dit"]

DENSE = 256
"""Images of up to this many entries are given to the dense network unless told otherwise."""


def network(
    name: Name,
    schema: Schema,
    key: Key,
    *,
    read: MakeReader | None = None,
    inject: Inject = "auto",
    target: str = "v",
    width: int | None = None,
    depth: int | None = None,
    fourier: Sequence[int] = (),
    pad: bool = False,
) -> Network:
    """The network of this name for data of this schema; "auto" takes dense layers for all but larger images.

    `read` makes the reader of conditions, see `reading`; `inject` is how they enter.

    A size of `None` is the usual one: width 256 and depth 3 for dense layers; for a U-Net width 32 and two resolutions
    up to 16 pixels, 64 and three below 64 pixels and four above; for a transformer width 192 and depth 6.

    >>> import jax
    >>> type(network("auto", Schema("points", (2,)), jax.random.key(0))).__name__
    'MLPDenoiser'
    """
    if name == "auto":
        name = "unet" if kinds.of(schema).spatial and schema.dimensions > DENSE else "mlp"
    check_choice("network", "denoiser", name, tuple(_MAKE))
    if name != "mlp" and not kinds.of(schema).spatial:
        raise ArgumentError(f"denoiser={name}: these are {schema.kind} data", remedy="use denoiser=mlp")
    own: dict[str, Any] = {"fourier": fourier, "pad": pad} if name == "unet" else {}
    own |= {"read": read, "inject": inject, "target": target}
    make = _MAKE[name]
    made: Network = once(lambda key: make(schema, width, depth, key=key, **own))(key)
    return made


def reading(schema: Schema, conditional: bool = True) -> MakeReader | None:
    """The reader that suits the targets of some data: classes, labels and values, vectors, texts, pictures.

    >>> import jax
    >>> type(reading(Schema("table", (3,), "value"))(8, jax.random.key(0))).__name__
    'VectorReader'
    """
    if not conditional or not targets.of(schema).given:
        return None
    if targets.of(schema).one_class:
        return partial(ClassReader, len(schema.classes))
    if targets.of(schema).has_tokens:
        return partial(TextReader, len(schema.target_symbols), schema.target_shape[0])
    shape = schema.target_shape
    if len(shape) < 2:
        return partial(VectorReader, shape)
    if len(shape) == 2:
        return partial(TokenReader, (shape[0], shape[1]))
    if len(shape) > 3:
        raise ArgumentError(
            f"targets of shape {shape}: a condition is one number, a vector, a row of vectors or a picture",
            remedy="use conditional=false to leave them out",
        )
    return partial(PictureReader, (shape[0], shape[1], shape[2]))


def widths(side: int, width: int | None) -> tuple[int, ...]:
    """Channels of each resolution of a U-Net for pictures of this size.

    >>> widths(8, None), widths(28, None), widths(64, None)
    ((32, 64), (64, 128, 256), (64, 128, 256, 256))
    """
    count = 2 if side <= 16 else 3 if side < 64 else 4
    first = width or (32 if count == 2 else 64)
    return tuple(first * factor for factor in (1, 2, 4, 4)[:count])


def _mlp(schema: Schema, width: int | None, depth: int | None, **own: Any) -> Network:
    return MLPDenoiser(schema.dimensions, width=width or 256, depth=depth or 3, **own)


def _unet(schema: Schema, width: int | None, depth: int | None, **own: Any) -> Network:
    sizes = widths(max(schema.shape[:2]), width)
    return UNetDenoiser(schema.shape, widths=sizes, depth=depth or (1 if len(sizes) == 2 else 2), **own)


def _dit(schema: Schema, width: int | None, depth: int | None, **own: Any) -> Network:
    width = width or 192
    return DiTDenoiser(schema.shape, width=width, depth=depth or 6, heads=max(1, width // 64), **own)


_MAKE: dict[str, Callable[..., Network]] = {"mlp": _mlp, "unet": _unet, "dit": _dit}

__all__ = ["DENSE", "Name", "network", "reading", "widths"]
