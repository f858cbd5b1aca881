"""Folders of images with masks: `images/` and `masks/`, a PNG for each image that holds the class of every pixel.

A mask has the size of its image and one number for each pixel: grey values, or the numbers of a palette. Names of the
classes stand in `classes.txt`, a line for each number from 0 on; without it the values themselves are the names.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Int

from chainrule.data.loading import bounded
from chainrule.data.loading.options import MAX_RATIO, NO_COLUMN, Option, choice, optional, whole
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import ReadRequest, Scan, SourceReader
from chainrule.data.loading.walking import files_of
from chainrule.data.placement import place_image, place_mask
from chainrule.data.readers import images, text
from chainrule.data.readers.picture import Notes, Unusable, decode
from chainrule.data.targets.mask import IGNORE

IMAGES, MASKS, NAMES = "images", "masks", "classes.txt"
_MOST_VALUES = 64
"""Different values of masks without a list of classes; more are no classes."""
_ONE_NUMBER = ("1", "L", "P", "I", "I;16")
"""Modes of images that hold one number for each pixel."""


def has_masks(folder: Path) -> bool:
    """Whether a folder, or one below it, holds `images` and `masks`."""
    return any({IMAGES, MASKS} <= set(folders) for _, folders, _ in os.walk(folder, followlinks=False))


def read_mask(file: Path, max_bytes: int, max_pixels: int) -> Int[np.ndarray, "height width"]:
    """The numbers in a mask."""
    from PIL import Image

    try:
        data = bounded.read(file, file.name, max_bytes, 1)
    except Refused as refused:
        raise Unusable("bad mask", refused.problem.reason) from None
    try:
        with Image.open(BytesIO(data), formats=["PNG"]) as image:
            if image.width * image.height > max_pixels:
                raise Unusable("bad mask", f"more than max_pixels={max_pixels}")
            if image.mode not in _ONE_NUMBER:
                detail = f"it is in colour ({image.mode}); a mask holds one number for each pixel"
                raise Unusable("bad mask", detail)
            return np.asarray(image).astype(np.int64)
    except (OSError, SyntaxError, ValueError) as error:
        raise Unusable("bad mask", f"not a PNG that can be read ({error})") from None


@final
class MaskPlacing:
    """Reads images with their masks, and brings both to one size."""

    def __init__(self, request: ReadRequest, masks: Mapping[Path, Path], names: Sequence[str]) -> None:
        self._request, self._masks, self._names = request, masks, names
        self.kept: list[np.ndarray] = []
        """The mask of each image that was read; -1 where nothing counts."""
        self.unknown: Counter[int] = Counter()
        """Values that the list of classes does not name, and in how many masks."""

    def __call__(self, file: Path) -> tuple[np.ndarray, Notes]:
        """Pixels, and what was noticed on the way."""
        options = self._request.options
        limits = options["max_pixels"], options["max_bytes"]
        pixels, notes = decode(file, None, *limits, options["convert"])
        mask = read_mask(self._masks[file], limits[1], limits[0])
        if mask.shape != pixels.shape[:2]:
            sizes = (f"{shape[1]}×{shape[0]}" for shape in (mask.shape, pixels.shape))
            raise Unusable("wrong size", "the mask has {} pixels, the image {}".format(*sizes))
        if options["ignore"] is not None:
            mask = np.where(mask == options["ignore"], -1, mask)
        values = np.unique(mask)
        wrong = values[values >= len(self._names)].tolist() if self._names else []
        if wrong:
            self.unknown.update(wrong)
            shown = ", ".join(map(str, wrong[:8])) + (", ..." if len(wrong) > 8 else "")
            detail = f"{self._request.shown(self._masks[file])} holds {shown}; {len(self._names)} classes are named"
            raise Unusable("value without a class", detail)
        if options["size"] is not None:
            canvas = (options["size"][0], options["size"][1])
            pixels, _ = place_image(pixels, canvas)
            mask = place_mask(mask.astype(np.int32), canvas, -1)
        self.kept.append(mask.astype(np.int32))
        return pixels, notes


def pairs(root: Path, files: Sequence[Path]) -> tuple[list[Path], dict[Path, Path], list[Path]]:
    """Images, the mask of each that has one, and masks without an image."""
    pictures = [f for f in files if f.suffix.lower() in images.PICTURES and _folder(root, f) == IMAGES]
    masks = [f for f in files if f.suffix.lower() == ".png" and _folder(root, f) == MASKS]
    by_key = {_key(root, file, MASKS): file for file in masks}
    found = {file: by_key.pop(key) for file in pictures if (key := _key(root, file, IMAGES)) in by_key}
    return pictures, found, [file for file in masks if file in by_key.values()]


def _folder(root: Path, file: Path) -> str:
    """Whether a file is among the images or the masks: by the last folder above it that is called so."""
    return next((part for part in reversed(file.relative_to(root).parts[:-1]) if part in (IMAGES, MASKS)), "")


def _key(root: Path, file: Path, folder: str) -> tuple[str, ...]:
    """The path of a file without that folder and without its ending."""
    parts = list(file.relative_to(root).with_suffix("").parts)
    parts.pop(len(parts) - 1 - parts[::-1].index(folder))
    return tuple(parts)


def _scan(request: ReadRequest) -> Scan:
    root, options = request.path, request.options
    files = files_of(root, options["max_files"], options["links"])
    pictures, masks, idle = pairs(root, files)
    names = class_names(request)
    plain = options["target"] == NO_COLUMN
    missing = Unusable("missing mask", f"there is no PNG of its name in {MASKS}")
    faults = [None if plain or file in masks else missing for file in pictures]
    parts = [part for part, _ in images.divided(root, [_without(root, file) for file in pictures])]
    annotations = [images.ImageAnnotation(part, None) for part in parts]
    placing = MaskPlacing(request, masks, names)
    scan = images.gather(request, pictures, annotations, faults, read=None if plain else placing)
    problems = [
        *(Problem("missing image", request.shown(file), "for this mask", "note") for file in idle),
        *scan.problems,
    ]
    if placing.unknown:
        problems = [_with_remedy(problem, placing.unknown) for problem in problems]
    contents = scan.contents
    if contents is not None and not plain:
        try:
            y, classes = _numbered(placing.kept, names, root.name)
        except Refused as refused:
            return replace(scan, problems=(*problems, refused.problem), contents=None)
        contents = replace(contents, y=y, target="mask", classes=classes)
    return replace(scan, problems=tuple(problems), contents=contents)


def _without(root: Path, file: Path) -> Path:
    """A path without the folder of the images, so that those above it divide them."""
    parts = list(file.relative_to(root).parts)
    parts.remove(IMAGES)
    return root.joinpath(*parts)


def _with_remedy(problem: Problem, unknown: Counter[int]) -> Problem:
    if problem.kind != "value without a class":
        return problem
    value = unknown.most_common(1)[0][0]
    return replace(
        problem,
        remedy=f"name more classes in {NAMES}; or, for pixels that count for none: data.ignore={value}",
    )


def class_names(request: ReadRequest) -> list[str]:
    """The list of classes of a folder; nothing where it has none."""
    file = request.path / NAMES
    if not file.is_file():
        return []
    data = bounded.read(file, NAMES, request.options["max_bytes"], request.options["max_ratio"])
    names = [name.strip() for name in text.clean(data, NAMES)[0].splitlines() if name.strip()]
    if len(set(names)) < len(names) or not 2 <= len(names) < IGNORE:
        detail = f"{len(names)} names; there must be between 2 and {IGNORE - 1}, all different"
        raise Refused("bad list of classes", NAMES, detail)
    return names


def _numbered(
    masks: Sequence[np.ndarray], names: Sequence[str], where: str
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Masks of class numbers and the names of the classes."""
    values = sorted({int(value) for mask in masks for value in np.unique(mask)} - {-1})
    if names:
        known = np.arange(len(names))
    elif len(values) > _MOST_VALUES:
        detail = f"masks hold {len(values)} different values, from {values[0]} to {values[-1]}"
        remedy = (
            f"masks hold class numbers, a few values; name the classes in {NAMES}, a line for each from 0 on"
        )
        raise Refused("too many classes", where, detail, remedy)
    else:
        known = np.array(values, np.int64)
    stacked = np.stack(masks)
    y = np.searchsorted(known, stacked).astype(np.uint8)
    y[stacked < 0] = IGNORE
    return y, tuple(names) or tuple(str(value) for value in values)


_LABELS = ("target", "target_as", "labels", "binarize")
_IMAGES: dict[str, Any] = {
    name: option for name, option in images.reader.options.items() if name not in _LABELS
}

reader = SourceReader(
    "images with masks",
    "images",
    {
        **_IMAGES,
        "size": replace(
            images.reader.options["size"], help="height and width to bring images to, as a whole"
        ),
        "target": Option(
            "mask", choice("mask", NO_COLUMN), "whether masks are read, or images by themselves"
        ),
        "ignore": Option(
            None, optional(whole(0, 65535)), "value of pixels that belong to no class and count for none"
        ),
        "max_ratio": MAX_RATIO,
    },
    _scan,
)

__all__ = [
    "IMAGES",
    "MASKS",
    "NAMES",
    "MaskPlacing",
    "class_names",
    "has_masks",
    "pairs",
    "read_mask",
    "reader",
]
