"""Folders of images with captions: a file `captions.csv` at the top, or a text file beside every image.

`captions.csv` has a line for each image, its path from the folder and, after a comma, what is said of it; the first
line may be `file,caption`. Otherwise `cat.txt` holds the caption of `cat.png`. An image without a caption is a problem
of that image; a caption without an image is noted.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from chainrule.data.loading import bounded
from chainrule.data.loading.options import MAX_RATIO, Option, whole
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import ReadRequest, Scan, SourceReader
from chainrule.data.loading.walking import files_of
from chainrule.data.readers import images, text
from chainrule.data.readers.picture import Unusable
from chainrule.data.readers.raw import collect, delimited
from chainrule.data.text.captions import spelled

LIST = "captions.csv"


def has_captions(folder: Path) -> bool:
    """Whether the images of a folder come with captions."""
    if (folder / LIST).is_file():
        return True
    for _, _, names in os.walk(folder, followlinks=False):
        texts = {Path(name).stem for name in names if name.lower().endswith(".txt")}
        if any(Path(name).stem in texts for name in names if Path(name).suffix.lower() in images.PICTURES):
            return True
    return False


def _listed(request: ReadRequest) -> tuple[dict[str, str], list[Problem]]:
    """Captions by the path of their image, from the list."""
    options = request.options
    data = bounded.read(request.path / LIST, LIST, options["max_bytes"], options["max_ratio"])
    found, bad, notes = text.decode(data, LIST)
    rows, faults = collect(delimited(text.lines(found), bad, LIST, plain=True))
    # A line that cannot be read costs its image, which then has no caption; that is where it counts.
    problems = [*notes, *(replace(faults[line], effect="note") for line in sorted(faults))]
    captions: dict[str, str] = {}
    for line, cells in rows:
        if len(cells) != 2:
            raise Refused(
                "not captions", f"{LIST} line {line}", f"{len(cells)} cells instead of file,caption"
            )
        if line == 1 and cells == ["file", "caption"]:
            continue
        if cells[0] in captions:
            problems.append(Problem("a second caption", f"{LIST} line {line}", f"of {cells[0]}", "note"))
        captions.setdefault(*cells)
    return captions, problems


def _beside(request: ReadRequest, files: Sequence[Path]) -> tuple[dict[str, str], list[Problem]]:
    """Captions by the path of their image, from text files of the same name."""
    captions: dict[str, str] = {}
    problems: list[Problem] = []
    for file in files:
        own = file.with_suffix(".txt")
        if not own.is_file() or not own.stat().st_size:
            continue
        where = request.shown(own)
        data = bounded.read(own, where, request.options["max_bytes"], request.options["max_ratio"])
        captions[file.relative_to(request.path).as_posix()], bad, notes = text.clean(data, where)
        problems += [*(replace(problem, effect="note") for problem in bad.values()), *notes]
    return captions, problems


def _fault(caption: str, longest: int) -> Unusable | None:
    if not caption:
        return Unusable("no caption")
    length = len(caption) - 1
    if length > longest:
        return Unusable("caption too long", f"{length} characters; allow it: data.longest={length}")
    return None


def _scan(request: ReadRequest) -> Scan:
    root, options = request.path, request.options
    files = files_of(root, options["max_files"], options["links"])
    pictures = [file for file in files if file.suffix.lower() in images.PICTURES]
    names = [file.relative_to(root).as_posix() for file in pictures]
    captions, problems = _listed(request) if (root / LIST).is_file() else _beside(request, pictures)
    idle = [Problem("no such image", LIST, name, "note") for name in captions if name not in set(names)]
    annotations = [
        images.ImageAnnotation(part, None, spelled(captions.get(name, "")))
        for name, (part, _) in zip(names, images.divided(root, pictures), strict=True)
    ]
    faults = [_fault(annotation.caption, options["longest"]) for annotation in annotations]
    scan = images.gather(request, pictures, annotations, faults)
    contents = scan.contents
    if contents is not None:
        contents = replace(contents, tokenizer=options["tokenizer"], vocab=options["vocab"])
    return replace(scan, problems=(*problems, *idle, *scan.problems), contents=contents)


_LABELS = ("target", "target_as", "labels")
_IMAGES = {name: option for name, option in images.reader.options.items() if name not in _LABELS}

reader = SourceReader(
    "captioned images",
    "images",
    {
        **_IMAGES,
        "tokenizer": replace(text.OPTIONS["tokenizer"], default="word"),
        "vocab": text.OPTIONS["vocab"],
        "longest": Option(256, whole(1), "most characters of a caption"),
        "max_ratio": MAX_RATIO,
    },
    _scan,
)

__all__ = ["LIST", "has_captions", "reader"]
