"""What torchvision and timm call the layers of ConvNeXt, and what the shapes in their files say of it."""

from collections.abc import Mapping
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


def published(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The settings of the ConvNeXt that such a file holds, and the pixels it was trained on."""
    timm = "stem.0.weight" in shapes
    stem = shapes.get("stem.0.weight" if timm else "features.0.0.weight", ())
    depths: list[int] = []
    widths: list[int] = []
    while True:
        i = len(depths)
        block = (
            f"stages.{i}.blocks.{{}}.conv_dw.weight" if timm else f"features.{2 * i + 1}.{{}}.block.0.weight"
        )
        found = numbered(shapes, block)
        if not found:
            break
        depths.append(found)
        widths.append(shapes[block.format(0)][0])
    if len(stem) != 4 or not depths:
        raise DataError(
            "the file holds no ConvNeXt with the names of torchvision or timm",
            remedy="it needs features.0.0.weight and features.1.0.block.0.weight, or stem.0.weight and "
            "stages.0.blocks.0.conv_dw.weight",
        )
    stages = Stages(tuple(depths), tuple(widths))
    known = [name for name, variant in VARIANTS.items() if variant == stages]
    which = {"variant": known[0]} if known else dict(stages._asdict())
    return {**which, "stem": stem[2], "pixels": "imagenet"}


__all__ = ["published", "timm_names", "torch_names"]
