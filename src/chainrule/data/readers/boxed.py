"""Folders of images with boxes: a COCO JSON file, YOLO text files, or `boxes.csv`.

A bad box costs its image, which would otherwise teach that the object in it is ground. Images of different sizes are
brought to one as a whole, and their boxes with them.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import numpy as np

from chainrule.data.loading.options import MAX_RATIO, NO_COLUMN, Option, choice, flag, optional
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import ReadRequest, Scan, SourceReader
from chainrule.data.loading.walking import files_of
from chainrule.data.placement import Placement, place_image
from chainrule.data.readers import box_lists, images
from chainrule.data.readers.box_lists import CSV, BoxList, ImagePaths, ListedBox
from chainrule.data.readers.picture import Notes, Unusable, decode
from chainrule.data.targets.boxes import filled

_SLACK = 1.0
"""Pixels by which rounding may take an edge out of its image."""


def has_boxes(folder: Path) -> bool:
    """Whether the images of a folder come with boxes."""
    if (folder / CSV).is_file():
        return True
    for here, _, names in os.walk(folder, followlinks=False):
        pictures = sorted(name for name in names if Path(name).suffix.lower() in images.PICTURES)
        # The first that has rows decides; those before it may show background.
        lists = (box_lists.label_file(Path(here, name)) for name in pictures)
        own = next((one for one in lists if one is not None and one.stat().st_size), None)
        if own is not None and box_lists.is_yolo(own):
            return True
        if any(box_lists.is_coco(Path(here, name)) for name in names if name.lower().endswith(".json")):
            return True
    return False


@final
class BoxPlacing:
    """Reads images, holds their boxes against them, and brings both to one size."""

    def __init__(self, request: ReadRequest, found: BoxList) -> None:
        self._request, self._found = request, found
        self._number = {name: number for number, name in enumerate(found.classes)}
        self.kept: list[np.ndarray] = []
        """Rows (x0, y0, x1, y1, class) of each image that was read."""
        self.cut = 0
        """Boxes whose edges were a fraction of a pixel outside."""

    def __call__(self, file: Path) -> tuple[np.ndarray, Notes]:
        """Pixels, and what was noticed on the way."""
        options, path = self._request.options, file.relative_to(self._request.path).as_posix()
        pixels, notes = decode(file, None, options["max_pixels"], options["max_bytes"], options["convert"])
        size = (pixels.shape[0], pixels.shape[1])
        listed = self._found.sizes.get(path)
        if listed is not None and listed != size:
            detail = f"{size[1]}×{size[0]} pixels; the list of boxes says {listed[1]}×{listed[0]}"
            raise Unusable("wrong size", detail)
        boxes = np.array([self.checked(one, size) for one in self._found.boxes.get(path, [])])
        boxes = boxes.reshape(-1, 5)
        at = Placement()
        if options["size"] is not None:
            height, width = options["size"]
            pixels, at = place_image(pixels, (height, width))
        self.kept.append(np.concatenate([at.placed(boxes[:, :4]), boxes[:, 4:]], axis=1))
        return pixels, notes

    def checked(self, box: ListedBox, size: tuple[int, int]) -> tuple[float, ...]:
        """(x0, y0, x1, y1, class) of a box in an image of this (height, width); an error if it cannot be one."""
        height, width = size
        x0, y0, x1, y1 = (
            edge * side if box.relative else edge
            for edge, side in zip(box.edges, (width, height, width, height), strict=True)
        )
        shown = f"{box.where}: ({x0:g}, {y0:g}, {x1:g}, {y1:g})"
        if not all(map(math.isfinite, (x0, y0, x1, y1))):
            raise Unusable("box with NaN", shown)
        if x1 <= x0 or y1 <= y0:
            raise Unusable("empty box", f"{shown}: x0 < x1 and y0 < y1 must hold")
        out = max(-x0, -y0, x1 - width, y1 - height)
        cut = (max(x0, 0.0), max(y0, 0.0), min(x1, float(width)), min(y1, float(height)))
        gone = cut[2] <= cut[0] or cut[3] <= cut[1]
        if gone or (out > _SLACK and not self._request.options["clip"]):
            raise Unusable("box outside the image", f"{shown} in an image of {width}×{height}")
        self.cut += out > 0
        return (*cut, float(self._number[box.label]))


def listed(request: ReadRequest, files: Sequence[Path], pictures: Sequence[Path]) -> BoxList:
    """The boxes of all images, by whatever list there is."""
    found = BoxList()
    by_path = {file.relative_to(request.path).as_posix(): file for file in pictures}
    paths = ImagePaths(by_path)
    named = request.options["boxes"]
    lists = [file for file in files if file.name == CSV]
    lists = lists or [f for f in files if f.suffix.lower() == ".json" and box_lists.is_coco(f)]
    if named is not None:
        lists = [request.path / named]
        if not lists[0].is_file():
            detail = f"boxes={named} does not exist in this folder"
            raise Refused("no boxes", request.path.name, detail, "give its path from the folder on")
    for file in lists:
        read = box_lists.read_coco if file.suffix.lower() == ".json" else box_lists.read_csv
        read(request, file, paths, found)
    if not lists:
        box_lists.read_yolo(request, by_path, found)
    labels = {box.label for boxes in found.boxes.values() for box in boxes}
    found.classes = found.classes or tuple(sorted(labels))
    return found


def _scan(request: ReadRequest) -> Scan:
    root, options = request.path, request.options
    files = files_of(root, options["max_files"], options["links"])
    pictures = [file for file in files if file.suffix.lower() in images.PICTURES]
    found = listed(request, files, pictures)
    names = [file.relative_to(root).as_posix() for file in pictures]
    idle = [
        Problem(
            "no boxes",
            request.shown(file),
            "the list does not name it: taken for one without objects",
            "note",
        )
        for name, file in zip(names, pictures, strict=True)
        if name not in found.boxes
    ]
    annotations = [images.ImageAnnotation(part, None) for part, _ in images.divided(root, pictures)]
    faults = [Unusable(*found.faults[name]) if name in found.faults else None for name in names]
    placing = BoxPlacing(request, found)
    scan = images.gather(request, pictures, annotations, faults, read=placing)
    problems = [_with_remedy(problem, options) for problem in (*found.problems, *idle, *scan.problems)]
    if placing.cut:
        detail = f"{placing.cut:,} boxes reach beyond the edge of their image and are cut off there"
        problems.append(Problem("cut off", root.name, detail, "note"))
    missing = sum(problem.kind == "missing file" for problem in found.problems)
    contents = scan.contents
    if contents is not None and options["target"] != NO_COLUMN:
        contents = replace(contents, y=filled(placing.kept), target="boxes", classes=found.classes)
    return Scan(scan.total + missing, scan.usable, tuple(problems), contents)


def _with_remedy(problem: Problem, options: Any) -> Problem:
    if problem.kind == "box outside the image" and not options["clip"]:
        return replace(problem, remedy="cut boxes off at the edges of their images: data.clip=true")
    if problem.kind == "mixed sizes":
        remedy = problem.remedy.replace("scaled and cropped at the centre", "scaled as a whole")
        return replace(problem, remedy=remedy)
    return problem


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value or Path(value).is_absolute() or ".." in Path(value).parts:
        raise ValueError("the path of a file from the folder on")
    return value


_LABELS = ("target", "target_as", "labels", "binarize")
_IMAGES = {name: option for name, option in images.reader.options.items() if name not in _LABELS}

reader = SourceReader(
    "images with boxes",
    "images",
    {
        **_IMAGES,
        "size": replace(
            images.reader.options["size"], help="height and width to bring images to, as a whole"
        ),
        "target": Option(
            "boxes", choice("boxes", NO_COLUMN), "whether boxes are read, or images by themselves"
        ),
        "boxes": Option(
            None,
            optional(_name),
            "which COCO JSON or CSV file in the folder holds the boxes, where there are several",
        ),
        "clip": Option(False, flag, "cut boxes that reach out of their image off at its edges"),
        "max_ratio": MAX_RATIO,
    },
    _scan,
)

__all__ = ["BoxPlacing", "has_boxes", "listed", "reader"]
