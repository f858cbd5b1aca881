"""What torchvision, timm and transformers call the layers of ConvNeXt, and what their files say of it."""

from collections.abc import Callable, Mapping
from typing import Any

from chainrule.core.errors import DataError
from chainrule.models.protocol import Name, Spelled, numbered
from chainrule.models.supervised.convnext.model import VARIANTS, ConvNeXt, Stages


def torch_names(model: ConvNeXt) -> dict[str, Name]:
    """Torchvision's names: a list in which stages and what halves the image between them take turns."""
    names: dict[str, Name] = {
        "stem": "features.0.0",
        "stem_norm": "features.0.1",
        "norm": "classifier.0",
        "head": "classifier.2",
    }
    for i, stage in enumerate(model.stages):
        if i:
            names |= {f"norms.{i - 1}": f"features.{2 * i}.0", f"halvings.{i - 1}": f"features.{2 * i}.1"}
        for j in range(len(stage)):
            ours, theirs = f"stages.{i}.{j}", f"features.{2 * i + 1}.{j}"
            names |= {
                f"{ours}.depthwise": f"{theirs}.block.0",
                f"{ours}.norm": f"{theirs}.block.2",
                f"{ours}.widen": f"{theirs}.block.3",
                f"{ours}.narrow": f"{theirs}.block.5",
                f"{ours}.scale": Spelled({"scale": f"{theirs}.layer_scale"}, after=2),
            }
    return names


def timm_names(model: ConvNeXt) -> dict[str, Name]:
    """The names of timm."""
    names: dict[str, Name] = {
        "stem": "stem.0",
        "stem_norm": "stem.1",
        "norm": "head.norm",
        "head": "head.fc",
    }
    for i, stage in enumerate(model.stages):
        if i:
            down = f"stages.{i}.downsample"
            names |= {f"norms.{i - 1}": f"{down}.0", f"halvings.{i - 1}": f"{down}.1"}
        for j in range(len(stage)):
            ours, theirs = f"stages.{i}.{j}", f"stages.{i}.blocks.{j}"
            names |= {
                f"{ours}.depthwise": f"{theirs}.conv_dw",
                f"{ours}.norm": f"{theirs}.norm",
                f"{ours}.widen": f"{theirs}.mlp.fc1",
                f"{ours}.narrow": f"{theirs}.mlp.fc2",
                f"{ours}.scale": Spelled({"scale": f"{theirs}.gamma"}),
            }
    return names


def transformers_names(model: ConvNeXt) -> dict[str, Name]:
    """The names of transformers."""
    names: dict[str, Name] = {
        "stem": "convnext.embeddings.patch_embeddings",
        "stem_norm": "convnext.embeddings.layernorm",
        "norm": "convnext.layernorm",
        "head": "classifier",
    }
    for i, stage in enumerate(model.stages):
        inside = f"convnext.encoder.stages.{i}"
        if i:
            down = f"{inside}.downsampling_layer"
            names |= {f"norms.{i - 1}": f"{down}.0", f"halvings.{i - 1}": f"{down}.1"}
        for j in range(len(stage)):
            ours, theirs = f"stages.{i}.{j}", f"{inside}.layers.{j}"
            names |= {
                f"{ours}.depthwise": f"{theirs}.dwconv",
                f"{ours}.norm": f"{theirs}.layernorm",
                f"{ours}.widen": f"{theirs}.pwconv1",
                f"{ours}.narrow": f"{theirs}.pwconv2",
                f"{ours}.scale": Spelled({"scale": f"{theirs}.layer_scale_parameter"}),
            }
    return names


_LAYOUTS: Mapping[str, Callable[[int], str]] = {
    "features.0.0.weight": lambda i: f"features.{2 * i + 1}.{{}}.block.0.weight",
    "stem.0.weight": lambda i: f"stages.{i}.blocks.{{}}.conv_dw.weight",
    "convnext.embeddings.patch_embeddings.weight": (
        lambda i: f"convnext.encoder.stages.{i}.layers.{{}}.dwconv.weight"
    ),
}
"""What each library calls the first kernel, and the depthwise ones of a stage."""


def published(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The settings of the ConvNeXt that such a file holds, and the pixels it was trained on."""
    first = next((name for name in _LAYOUTS if name in shapes), "features.0.0.weight")
    stem = shapes.get(first, ())
    depths: list[int] = []
    widths: list[int] = []
    while True:
        i = len(depths)
        block = _LAYOUTS[first](i)
        found = numbered(shapes, block)
        if not found:
            break
        depths.append(found)
        widths.append(shapes[block.format(0)][0])
    if len(stem) != 4 or not depths:
        raise DataError(
            "the file holds no ConvNeXt with the names of torchvision, timm or transformers",
            remedy=f"it needs {' or '.join(f'{name} and {of(0).format(0)}' for name, of in _LAYOUTS.items())}",
        )
    stages = Stages(tuple(depths), tuple(widths))
    known = [name for name, variant in VARIANTS.items() if variant == stages]
    which = {"variant": known[0]} if known else dict(stages._asdict())
    return {**which, "stem": stem[2], "pixels": "imagenet"}


__all__ = ["published", "timm_names", "torch_names", "transformers_names"]
