"""Folders of images (PNG, JPEG, WebP, GIF), with the names of subfolders as classes.

Top folders called `train`, `val` and `test` divide the images instead. Pictures in grey keep one channel; if any is in
colour, all become RGB. Every file is decoded to its last byte before anything is trained. Labels may also come from a
CSV file.
"""

import hashlib
import os
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.data.loading.options import (
    BINARIZE,
    BITS,
    MAX_BYTES,
    MAX_RATIO,
    NO_COLUMN,
    Option,
    column,
    flag,
    guard,
    optional,
    size,
)
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader
from chainrule.data.loading.walking import LINKS, files_of
from chainrule.data.readers import image_labels
from chainrule.data.readers.image_labels import LabelList
from chainrule.data.readers.pairs import numbered
from chainrule.data.readers.picture import FORMATS, MOST_PIXELS, Notes, Unusable, decode
from chainrule.data.readers.targets import AUTO, TARGET_AS, of_words, several, wants_identities

PICTURES = {*FORMATS, ".bmp", ".tif", ".tiff", ".heic", ".avif"}
_PARTS = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}


class ImageAnnotation(NamedTuple):
    """What the folders of an image say about it."""

    part: int | None
    name: str | None
    caption: str = ""
    """Where images come with captions, what is said of it."""
    listed: str = ""
    """Where labels come from a file, the name of the image in it."""


@final
@dataclass
class Gathered:
    """Images read so far, kept only as long as they can be put together."""

    root: str
    max_bytes: int
    arrays: list[np.ndarray] = field(default_factory=list)
    annotations: list[ImageAnnotation] = field(default_factory=list)
    sizes: Counter[tuple[int, ...]] = field(default_factory=Counter)
    nbytes: int = 0
    seen: dict[bytes, tuple[str, ImageAnnotation]] = field(default_factory=dict)
    """The first file of every picture, by a fingerprint of its pixels."""
    labels: LabelList | None = None
    """Where labels come from a file, all of them."""
    target_as: str = AUTO
    """What the names of folders are."""

    def remarks(self, array: np.ndarray, annotation: ImageAnnotation, where: str) -> list[Problem]:
        """What is odd about a sound image: pixels that came before, or nothing to see."""
        found = []
        digest = hashlib.sha256(f"{array.shape}".encode() + np.ascontiguousarray(array).tobytes()).digest()
        first, its = self.seen.setdefault(digest, (where, annotation))
        if first != where:
            label = self._label(its)
            other = "" if self._label(annotation) == label else f" of class {label!r}"
            apart = ", which is in another split" if annotation.part != its.part else ""
            detail = f"the same pixels as {first}{other}{apart}"
            found.append(Problem("same image twice", where, detail, "note"))
        if array.size and (array == array[:1, :1]).all():
            found.append(Problem("one colour", where, "every pixel is the same", "note"))
        return found

    def _label(self, annotation: ImageAnnotation) -> str | None:
        return annotation.name if self.labels is None else ", ".join(self.labels.cells[annotation.listed])

    def add(self, array: np.ndarray, annotation: ImageAnnotation) -> None:
        """One more image."""
        self.annotations.append(annotation)
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
        classes = sorted({annotation.name for annotation in self.annotations if annotation.name is not None})
        number = {name: i for i, name in enumerate(classes)}
        divided = [annotation.part for annotation in self.annotations if annotation.part is not None]
        parts = np.array(divided) if len(set(divided)) > 1 else None
        captions = [annotation.caption for annotation in self.annotations]
        if any(captions):
            rows, alphabet = numbered(captions)
            return Contents("image", x, rows, "text", target_alphabet=alphabet, levels=256, parts=parts)
        if self.labels is not None:
            found = self.labels.targets([annotation.listed for annotation in self.annotations])
            return Contents("image", x, found.y, found.target, classes=found.classes, levels=256, parts=parts)
        if not classes:
            return Contents("image", x, levels=256, parts=parts)
        if wants_identities(self.target_as):
            who = of_words(
                [p.name for p in self.annotations if p.name is not None], self.root, self.target_as
            )
            return Contents("image", x, who.y, who.target, classes=who.classes, levels=256, parts=parts)
        y = np.array([number[p.name] for p in self.annotations if p.name is not None], np.int32)
        return Contents("image", x, y, "class", classes=tuple(classes), levels=256, parts=parts)


def has_pictures(folder: Path) -> bool:
    """Whether a folder holds picture files at any depth."""
    return any(
        Path(name).suffix.lower() in PICTURES
        for _, _, names in os.walk(folder, followlinks=False)
        for name in names
    )


def divided(root: Path, files: Sequence[Path]) -> list[tuple[int | None, tuple[str, ...]]]:
    """For each file the part it belongs to, where top folders say so, and the folders below that it lies in."""
    folders = [file.relative_to(root).parts[:-1] for file in files]
    tops = {parts[0] if parts else "" for parts in folders}
    apart = "train" in tops and tops <= set(_PARTS)
    return [(_PARTS[parts[0]], parts[1:]) if apart else (None, parts) for parts in folders]


def decode_as(options: Mapping[str, Any], file: Path) -> tuple[np.ndarray, Notes]:
    """The pixels of a file as the options want them, and what was noticed on the way."""
    return decode(file, options["size"], options["max_pixels"], options["max_bytes"], options["convert"])


def gather(
    request: ReadRequest,
    files: Sequence[Path],
    annotations: Sequence[ImageAnnotation],
    faults: Sequence[Unusable | None],
    labels: LabelList | None = None,
    read: Callable[[Path], tuple[np.ndarray, Notes]] | None = None,
) -> Scan:
    """All images that have no fault and can be decoded, put together; `faults` are those known beforehand.

    `read` gives the pixels of a file and what is to be noted; unless given, as the options want them.
    """
    options, problems = request.options, []
    gathered = Gathered(
        request.path.name, options["max_bytes"], labels=labels, target_as=options.get("target_as", AUTO)
    )
    with warnings.catch_warnings():
        # Pillow warns of large images and odd metadata; limits and damage are dealt with here.
        warnings.simplefilter("ignore")
        for file, annotation, fault in zip(files, annotations, faults, strict=True):
            try:
                if fault is not None:
                    raise fault
                array, notes = decode_as(options, file) if read is None else read(file)
            except Unusable as bad:
                problems.append(Problem(bad.kind, request.shown(file), bad.detail))
                continue
            problems += [Problem(kind, request.shown(file), detail, "note") for kind, detail in notes]
            problems += gathered.remarks(array, annotation, request.shown(file))
            gathered.add(array, annotation)
    usable = len(gathered.annotations)
    if not usable:
        problems.append(Problem("no images", request.path.name, "no image can be read", "stop"))
        return Scan(len(files), 0, tuple(problems))
    try:
        return Scan(len(files), usable, tuple(problems), gathered.contents())
    except Refused as refused:
        return Scan(len(files), usable, (*problems, refused.problem))


def _scan(request: ReadRequest) -> Scan:
    root, target = request.path, request.options["target"]
    files = files_of(root, request.options["max_files"], request.options["links"])
    pictures = [file for file in files if file.suffix.lower() in PICTURES]
    notes = [
        Problem("not an image file", request.shown(file), effect="note")
        for file in files
        if file.suffix.lower() not in PICTURES and file.name != Path(request.options["labels"] or "").name
    ]
    if request.options["labels"] is not None and target != NO_COLUMN:
        scan = _labelled(request, pictures)
        return replace(scan, problems=(*notes, *scan.problems))
    if target not in ("folder", NO_COLUMN):
        raise ArgumentError(
            f'target={target!r}: target must be "folder" or "none"',
            remedy="columns are those of a list of labels: data.labels=FILE.csv",
        )
    annotations = [
        ImageAnnotation(part, below[0] if below and target == "folder" else None)
        for part, below in divided(root, pictures)
    ]
    labelled = any(annotation.name is not None for annotation in annotations)
    outside = Unusable("no class", "outside every class folder")
    faults = [outside if labelled and annotation.name is None else None for annotation in annotations]
    scan = gather(request, pictures, annotations, faults)
    return replace(scan, problems=(*notes, *scan.problems))


def _labelled(request: ReadRequest, pictures: Sequence[Path]) -> Scan:
    """Images whose labels stand in a file."""
    names = [file.relative_to(request.path).as_posix() for file in pictures]
    labels = image_labels.read(request, names)
    parts = divided(request.path, pictures)
    annotations = [
        ImageAnnotation(part, None, listed=name) for name, (part, _) in zip(names, parts, strict=True)
    ]
    scan = gather(request, pictures, annotations, [labels.fault(name) for name in names], labels)
    return replace(scan, problems=(*labels.problems, *scan.problems))


reader = SourceReader(
    "image folder",
    "images",
    {
        "size": Option(None, optional(size), "height and width to scale and crop to"),
        "target": Option(
            *("folder", several(column)),
            'whether subfolders are classes: "folder" or "none"; with labels, the columns to predict, all by default',
        ),
        "labels": Option(
            *(None, optional(image_labels.parse)),
            "CSV file with the labels, in the folder or beside it: a column file, and one or several to predict",
        ),
        "target_as": TARGET_AS,
        "convert": Option(
            True,
            flag,
            "bring CMYK to RGB and 16 bits to 8, read WebP and the first frame of GIF; otherwise these are bad files",
        ),
        "binarize": BINARIZE,
        "bits": BITS,
        "max_pixels": guard(2**26, "largest image, in pixels", MOST_PIXELS),
        "max_bytes": MAX_BYTES,
        "max_ratio": MAX_RATIO,
        "max_files": guard(1_000_000, "largest number of files"),
        "links": LINKS,
    },
    _scan,
)

__all__ = [
    "PICTURES",
    "Gathered",
    "ImageAnnotation",
    "decode_as",
    "divided",
    "gather",
    "has_pictures",
    "reader",
]
