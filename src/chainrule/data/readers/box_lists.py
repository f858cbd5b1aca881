"""Lists of boxes in files: COCO's JSON, YOLO's text files, CSV.

A list says which boxes each image has, by its path from the folder on. What it says is believed only as far as the
images bear it out: that is checked once they are decoded.
"""

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, final

import yaml

from chainrule.core.quoting import plain
from chainrule.data.loading import bounded
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import ReadRequest
from chainrule.data.readers import text
from chainrule.data.readers.raw import collect, delimited, names_of

CSV = "boxes.csv"
_EDGES = (("x0", "xmin", "left"), ("y0", "ymin", "top"), ("x1", "xmax", "right"), ("y1", "ymax", "bottom"))
_FILES = ("file", "filename", "file_name", "image", "path")
_LABELS = ("class", "label", "name", "category")
_COCO = ("images", "annotations", "categories")
_SNIFFED = 2**16
_MOST_CLASSES = 10_000
"""Classes of text files that no list names; a larger number is none, and must not take the memory of so many."""


class ListedBox(NamedTuple):
    """A box as a list has it."""

    edges: tuple[float, float, float, float]
    """(x0, y0, x1, y1)."""
    label: str
    where: str
    """The line or number in the list."""
    relative: bool = False
    """Whether the edges are shares of width and height."""


@final
@dataclass
class BoxList:
    """The boxes of some images."""

    boxes: dict[str, list[ListedBox]] = field(default_factory=dict)
    """By the path of the image from the folder on."""
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """(height, width) of images, where the list says so."""
    classes: tuple[str, ...] = ()
    """Names in their order, where the list gives one; otherwise that of the alphabet."""
    problems: list[Problem] = field(default_factory=list)
    faults: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Kind and detail of what is wrong with the list of an image."""


@final
class ImagePaths:
    """Images by the ways in which a list may name them: the whole path, or its last parts where these are unique."""

    def __init__(self, names: Iterable[str]) -> None:
        self._exact = set(names)
        self._by_end: dict[str, str | None] = {}
        for name in sorted(self._exact):
            parts = PurePosixPath(name).parts
            for first in range(1, len(parts)):
                end = "/".join(parts[first:])
                self._by_end[end] = None if end in self._by_end else name

    def find(self, given: str, beside: PurePosixPath) -> str | None:
        """The image that is meant, if there is one; `beside` is the folder of the list."""
        parts = PurePosixPath(given.replace("\\", "/")).parts
        for first in range(len(parts)):
            end = PurePosixPath(*parts[first:])
            for name in (str(beside / end), str(end)):
                found = name if name in self._exact else self._by_end.get(name)
                if found is not None:
                    return found
        return None


def _shown(request: ReadRequest, file: Path) -> str:
    """A list as a person would look for it; it may lie outside of the folder."""
    return request.shown(file) if file.is_relative_to(request.path.parent) else file.name


def _beside(request: ReadRequest, file: Path) -> PurePosixPath:
    """The folder of a list, from the folder of the images on."""
    inside = file.is_relative_to(request.path)
    return PurePosixPath(file.parent.relative_to(request.path).as_posix() if inside else "")


# ---------------------------------------------------------------------- COCO


def is_coco(file: Path) -> bool:
    """Whether a JSON file seems to hold images, annotations and categories, by its first bytes."""
    with file.open("rb") as stream:
        start = stream.read(_SNIFFED)
    return start.lstrip()[:1] == b"{" and any(f'"{name}"'.encode() in start for name in _COCO)


def read_coco(request: ReadRequest, file: Path, paths: ImagePaths, found: BoxList) -> None:
    """Boxes of a file in COCO's format, added to a list; crowds are left out and noted."""
    where = _shown(request, file)
    data = bounded.read(file, where, request.options["max_bytes"], request.options["max_ratio"])
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Refused("not JSON", where, plain(str(error), 80)) from None
    images, annotations, categories = (_rows(whole, name, where) for name in _COCO)
    names = {_whole(row.get("id")): str(row.get("name", row.get("id"))) for row in categories}
    if len(set(names.values())) < len(categories) or None in names:
        raise Refused("same name twice", where, "two categories have one name or one id, or one has no id")
    own = tuple(names[number] for number in sorted(number for number in names if number is not None))
    if found.classes and set(own) != set(found.classes):
        detail = "its categories are not those of the other lists"
        raise Refused("other classes", where, detail, "name one list: data.boxes=FILE")
    found.classes = found.classes or own
    files: dict[int | None, str] = {}
    for row in images:
        called = str(row.get("file_name", ""))
        path = paths.find(called, _beside(request, file)) if called else None
        if path is None:
            found.problems.append(Problem("missing file", where, called or "an image without file_name"))
            continue
        files[_whole(row.get("id"))] = path
        found.boxes.setdefault(path, [])
        height, width = _whole(row.get("height")), _whole(row.get("width"))
        if height and width:
            found.sizes[path] = (height, width)
    known = {_whole(row.get("id")) for row in images}
    for number, row in enumerate(annotations):
        at = f"{where} annotation {row.get('id', number)}"
        image = _whole(row.get("image_id"))
        if image in files:
            _annotate(row, names.get(_whole(row.get("category_id"))), files[image], at, found)
        elif image not in known:
            found.problems.append(Problem("no such image", at, f"image_id {row.get('image_id')!r}", "note"))


def _annotate(row: Mapping[str, Any], label: str | None, path: str, at: str, found: BoxList) -> None:
    """One annotation of an image, added to its boxes."""
    if row.get("iscrowd") == 1:
        found.problems.append(Problem("crowd", at, "a region of many objects is left out", "note"))
        return
    edges = _numbers(row.get("bbox"))
    if label is None or edges is None:
        wrong = f"category_id {row.get('category_id')!r}" if label is None else f"bbox {row.get('bbox')!r}"
        found.faults[path] = ("bad box", f"{at}: {plain(wrong, 60)}")
        return
    x, y, width, height = edges
    found.boxes[path].append(ListedBox((x, y, x + width, y + height), label, at))


def _rows(whole: Any, name: str, where: str) -> list[Mapping[str, Any]]:
    """One of the lists of COCO's format."""
    rows = whole.get(name) if isinstance(whole, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        detail = "COCO's format is an object with the lists images, annotations and categories"
        raise Refused("not boxes", where, detail)
    return rows


# ---------------------------------------------------------------------- YOLO


def label_file(image: Path) -> Path | None:
    """The text file with the boxes of an image: beside it, or in a folder `labels` where the image is in `images`."""
    parts = list(image.parts)
    spots = [image.with_suffix(".txt")]
    for index in range(len(parts) - 2, -1, -1):
        if parts[index] == "images":
            spots.append(Path(*parts[:index], "labels", *parts[index + 1 :]).with_suffix(".txt"))
            break
    return next((spot for spot in spots if spot.is_file()), None)


def is_yolo(file: Path) -> bool:
    """Whether a text file holds rows of a class number and four shares; one without rows may."""
    with file.open("rb") as stream:
        rows = stream.read(_SNIFFED).decode("utf-8", errors="replace").splitlines()
    return all(_row(row) is not None for row in rows[:20] if row.strip())


def read_yolo(request: ReadRequest, images: Mapping[str, Path], found: BoxList) -> None:
    """Boxes of text files, one for each image, added to a list; an image without a file has none."""
    names = _yolo_names(request)
    most = 0
    for path, image in images.items():
        own = label_file(image)
        found.boxes[path] = []
        if own is None:
            found.problems.append(
                Problem("no boxes", request.shown(image), "there is no text file for it", "note")
            )
            continue
        where = request.shown(own)
        data = bounded.read(own, where, request.options["max_bytes"], request.options["max_ratio"])
        for line, row in enumerate(data.decode("utf-8", errors="replace").splitlines(), start=1):
            if not row.strip():
                continue
            read = _row(row)
            if read is None:
                detail = (
                    f"{where} line {line}: {plain(row, 40)!r} is not class, centre x, centre y, width, height"
                )
                found.faults[path] = ("bad box", detail)
                break
            number, (x, y, width, height) = read
            if number >= (len(names) or _MOST_CLASSES):
                known = (
                    f"{len(names)} classes have names" if names else f"without names up to {_MOST_CLASSES:,}"
                )
                found.faults[path] = ("unknown class", f"{where} line {line}: class {number}; {known}")
                break
            most = max(most, number)
            edges = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            label = names[number] if names else str(number)
            found.boxes[path].append(ListedBox(edges, label, f"{where} line {line}", relative=True))
    found.classes = tuple(names) or tuple(str(number) for number in range(most + 1))


def _row(row: str) -> tuple[int, tuple[float, ...]] | None:
    """A class number and four finite numbers; NaN is a number here, and found out later."""
    cells = row.split()
    if len(cells) != 5 or not cells[0].isdecimal():
        return None
    try:
        return int(cells[0]), tuple(map(float, cells[1:]))
    except ValueError:
        return None


def _yolo_names(request: ReadRequest) -> list[str]:
    """Names of the classes from `data.yaml`, `classes.txt` or `obj.names`, where one is there."""
    for file in (request.path / "data.yaml", request.path / "data.yml"):
        if file.is_file():
            data = bounded.read(file, file.name, request.options["max_bytes"], request.options["max_ratio"])
            try:
                read = yaml.safe_load(data)
            except yaml.YAMLError as error:
                raise Refused("not YAML", file.name, plain(str(error), 80)) from None
            names = read.get("names") if isinstance(read, dict) else None
            if isinstance(names, dict) and sorted(names) == list(range(len(names))):
                names = [names[number] for number in range(len(names))]
            if not isinstance(names, list) or not names:
                raise Refused("no classes", file.name, "names must be a list of the classes")
            return _unique([str(name) for name in names], file.name)
    for called in ("classes.txt", "obj.names"):
        file = request.path / called
        if file.is_file():
            data = bounded.read(file, called, request.options["max_bytes"], request.options["max_ratio"])
            return _unique(
                [name.strip() for name in text.clean(data, called)[0].splitlines() if name.strip()], called
            )
    return []


def _unique(names: list[str], where: str) -> list[str]:
    if len(set(names)) < len(names):
        raise Refused("same name twice", where, "two classes have one name", "rename one of them")
    return names


# ---------------------------------------------------------------------- CSV


def read_csv(request: ReadRequest, file: Path, paths: ImagePaths, found: BoxList) -> None:
    """Boxes of a CSV file, a row for each, added to a list; a row of a file alone says that it has none."""
    where = _shown(request, file)
    data = bounded.read(file, where, request.options["max_bytes"], request.options["max_ratio"])
    decoded, unreadable, notes = text.decode(data, where)
    rows, faults = collect(delimited(text.lines(decoded), unreadable, where, plain=False))
    if not rows:
        raise Refused("no rows", where, "no row can be read")
    names, header, _ = names_of(rows, None, False, where)
    lower = [name.lower() for name in names]
    columns = [
        next((lower.index(one) for one in known if one in lower), None)
        for known in (_FILES, _LABELS, *_EDGES)
    ]
    if not header or any(column is None for column in columns):
        detail = f"columns {', '.join(names[:8])}"
        remedy = "its first row must name the columns file, x0, y0, x1, y1, class (or xmin, ymin, xmax, ymax, label)"
        raise Refused("no boxes", where, detail, remedy)
    at = [column for column in columns if column is not None]
    found.problems += [*notes, *(faults[line] for line in sorted(faults))]
    for line, row in itertools.islice(rows, 1, None):
        called, label, *cells = (row[column] for column in at)
        path = paths.find(called, _beside(request, file))
        if path is None:
            found.problems.append(Problem("missing file", f"{where} line {line}", called))
            continue
        own = found.boxes.setdefault(path, [])
        if not label and not any(cells):
            continue
        edges = _numbers([_number(cell) for cell in cells])
        if edges is None or not label:
            found.faults[path] = (
                "bad box",
                f"{where} line {line}: {plain(', '.join(cells), 40)!r}, {label!r}",
            )
            continue
        own.append(ListedBox(edges, label, f"{where} line {line}"))


# ---------------------------------------------------------------------- numbers


def _numbers(value: Any) -> tuple[float, float, float, float] | None:
    """Four numbers, finite or not."""
    if not isinstance(value, Sequence) or len(value) != 4:
        return None
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in value):
        return None
    try:
        a, b, c, d = (float(one) for one in value)
    except OverflowError:  # a whole number of hundreds of digits
        return None
    return a, b, c, d


def _number(cell: str) -> float | None:
    try:
        return float(cell) if cell else math.nan
    except ValueError:
        return None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


__all__ = [
    "CSV",
    "BoxList",
    "ImagePaths",
    "ListedBox",
    "is_coco",
    "is_yolo",
    "label_file",
    "read_coco",
    "read_csv",
    "read_yolo",
]
