"""Folders of MIDI files, one piece of music each; folders in them are classes, such as composers.

With `data.folders=2` and more, folders in folders are, too: `bach/fugue/one.mid` has the class `bach/fugue`.
"""

import os
from pathlib import Path

import numpy as np

from chainrule.data.loading import bounded
from chainrule.data.loading.options import MAX_BYTES, MAX_RATIO, Option, guard, whole
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader
from chainrule.data.loading.walking import LINKS, files_of
from chainrule.data.music import events, midi
from chainrule.data.readers.images import divided

SUFFIXES = (".mid", ".midi")
WINDOW = 128
"""Events in an example."""
_SHORT = 32
"""Events of an example that short pieces are long enough for; what is shorter still is left out."""


def has_music(folder: Path) -> bool:
    """Whether a folder holds MIDI files at any depth."""
    return any(
        name.lower().endswith(SUFFIXES)
        for _, _, names in os.walk(folder, followlinks=False)
        for name in names
    )


def _scan(request: ReadRequest) -> Scan:
    options = request.options
    every = files_of(request.path, options["max_files"], options["links"])
    files = [file for file in every if file.suffix.lower() in SUFFIXES]
    locations = divided(request.path, files)
    deep = options["folders"]
    classed = deep > 1 or (
        all(below for _, below in locations) and len({below[0] for _, below in locations if below}) > 1
    )
    pieces, parts, labels, problems = [], [], [], []
    for file, (part, below) in zip(files, locations, strict=True):
        where = request.shown(file)
        if deep > 1 and len(below) < deep:
            detail = f"it lies in {len(below)} folder{'s' * (len(below) != 1)}, {deep} name its class"
            least = max(1, min(len(one) for _, one in locations))
            problems.append(Problem("too few folders", where, detail, remedy=f"data.folders={least}"))
            continue
        try:
            data = bounded.read(file, where, options["max_bytes"], options["max_ratio"])
            piece = midi.read(data, where)
        except Refused as refused:
            problems.append(Problem(refused.problem.kind, where, refused.problem.detail))
            continue
        if piece.percussion:
            detail = f"{piece.percussion:,} notes have no pitch"
            problems.append(Problem("percussion left out", where, detail, "note"))
        found = events.encode(piece.notes)
        if len(found) < options["window"]:
            detail = f"{len(found):,} events, an example has {options['window']:,}"
            kind = "too short" if len(found) else "no notes"
            remedy = f"shorter examples: data.window={_SHORT}" if len(found) >= _SHORT else ""
            problems.append(Problem(kind, where, detail, remedy=remedy))
            continue
        pieces.append(found)
        parts.append(part)
        labels.append("/".join(below[:deep]) if classed else "")
    return _found(request, len(files), pieces, labels, parts, problems)


def _found(
    request: ReadRequest,
    total: int,
    pieces: list[np.ndarray],
    labels: list[str],
    parts: list[int | None],
    problems: list[Problem],
) -> Scan:
    if not pieces:
        stop = Problem(
            "empty", request.path.name, "no music is left", "stop", "chainrule data check lists why"
        )
        return Scan(total, 0, (*problems, stop))
    given = [part for part in parts if part is not None]
    contents = contents_of(pieces, labels, request.options["window"])
    if len(given) == len(parts) and len(set(given)) > 1:
        contents = contents_of(pieces, labels, request.options["window"], given)
    return Scan(total, len(pieces), tuple(problems), contents)


def contents_of(
    pieces: list[np.ndarray], labels: list[str], window: int, parts: list[int] | None = None
) -> Contents:
    """Pieces one after the other; `x` holds their events, `groups` the piece of each, `y` the class of each piece."""
    classes = tuple(sorted({label for label in labels if label}))
    return Contents(
        "music",
        np.concatenate(pieces).astype(np.int16),
        np.array([classes.index(label) for label in labels], np.int32) if classes else None,
        "class" if classes else "none",
        classes=classes,
        alphabet=events.names(),
        window=window,
        groups=np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces]),
        parts=None if parts is None else np.array(parts),
    )


reader = SourceReader(
    "music",
    "pieces",
    {
        "window": Option(WINDOW, whole(2, 2**16), "events in an example"),
        "folders": Option(
            1, whole(1, 8), "folders in each other that name a class: 1 composer, 2 composer/form, and so on"
        ),
        "max_files": guard(1_000_000, "most files in a folder"),
        "max_bytes": MAX_BYTES,
        "max_ratio": MAX_RATIO,
        "links": LINKS,
    },
    _scan,
)

__all__ = ["SUFFIXES", "WINDOW", "contents_of", "has_music", "reader"]
