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

Beside: TypeAlias = Callable[[tuple[int, int], Placement, tuple[int, int]], Any]
"""From the size (height, width) of an image, where it lies on a canvas, and the size of that to its target, if any.

`Unusable` where there is one that does not go with the image or with the run.
"""


def usable(beside: Beside, size: tuple[int, int], at: Placement, canvas: tuple[int, int]) -> Any:
    """The target on a canvas, or nothing where it cannot be used."""
    try:
        return beside(size, at, canvas)
    except Unusable:
        return None


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
        def known(size: tuple[int, int], at: Placement, canvas: tuple[int, int]) -> Any:
            del canvas
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
    numbered = _numbered(masked.class_names(request), prepared.schema.classes)
    known, classes = np.array([*numbered]), np.array([*numbered.values()])
    limits = request.options["max_bytes"], request.options["max_pixels"]

    def one(file: Path) -> Beside:
        def mask(size: tuple[int, int], at: Placement, canvas: tuple[int, int]) -> Any:
            del at
            if file not in found:
                return None
            numbers = masked.read_mask(found[file], *limits)
            if numbers.shape != size:
                sizes = (f"{shape[1]}×{shape[0]}" for shape in (numbers.shape, size))
                raise Unusable("wrong size", "the mask has {} pixels, the image {}".format(*sizes))
            if not numbered:
                raise Unusable("value without a class", f"{masked.NAMES} names no class of the run")
            ignored = numbers == request.options["ignore"]
            unknown = np.setdiff1d(numbers[~ignored], known)
            if len(unknown):
                shown = ", ".join(map(str, unknown[:8].tolist())) + (", ..." if len(unknown) > 8 else "")
                detail = f"it holds {shown}; the classes of the run are {', '.join(map(str, known.tolist()))}"
                raise Unusable("value without a class", detail)
            indices = np.searchsorted(known, np.where(ignored, known[0], numbers))
            return place_mask(np.where(ignored, IGNORE, classes[indices]).astype(np.uint8), canvas, IGNORE)

        return mask

    return [one(file) for file in pictures]


def _numbered(own: Sequence[str], names: Sequence[str]) -> dict[int, int]:
    """The class of the run for each value of a mask: by the folder's list of classes, else as the run names them."""
    if own:
        return {value: names.index(name) for value, name in enumerate(own) if name in names}
    if all(map(str.isdecimal, names)):
        return dict(sorted((int(name), number) for number, name in enumerate(names)))
    return {number: number for number in range(len(names))}


__all__ = ["Beside", "beside", "usable"]
