"""What torchvision, timm and transformers call the layers of a vision transformer, and what their files say of it."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import DataError
from chainrule.models.protocol import Joined, Name, Patches, Spelled, numbered
from chainrule.models.supervised.vit.model import VARIANTS, ViT

HEAD_WIDTH = 64
"""Numbers of one head in every published network."""
HIDDEN_RATIO = 4
"""Inner width of the feed-forward part over the width, unless a file says otherwise."""


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


def transformers_names(model: ViT) -> dict[str, Name]:
    """The names of transformers, which keeps queries, keys and values apart."""
    width = model.head.weight.shape[0]
    names: dict[str, Name] = {
        "patches": Patches("vit.embeddings.patch_embeddings.projection", model.patch),
        "token": Spelled({"weight": "vit.embeddings.cls_token"}, before=1),
        "positions": Spelled({"weight": "vit.embeddings.position_embeddings"}, before=1, adapt=resampled),
        "norm": "vit.layernorm",
        "head": "classifier",
    }
    for i in range(len(model.blocks)):
        ours, theirs = f"blocks.{i}", f"vit.encoder.layer.{i}"
        three = tuple(f"{theirs}.attention.attention.{what}" for what in ("query", "key", "value"))
        names |= {
            f"{ours}.first_norm": f"{theirs}.layernorm_before",
            f"{ours}.attention.inward": Joined(three, (width,) * 3),
            f"{ours}.attention.outward": f"{theirs}.attention.output.dense",
            f"{ours}.second_norm": f"{theirs}.layernorm_after",
            f"{ours}.widen": f"{theirs}.intermediate.dense",
            f"{ours}.narrow": f"{theirs}.output.dense",
        }
    return names


class _Layout(NamedTuple):
    """Where a library keeps what tells the sizes of a vision transformer, and what pixels it was trained on."""

    kernel: str
    positions: str
    block: str
    widen: str
    pixels: str


_LAYOUTS = (
    _Layout(
        "conv_proj.weight",
        "encoder.pos_embedding",
        "encoder.layers.encoder_layer_{}.ln_1.weight",
        "encoder.layers.encoder_layer_0.mlp.0.weight",
        "imagenet",
    ),
    _Layout(
        "patch_embed.proj.weight",
        "pos_embed",
        "blocks.{}.norm1.weight",
        "blocks.0.mlp.fc1.weight",
        "half",
    ),
    _Layout(
        "vit.embeddings.patch_embeddings.projection.weight",
        "vit.embeddings.position_embeddings",
        "vit.encoder.layer.{}.layernorm_before.weight",
        "vit.encoder.layer.0.intermediate.dense.weight",
        "half",
    ),
)


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


def sizes_of(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """What the arrays of a file tell of a vision transformer: layers, width, hidden, patch, size."""
    layout = _layout(shapes)
    kernel, positions = shapes.get(layout.kernel, ()), shapes.get(layout.positions, ())
    layers = numbered(shapes, layout.block)
    side = math.isqrt(max(0, positions[1] - 1)) if len(positions) == 3 else 0
    if len(kernel) != 4 or not layers or side**2 + 1 != positions[1]:
        raise DataError(
            "the file holds no vision transformer with the names of torchvision, timm or transformers",
            remedy=f"it needs {' or '.join(f'{one.kernel} and {one.positions}' for one in _LAYOUTS)}, with one token "
            "before the patches",
        )
    width, patch = kernel[0], kernel[2]
    hidden = shapes.get(layout.widen, (HIDDEN_RATIO * width,))[0]
    return {"layers": layers, "width": width, "hidden": hidden, "patch": patch, "size": side * patch}


def published(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The settings of the vision transformer that such a file holds, and the pixels it was trained on.

    No array tells the number of heads: where the width is a multiple of 64, heads are taken to be 64 wide, as those of
    every published network are. Weights in timm and transformers were trained on pixels of which one half was taken
    out, torchvision's (and DeiT's, which has timm's names) on those of ImageNet.
    """
    found: dict[str, Any] = sizes_of(shapes)
    width, layers = found["width"], found["layers"]
    if found["hidden"] == HIDDEN_RATIO * width:
        del found["hidden"]
    if width % HEAD_WIDTH == 0:
        found["heads"] = width // HEAD_WIDTH
        known = [name for name, sizes in VARIANTS.items() if sizes == (layers, found["heads"], width)]
        found |= {"variant": known[0]} if known else {}
    return {**found, "pixels": _layout(shapes).pixels}


def _layout(shapes: Mapping[str, tuple[int, ...]]) -> _Layout:
    return next((one for one in _LAYOUTS if one.positions in shapes), _LAYOUTS[0])


__all__ = ["published", "resampled", "sizes_of", "timm_names", "torch_names", "transformers_names"]
