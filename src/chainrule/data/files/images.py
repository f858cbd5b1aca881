"""Folders of PNG and JPEG images, with the names of subfolders as classes.

Top folders called `train`, `val` and `test` divide the images instead. Pictures in grey keep one channel; if any is in
colour, all become RGB. Every file is decoded to its last byte before anything is trained.
"""

import os
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, final

import numpy as np

from chainrule.data.files.picture import FORMATS, MOST_PIXELS, Unusable, decode
from chainrule.data.options import BINARIZE, MAX_BYTES, Option, choice, guard, optional, size
from chainrule.data.scan import Contents, Problem, Reader, Refused, Request, Scan

PICTURES = {*FORMATS, ".gif", ".bmp", ".webp", ".tif", ".tiff", ".heic", ".avif"}
_PARTS = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}


class _Place(NamedTuple):
    """What the folders of an image say about it."""

    part: int | None
    name: str | None


@final
@dataclass
class _Gathered:
    """Images read so far, kept only as long as they can be put together."""

    root: str
    max_bytes: int
    arrays: list[np.ndarray] = field(default_factory=list)
    places: list[_Place] = field(default_factory=list)
    sizes: Counter[tuple[int, ...]] = field(default_factory=Counter)
    nbytes: int = 0

    def add(self, array: np.ndarray, place: _Place) -> None:
        """One more image."""
        self.places.append(place)
        self.sizes[array.shape[:2]] += 1
        self.nbytes += array.nbytes
        if len(self.sizes) == 1 and self.nbytes <= self.max_bytes:
            self.arrays.append(array)
        else:
            self.arrays.clear()

    def contents(self) -> Contents:
        """All of them together."""
        if len(self.sizes) > 1:
            common = self.sizes.most_common()
            shown = ", ".join(f"{h}×{w} ({count:,})" for (h, w), count in common[:4])
            more = f" and {len(common) - 4} more" if len(common) > 4 else ""
            detail = f"images of {len(common)} different sizes (height×width): {shown}{more}"
            remedy = f"bring them to one, scaled and cropped at the centre: data.size={min(common[0][0])}"
            raise Refused("mixed sizes", self.root, detail, remedy)
        if self.nbytes > self.max_bytes:
            detail = (
                f"the images take {self.nbytes:,} bytes in memory, more than max_bytes={self.max_bytes:,}"
            )
            remedy = f"make them smaller: data.size=64; or, with enough memory: data.max_bytes={self.nbytes}"
            raise Refused("too large", self.root, detail, remedy)
        channels = max(array.shape[2] for array in self.arrays)
        x = np.stack([np.broadcast_to(array, (*array.shape[:2], channels)) for array in self.arrays])
        classes = sorted({place.name for place in self.places if place.name is not None})
        number = {name: i for i, name in enumerate(classes)}
        parts = [place.part for place in self.places if place.part is not None]
        return Contents(
            "image",
            x,
            np.array([number[p.name] for p in self.places if p.name is not None], np.int32)
            if classes
            else None,
            "class" if classes else "none",
            classes=tuple(classes),
            levels=256,
            parts=np.array(parts) if len(set(parts)) > 1 else None,
        )


def files_of(folder: Path, max_files: int) -> list[Path]:
    """Every file below a folder, hidden ones left out, sorted by path; a folder reached twice is entered once."""
    found: list[Path] = []
    seen: set[str] = set()
    for here, folders, names in os.walk(folder, followlinks=True):
        seen.add(os.path.realpath(here))
        folders[:] = [
            name
            for name in sorted(folders)
            if not name.startswith((".", "__MACOSX")) and os.path.realpath(Path(here, name)) not in seen
        ]
        found += [Path(here, name) for name in names if not name.startswith(".") and name != "Thumbs.db"]
        if len(found) > max_files:
            detail = f"more than max_files={max_files:,} files"
            raise Refused(
                "too many files", folder.name, detail, f"to read them all: data.max_files={10 * max_files}"
            )
    return sorted(found, key=lambda path: path.relative_to(folder).parts)


def has_pictures(folder: Path) -> bool:
    """Whether a folder holds picture files at any depth."""
    return any(
        Path(name).suffix.lower() in PICTURES
        for _, _, names in os.walk(folder, followlinks=False)
        for name in names
    )


def _places(root: Path, files: Sequence[Path], target: str) -> list[_Place]:
    folders = [file.relative_to(root).parts[:-1] for file in files]
    tops = {parts[0] if parts else "" for parts in folders}
    divided = "train" in tops and tops <= set(_PARTS)
    inner = [parts[1:] if divided else parts for parts in folders]
    return [
        _Place(_PARTS[parts[0]] if divided else None, below[0] if below and target == "folder" else None)
        for parts, below in zip(folders, inner, strict=True)
    ]


def _scan(request: Request) -> Scan:
    options, root = request.options, request.path
    files = files_of(root, options["max_files"])
    pictures = [file for file in files if file.suffix.lower() in PICTURES]
    problems = [
        Problem("not an image file", request.shown(file), effect="note")
        for file in files
        if file.suffix.lower() not in PICTURES
    ]
    places = _places(root, pictures, options["target"])
    labelled = any(place.name is not None for place in places)
    gathered = _Gathered(root.name, options["max_bytes"])
    with warnings.catch_warnings():
        # Pillow warns of large images and odd metadata; limits and damage are dealt with here.
        warnings.simplefilter("ignore")
        for file, place in zip(pictures, places, strict=True):
            try:
                if labelled and place.name is None:
                    raise Unusable("no class", "outside every class folder")
                array, notes = decode(file, options["size"], options["max_pixels"], options["max_bytes"])
            except Unusable as bad:
                problems.append(Problem(bad.kind, request.shown(file), bad.detail))
                continue
            problems += [Problem(kind, request.shown(file), detail, "note") for kind, detail in notes]
            gathered.add(array, place)
    usable = len(gathered.places)
    if not usable:
        problems.append(Problem("no images", root.name, "no image can be read", "stop"))
        return Scan(len(pictures), 0, tuple(problems))
    try:
        return Scan(len(pictures), usable, tuple(problems), gathered.contents())
    except Refused as refused:
        return Scan(len(pictures), usable, (*problems, refused.problem))


reader = Reader(
    "image folder",
    "images",
    {
        "size": Option(None, optional(size), "height and width to scale and crop to"),
        "target": Option("folder", choice("folder", "none"), "whether subfolders are classes"),
        "binarize": BINARIZE,
        "max_pixels": guard(2**26, "largest image, in pixels", MOST_PIXELS),
        "max_bytes": MAX_BYTES,
        "max_files": guard(1_000_000, "largest number of files"),
    },
    _scan,
)

__all__ = ["PICTURES", "files_of", "has_pictures", "reader"]
