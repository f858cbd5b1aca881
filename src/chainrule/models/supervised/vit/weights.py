"""What torchvision and timm call the layers of a vision transformer, and what the shapes in their files say of it."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import DataError
from chainrule.models.protocol import Name, Patches, Spelled, numbered
from chainrule.models.supervised.vit.model import VARIANTS, ViT, ViTSizes

HEAD_WIDTH = 64
"""Numbers of one head in every published network."""


def torch_names(model: ViT) -> dict[str, Name]:
    """Torchvision's names."""
    names: dict[str, Name] = {
        "patches": Patches("conv_proj", model.patch),
        "token": Spelled({"weight": "class_token"}, before=1),
        "positions": Spelled({"weight": "encoder.pos_embedding"}, before=1, adapt=resampled),
        "norm": "encoder.ln",
        "head": "heads.head",
    }
    for i in range(len(model.blocks)):
        ours, theirs = f"blocks.{i}", f"encoder.layers.encoder_layer_{i}"
        inward = f"{theirs}.self_attention.in_proj"
        names |= {
            f"{ours}.first_norm": f"{theirs}.ln_1",
            f"{ours}.attention.inward": Spelled({"weight": f"{inward}_weight", "bias": f"{inward}_bias"}),
            f"{ours}.attention.outward": f"{theirs}.self_attention.out_proj",
            f"{ours}.second_norm": f"{theirs}.ln_2",
            f"{ours}.widen": f"{theirs}.mlp.0",
            f"{ours}.narrow": f"{theirs}.mlp.3",
        }
    return names


def timm_names(model: ViT) -> dict[str, Name]:
    """The names of timm and of DeiT."""
    names: dict[str, Name] = {
        "patches": Patches("patch_embed.proj", model.patch),
        "token": Spelled({"weight": "cls_token"}, before=1),
        "positions": Spelled({"weight": "pos_embed"}, before=1, adapt=resampled),
        "norm": "norm",
        "head": "head",
    }
    for i in range(len(model.blocks)):
        names |= {
            f"blocks.{i}.first_norm": f"blocks.{i}.norm1",
            f"blocks.{i}.attention.inward": f"blocks.{i}.attn.qkv",
            f"blocks.{i}.attention.outward": f"blocks.{i}.attn.proj",
            f"blocks.{i}.second_norm": f"blocks.{i}.norm2",
            f"blocks.{i}.widen": f"blocks.{i}.mlp.fc1",
            f"blocks.{i}.narrow": f"blocks.{i}.mlp.fc2",
        }
    return names


def resampled(table: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """Positions of a square grid of patches for one of another size, by cubic interpolation; the first stays."""
    sides = [math.isqrt(max(0, count[1] - 1)) for count in (table.shape, shape)]
    if (
        table.ndim != 3
        or table.shape[2] != shape[2]
        or [s * s + 1 for s in sides] != [table.shape[1], shape[1]]
    ):
        return None
    width = shape[2]
    grid = jnp.asarray(table[0, 1:].reshape(sides[0], sides[0], width), jnp.float32)
    new = jax.image.resize(grid, (sides[1], sides[1], width), "cubic").reshape(-1, width)
    return np.concatenate([table[:, :1], np.asarray(new, table.dtype)[None]], axis=1)


def published(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The settings of the vision transformer that such a file holds, and the pixels it was trained on.

    timm's weights were trained on pixels of which one half was taken out, torchvision's (and DeiT's, which has timm's
    names) on those of ImageNet.
    """
    timm = "pos_embed" in shapes
    kernel = shapes.get("patch_embed.proj.weight" if timm else "conv_proj.weight", ())
    positions = shapes.get("pos_embed" if timm else "encoder.pos_embedding", ())
    block = "blocks.{}.norm1.weight" if timm else "encoder.layers.encoder_layer_{}.ln_1.weight"
    layers = numbered(shapes, block)
    side = math.isqrt(max(0, positions[1] - 1)) if len(positions) == 3 else 0
    if len(kernel) != 4 or not layers or side**2 + 1 != positions[1] or kernel[0] % HEAD_WIDTH:
        raise DataError(
            "the file holds no vision transformer with the names of torchvision or timm",
            remedy="it needs conv_proj.weight and encoder.pos_embedding, or patch_embed.proj.weight and pos_embed "
            "with one token before the patches",
        )
    width, patch = kernel[0], kernel[2]
    sizes = ViTSizes(layers, width // HEAD_WIDTH, width)
    known = [name for name, variant in VARIANTS.items() if variant == sizes]
    which = {"variant": known[0]} if known else dict(sizes._asdict())
    return {**which, "patch": patch, "size": side * patch, "pixels": "half" if timm else "imagenet"}


__all__ = ["published", "resampled", "timm_names", "torch_names"]
