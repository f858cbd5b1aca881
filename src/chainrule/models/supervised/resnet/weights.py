"""What torchvision, timm and transformers call the layers of a residual network, and what their files say of it."""

from collections.abc import Mapping
from typing import Any

from chainrule.core.errors import DataError
from chainrule.models.protocol import numbered
from chainrule.models.supervised.resnet.model import LARGE, ResNet


def torch_names(model: ResNet) -> dict[str, str]:
    """The names of torchvision and of timm."""
    names = {"stem.conv": "conv1", "stem.norm": "bn1", "head": "fc"}
    for i, stage in enumerate(model.stages):
        for j, block in enumerate(stage):
            ours, theirs = f"stages.{i}.{j}", f"layer{i + 1}.{j}"
            for k in range(len(block.convolutions)):
                names[f"{ours}.convolutions.{k}"] = f"{theirs}.conv{k + 1}"
                names[f"{ours}.norms.{k}"] = f"{theirs}.bn{k + 1}"
            if block.projection is not None:
                names[f"{ours}.projection"] = f"{theirs}.downsample.0"
            if block.projection_norm is not None:
                names[f"{ours}.projection_norm"] = f"{theirs}.downsample.1"
    return names


def transformers_names(model: ResNet) -> dict[str, str]:
    """The names of transformers."""
    stem = "resnet.embedder.embedder"
    names = {"stem.conv": f"{stem}.convolution", "stem.norm": f"{stem}.normalization", "head": "classifier.1"}
    for i, stage in enumerate(model.stages):
        for j, block in enumerate(stage):
            ours, theirs = f"stages.{i}.{j}", f"resnet.encoder.stages.{i}.layers.{j}"
            for k in range(len(block.convolutions)):
                names[f"{ours}.convolutions.{k}"] = f"{theirs}.layer.{k}.convolution"
                names[f"{ours}.norms.{k}"] = f"{theirs}.layer.{k}.normalization"
            if block.projection is not None:
                names[f"{ours}.projection"] = f"{theirs}.shortcut.convolution"
            if block.projection_norm is not None:
                names[f"{ours}.projection_norm"] = f"{theirs}.shortcut.normalization"
    return names


def published(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The settings of the residual network that such a file holds, and the pixels it expects."""
    stem, blocks, third = "conv1.weight", "layer{stage}.{{}}.conv1.weight", "layer1.0.conv3.weight"
    first = 1
    if stem not in shapes:
        inside = "resnet.encoder.stages"
        stem, first = "resnet.embedder.embedder.convolution.weight", 0
        blocks = f"{inside}.{{stage}}.layers.{{{{}}}}.layer.0.convolution.weight"
        third = f"{inside}.0.layers.0.layer.2.convolution.weight"
    counts = tuple(numbered(shapes, blocks.format(stage=first + i)) for i in range(4))
    found = [
        depth for depth, known in LARGE.items() if known == counts and (depth >= 50) == (third in shapes)
    ]
    if not found or len(shapes.get(stem, ())) != 4:
        raise DataError(
            f"the file holds no residual network of torchvision, timm or transformers: {counts} blocks in its stages",
            remedy=f"known are {', '.join(f'{known} ({depth})' for depth, known in LARGE.items())}",
        )
    return {"depth": found[0], "width": shapes[stem][0], "pixels": "imagenet"}


__all__ = ["published", "torch_names", "transformers_names"]
