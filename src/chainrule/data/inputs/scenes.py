"""What is known of new images that a run finds things in: boxes and masks beside them, as training has them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from chainrule.core.errors import DataError
from chainrule.data import targets
from chainrule.data.inputs.protocol import Preparation
from chainrule.data.loading.problems import Refused
from chainrule.data.loading.scan import ReadRequest, SourceReader
from chainrule.data.placement import Placement, place_mask
from chainrule.data.readers import boxed, masked
from chainrule.data.readers.picture import Unusable
from chainrule.data.targets.mask import IGNORE

Beside: TypeAlias = Callable[[tuple[int, int], Placement], Any]
"""From the size (height, width) of an image and where it lies on the canvas to its target, or nothing."""


def beside(
    folder: Path, files: Sequence[Path], pictures: Sequence[Path], prepared: Preparation
) -> list[Beside]:
    """For each picture of a folder what stands beside it; an empty list where nothing does."""
    target = targets.of(prepared.schema)
    try:
        if target.has_boxes and boxed.has_boxes(folder):
            return _boxes(_request(folder, boxed.reader, prepared), files, pictures, prepared)
        if target.has_mask and masked.has_masks(folder):
            return _masks(_request(folder, masked.reader, prepared), files, pictures, prepared)
    except Refused as refused:
        raise DataError(f"{refused.problem.where}: {refused.problem.detail}") from None
    return []


def _request(folder: Path, reader: SourceReader, prepared: Preparation) -> ReadRequest:
    defaults = {name: option.default for name, option in reader.options.items()}
    own = {name: prepared.options[name] for name in ("clip", "ignore") if name in prepared.options}
    return ReadRequest(folder, 0, {**defaults, **own})


def _boxes(
    request: ReadRequest, files: Sequence[Path], pictures: Sequence[Path], prepared: Preparation
) -> list[Beside]:
    found = boxed.listed(request, files, pictures)
    placing = boxed.BoxPlacing(request, found)
    number = {name: index for index, name in enumerate(prepared.schema.classes)}

    def one(path: str) -> Beside:
        def known(size: tuple[int, int], at: Placement) -> Any:
            if path in found.faults or path not in found.boxes:
                return None
            labels = [number.get(box.label) for box in found.boxes[path]]
            try:
                edges = [placing.checked(box, size)[:4] for box in found.boxes[path]]
            except Unusable:
                return None
            if None in labels:
                return None
            rows = np.array(edges).reshape(-1, 4)
            return np.concatenate([at.placed(rows), np.array(labels, float).reshape(-1, 1)], axis=1)

        return known

    return [one(file.relative_to(request.path).as_posix()) for file in pictures]


def _masks(
    request: ReadRequest, files: Sequence[Path], pictures: Sequence[Path], prepared: Preparation
) -> list[Beside]:
    _, found, _ = masked.pairs(request.path, files)
    names = prepared.schema.classes
    known = np.array([int(name) for name in names] if all(map(str.isdecimal, names)) else range(len(names)))
    limits = request.options["max_bytes"], request.options["max_pixels"]
    canvas = (prepared.schema.shape[0], prepared.schema.shape[1])

    def one(file: Path) -> Beside:
        def mask(size: tuple[int, int], at: Placement) -> Any:
            del at
            try:
                numbers = masked.read_mask(found[file], *limits) if file in found else np.zeros((0, 0), int)
            except Unusable:
                return None
            ignored = numbers == request.options["ignore"]
            if numbers.shape != size or not np.isin(numbers[~ignored], known).all():
                return None
            classes = np.where(ignored, IGNORE, np.searchsorted(known, numbers)).astype(np.uint8)
            return place_mask(classes, canvas, IGNORE)

        return mask

    return [one(file) for file in pictures]


__all__ = ["Beside", "beside"]
