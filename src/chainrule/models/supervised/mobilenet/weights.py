"""What torchvision and timm call the layers of a MobileNetV2, and what their files say of it."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from chainrule.core.errors import DataError
from chainrule.models.protocol import numbered
from chainrule.models.supervised.mobilenet.model import (
    DEPTHS,
    FEATURES,
    HALVING,
    STEM,
    WIDTHS,
    InvertedResidual,
    MobileNet,
    rounded,
)

SCALES = (1.0, 0.35, 0.5, 0.75, 1.1, 1.2, 1.3, 1.4)
"""Widths of published files."""


def torch_names(model: MobileNet) -> dict[str, str]:
    """The names of torchvision."""
    last = len(model.blocks) + 1
    names = {"head": "classifier.1"}
    names |= _pair("stem", "features.0.0", "features.0.1")
    names |= _pair("last", f"features.{last}.0", f"features.{last}.1")
    for k, block in enumerate(model.blocks):
        theirs = f"features.{k + 1}.conv"
        *before, narrow = range(len(block.layers))
        for i in before:
            names |= _pair(f"blocks.{k}.layers.{i}", f"{theirs}.{i}.0", f"{theirs}.{i}.1")
        names |= _pair(f"blocks.{k}.layers.{narrow}", f"{theirs}.{narrow}", f"{theirs}.{narrow + 1}")
    return names


def timm_names(model: MobileNet) -> dict[str, str]:
    """The names of timm."""
    names = {"head": "classifier", **_pair("stem", "conv_stem", "bn1"), **_pair("last", "conv_head", "bn2")}
    for k, (stage, number, block) in enumerate(_staged(model)):
        theirs = f"blocks.{stage}.{number}"
        widens = len(block.layers) == 3
        kernels = ("conv_pw", "conv_dw", "conv_pwl") if widens else ("conv_dw", "conv_pw")
        for i, kernel in enumerate(kernels):
            names |= _pair(f"blocks.{k}.layers.{i}", f"{theirs}.{kernel}", f"{theirs}.bn{i + 1}")
    return names


def published(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The settings of the MobileNetV2 that such a file holds, and the pixels it expects."""
    stages = _of_timm(shapes) if "conv_stem.weight" in shapes else _of_torchvision(shapes)
    stem, last = _first(shapes, "conv_stem", "features.0.0"), _last(shapes)
    if not stages or not stem or not last:
        raise DataError(
            "the file holds no MobileNetV2 of torchvision or timm",
            remedy="known are the names features.0.0.weight of torchvision and conv_stem.weight of timm",
        )
    common = {"halvings": sum(HALVING[: len(stages) + 1]), "pixels": "imagenet"}
    outputs = [width for width, depth in stages for _ in range(depth)]
    for scale in SCALES:
        widths = [
            rounded(width * scale) for width, depth in zip(WIDTHS, DEPTHS, strict=True) for _ in range(depth)
        ]
        wide = rounded(FEATURES * max(1.0, scale))
        if outputs == widths and stem == rounded(STEM * scale) and last == wide:
            return {"scale": scale, **common}
    own = {"widths": tuple(width for width, _ in stages), "depths": tuple(depth for _, depth in stages)}
    return {"scale": 1.0, **own, "stem": stem, "features": last, **common}


def _pair(ours: str, kernel: str, norm: str) -> dict[str, str]:
    return {f"{ours}.conv": kernel, f"{ours}.norm": norm}


def _staged(model: MobileNet) -> Iterator[tuple[int, int, InvertedResidual]]:
    """Every block with the number of its stage and its number there."""
    blocks = iter(model.blocks)
    for stage, depth in enumerate(model.config.stages().depths):
        for number in range(depth):
            yield stage, number, next(blocks)


def _of_timm(shapes: Mapping[str, tuple[int, ...]]) -> list[tuple[int, int]]:
    """Width and depth of every stage."""
    stages: list[tuple[int, int]] = []
    for stage in itertools.count():
        kernel = "conv_pwl" if f"blocks.{stage}.0.conv_pwl.weight" in shapes else "conv_pw"
        depth = numbered(shapes, f"blocks.{stage}.{{}}.{kernel}.weight")
        if not depth:
            return stages
        stages.append((shapes[f"blocks.{stage}.0.{kernel}.weight"][0], depth))
    raise AssertionError("counting does not end")


def _of_torchvision(shapes: Mapping[str, tuple[int, ...]]) -> list[tuple[int, int]]:
    """The same where blocks are numbered throughout: a stage ends where the width changes."""
    outputs = []
    for k in itertools.count(1):
        found = [shapes.get(f"features.{k}.conv.{i}.weight", ()) for i in (2, 1)]
        kernels = [shape for shape in found if len(shape) == 4]
        if not kernels:
            break
        outputs.append(kernels[0][0])
    if len(outputs) == sum(DEPTHS):  # narrow ones have stages of one width
        ends = list(itertools.accumulate(DEPTHS))
        return [(outputs[end - 1], depth) for end, depth in zip(ends, DEPTHS, strict=True)]
    return [(width, len(list(group))) for width, group in itertools.groupby(outputs)]


def _first(shapes: Mapping[str, tuple[int, ...]], *names: str) -> int:
    found = [shapes[f"{name}.weight"] for name in names if f"{name}.weight" in shapes]
    return found[0][0] if found and len(found[0]) == 4 else 0


def _last(shapes: Mapping[str, tuple[int, ...]]) -> int:
    head = shapes.get("classifier.1.weight", shapes.get("classifier.weight", ()))
    return head[1] if len(head) == 2 else 0


__all__ = ["published", "timm_names", "torch_names"]
