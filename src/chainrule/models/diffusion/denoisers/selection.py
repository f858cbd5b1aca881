"""The network that suits the data, and its size."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from chainrule.core.compiling import once
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Key
from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.models.diffusion.denoisers.learned import NetworkDenoiser
from chainrule.networks.conditioning import ConditionedNetwork, Inject
from chainrule.networks.conditions import MakeConditionEncoder
from chainrule.networks.dit import DiT
from chainrule.networks.mlp import ResidualMLP
from chainrule.networks.unet import UNet

Name: TypeAlias = Literal["auto", "mlp", "unet", "dit"]

DENSE = 256
"""Images of up to this many entries are given to the dense network by default."""


def network_denoiser(
    name: Name,
    schema: Schema,
    key: Key,
    *,
    read: MakeConditionEncoder | None = None,
    inject: Inject = "auto",
    target: str = "v",
    width: int | None = None,
    depth: int | None = None,
    fourier: Sequence[int] = (),
    pad: bool = False,
) -> NetworkDenoiser:
    """The denoiser with the network of this name for some data; "auto" takes dense layers for all but larger images.

    `read` makes the encoder of conditions, see `networks.conditions.condition_encoder`; `inject` is how they enter.

    Sizes by default: width 256 and depth 3 for dense layers; for a U-Net width 32 and two resolutions
    up to 16 pixels, 64 and three below 64 pixels and four above; for a transformer width 192 and depth 6.

    >>> import jax
    >>> type(network_denoiser("auto", Schema("points", (2,)), jax.random.key(0)).body).__name__
    'ResidualMLP'
    """
    name = resolved(name, schema)
    check_choice("network", "denoiser", name, tuple(_MAKE))
    if name != "mlp" and len(schema.shape) != 3:  # rows, columns and channels
        raise ArgumentError(f"denoiser={name}: these are {schema.kind} data", remedy="use denoiser=mlp")
    own: dict[str, Any] = {"fourier": fourier, "pad": pad} if name == "unet" else {}
    own |= {"read": read, "inject": inject}
    return NetworkDenoiser(once(_drawn)(name, schema, width, depth, key=key, **own), target)


def resolved(name: Name, schema: Schema) -> Name:
    """The network itself where "auto" leaves it to the data: dense layers for all but larger images."""
    if name != "auto":
        return name
    return "unet" if kinds.of(schema).spatial and schema.dimensions > DENSE else "mlp"


def _drawn(
    name: Name, schema: Schema, width: int | None, depth: int | None, **own: Any
) -> ConditionedNetwork:
    return _MAKE[name](schema, width, depth, **own)


def widths(side: int, width: int | None) -> tuple[int, ...]:
    """Channels of each resolution of a U-Net for pictures of this size.

    >>> widths(8, None), widths(28, None), widths(64, None)
    ((32, 64), (64, 128, 256), (64, 128, 256, 256))
    """
    count = 2 if side <= 16 else 3 if side < 64 else 4
    first = width or (32 if count == 2 else 64)
    return tuple(first * factor for factor in (1, 2, 4, 4)[:count])


def _mlp(schema: Schema, width: int | None, depth: int | None, **own: Any) -> ConditionedNetwork:
    return ResidualMLP(schema.dimensions, width=width or 256, depth=depth or 3, **own)


def _unet(schema: Schema, width: int | None, depth: int | None, **own: Any) -> ConditionedNetwork:
    sizes = widths(max(schema.shape[:2]), width)
    return UNet(schema.shape, widths=sizes, depth=depth or (1 if len(sizes) == 2 else 2), **own)


def _dit(schema: Schema, width: int | None, depth: int | None, **own: Any) -> ConditionedNetwork:
    width = width or 192
    return DiT(schema.shape, width=width, depth=depth or 6, heads=max(1, width // 64), **own)


_MAKE: dict[str, Callable[..., ConditionedNetwork]] = {"mlp": _mlp, "unet": _unet, "dit": _dit}

__all__ = ["DENSE", "Name", "network_denoiser", "resolved", "widths"]
