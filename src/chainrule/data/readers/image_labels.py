"""Labels of images in a CSV file: a row for each image, with its file and what is known about it.

The column called file (or filename, image, path), otherwise the first one, says which image is meant, by its path from
the folder on, with or without the ending. One further column holds classes, values, or several labels with | or ;
between them; several columns of 0 and 1 are labels, several of other numbers values.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, final

import numpy as np

from chainrule.core.errors import ArgumentError, suggest
from chainrule.data.column import Hints, is_missing
from chainrule.data.columns.number import NumberReading, recognise
from chainrule.data.loading import bounded
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import ReadRequest
from chainrule.data.readers import targets
from chainrule.data.readers.picture import Unusable
from chainrule.data.readers.raw import collect, delimited, names_of
from chainrule.data.readers.text import decode, lines
from chainrule.data.target import ReadTargets
from chainrule.data.targets import get

_FILE_NAMES = ("file", "filename", "file_name", "image", "path")
_BETWEEN = re.compile(r"\s*[|;]\s*")


@final
@dataclass(frozen=True)
class LabelList:
    """The labels of some images by their paths."""

    where: str
    columns: tuple[str, ...]
    """Names of the columns that are targets."""
    cells: Mapping[str, tuple[str, ...]]
    """What they hold for each image, by its path from the folder on."""
    target_as: str
    problems: tuple[Problem, ...]
    """What is odd about the list itself."""
    readings: tuple[NumberReading | None, ...]
    """How numbers are read, for each column; none for words."""

    @property
    def tags(self) -> bool:
        """Whether a cell may hold several labels."""
        if len(self.columns) > 1 or self.readings[0] is not None:
            return False
        several = self.target_as == targets.AUTO and any(
            _BETWEEN.search(one) for (one,) in self.cells.values()
        )
        return several or targets.wants_labels(self.target_as)

    def fault(self, name: str) -> Unusable | None:
        """Why an image has no usable label, if so."""
        if name not in self.cells:
            return Unusable("no label", f"not in {self.where}")
        for column, cell, reading in zip(self.columns, self.cells[name], self.readings, strict=True):
            if is_missing(cell) and not self.tags:
                return Unusable("no label", f"{self.where}: column {column!r} is empty")
            if reading is not None and not np.isfinite(reading.codes([cell])).all():
                fault = reading.fault(cell, column)
                return Unusable(fault.kind, f"{self.where}: {fault.detail}")
        return None

    def targets(self, names: Sequence[str]) -> ReadTargets:
        """The targets of images that have no fault."""
        cells = [self.cells[name] for name in names]
        if targets.wants_identities(self.target_as):
            return self._identities(cells)
        if all(reading is not None for reading in self.readings):
            codes = [
                reading.codes([row[j] for row in cells])
                for j, reading in enumerate(self.readings)
                if reading is not None
            ]
            values = np.stack(codes, axis=1) if len(codes) > 1 else codes[0]
            return targets.of_numbers(values, self.where, self.target_as, self.columns)
        if len(self.columns) > 1:
            word = next(c for c, reading in zip(self.columns, self.readings, strict=True) if reading is None)
            detail = f"column {word!r} holds words; several columns must be numbers"
            raise Refused("not values", self.where, detail, f"name the one to predict: data.target={word}")
        if not self.tags:
            if targets.wants_numbers(self.target_as):
                detail = f"column {self.columns[0]!r} holds words"
                raise Refused("not values", self.where, detail, "use data.target_as=class")
            return targets.of_words([row[0] for row in cells], self.where, self.target_as)
        return targets.of_tags([_BETWEEN.split(row[0]) for row in cells], self.where)

    def _identities(self, cells: Sequence[tuple[str, ...]]) -> ReadTargets:
        """Who is in each image, in words or numbers, and where there is a second column how far they are turned."""
        words = [row[0] for row in cells]
        if len(self.columns) == 1:
            return targets.of_words(words, self.where, self.target_as)
        reading = self.readings[1]
        if len(self.columns) > 2 or reading is None:
            detail = (
                f"identities need one column, and perhaps one of angles: there are {', '.join(self.columns)}"
            )
            remedy = f"name them: data.target={self.columns[0]} or data.target=WHO,DEGREES"
            raise Refused("not identities", self.where, detail, remedy)
        return get(self.target_as).with_angles(words, reading.codes([row[1] for row in cells]))


def read(request: ReadRequest, images: Sequence[str]) -> LabelList:
    """The list that the options name; `images` are the paths of all images from the folder on."""
    options = request.options
    path = file_of(request)
    where = path.name
    text, unreadable, notes = decode(
        bounded.read(path, where, options["max_bytes"], options["max_ratio"]), where
    )
    rows, faults = collect(delimited(lines(text), unreadable, where, plain=False))
    if len(rows) < 2:
        raise Refused("no rows", where, "no row can be read")
    # A cell that calls its column one of files is never a file itself, whatever stands beside it.
    headed = any(cell.lower() in _FILE_NAMES for cell in rows[0][1])
    names, header, _ = names_of(rows, headed or None, False, where)
    named = next((j for j, name in enumerate(names) if name.lower() in _FILE_NAMES), 0)
    wanted = _wanted(names, named, options["target"])
    known = _Names(request.path.name, images)
    cells: dict[str, tuple[str, ...]] = {}
    problems = [*notes, *(faults[line] for line in sorted(faults))]
    for line, row in rows[header:]:
        image = known.find(row[named])
        if image is None:
            problems.append(Problem("no such image", f"{where} line {line}", row[named], "note"))
        elif image in cells:
            problems.append(Problem("a second label", f"{where} line {line}", f"of {image}", "note"))
        else:
            cells[image] = tuple(row[j] for j in wanted)
    if not cells:
        detail = f"none of its {len(rows) - header:,} rows names an image of {request.path.name}"
        remedy = f"column {names[named]!r} must hold paths like {images[0]}" if images else ""
        raise Refused("no labels", where, detail, remedy)
    hints, columns = Hints(where), tuple(names[j] for j in wanted)
    held = [[row[k] for row in cells.values() if not is_missing(row[k])] for k in range(len(wanted))]
    readings = tuple(recognise(name, own, hints) for name, own in zip(columns, held, strict=True))
    # A row that cannot be read costs its image, which then has no label; that is where it counts.
    found = tuple(Problem(p.kind, p.where, p.detail, "note", p.remedy) for p in problems)
    return LabelList(where, columns, cells, options["target_as"], found, readings)


def file_of(request: ReadRequest) -> Path:
    """The file that the option names: absolute, in the folder of the images, or beside it."""
    given = Path(request.options["labels"]).expanduser()
    candidates = [request.path / given, request.path.parent / given]
    found = next((path for path in candidates if path.is_file()), None)
    if found is None:
        looked = " and ".join(str(path) for path in dict.fromkeys(candidates))
        raise Refused(
            "no labels", request.path.name, f"labels={given} does not exist", f"looked for: {looked}"
        )
    return found


def parse(value: Any) -> str:
    """The name of a file; a path with folders in it is one from here, and kept so that it is found from elsewhere."""
    if not isinstance(value, str) or not value:
        raise ValueError("the name of a CSV file")
    path = Path(value).expanduser()
    return str(path.resolve()) if len(path.parts) > 1 and path.is_file() else value


def _wanted(names: Sequence[str], named: int, target: Any) -> list[int]:
    """Positions of the columns that are targets."""
    others = [j for j in range(len(names)) if j != named]
    if target == "folder":  # the default: whatever the list says
        if not others:
            raise ArgumentError(
                "labels: the list has one column, which names the files", remedy="add their labels"
            )
        return others
    chosen = target if isinstance(target, list) else [target]
    for one in chosen:
        if one not in names:
            raise ArgumentError(
                f"target={one!r}: the list of labels has no such column{suggest(str(one), names)}",
                remedy=f"columns: {', '.join(names[j] for j in others[:12])}",
            )
    return [list(names).index(one) for one in chosen]


@final
class _Names:
    """Images by the ways in which a list may name them."""

    def __init__(self, folder: str, images: Sequence[str]) -> None:
        self._folder = folder
        self._exact = set(images)
        self._bare: dict[str, str | None] = {}
        for image in images:
            bare = str(PurePosixPath(image).with_suffix(""))
            self._bare[bare] = None if bare in self._bare else image  # of two with one name neither is meant

    def find(self, given: str) -> str | None:
        """The image that is meant, if there is one."""
        path = str(PurePosixPath(given.replace("\\", "/")))
        for name in (path, path.removeprefix(f"{self._folder}/")):
            found = name if name in self._exact else self._bare.get(name)
            if found is not None:
                return found
        return None


__all__ = ["LabelList", "file_of", "parse", "read"]
