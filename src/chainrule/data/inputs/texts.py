"""New texts: strings, lines of a file, files of a folder, objects of a `.jsonl` file, as rows of the run's own tokens.

A file of pairs (`.tsv`: a text, a tab, and what it becomes) gives the targets too.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data.inputs import folders
from chainrule.data.inputs.protocol import Given, InputChunk, Inputs, Preparation, chunk
from chainrule.data.loading import bounded
from chainrule.data.loading.options import MAX_BYTES, MAX_RATIO
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.readers import documents, text
from chainrule.data.text import pairs

_LIMITS = MAX_BYTES.default, MAX_RATIO.default


class _Text(NamedTuple):
    """A text, or what is wrong with it, and what it becomes where that is known."""

    name: str
    text: str | Problem
    target: str | None = None
    where: str = ""
    """As a person would look for it, where its name is not enough."""


def inputs(given: Given, prepared: Preparation) -> Inputs:
    """Texts from a string, a list of strings, a file with one on every line, or a folder with one in every file.

    A string that is the path of a file or folder means what is in it.
    """
    if isinstance(given, str) and not _is_path(given):
        given = [given]
    if isinstance(given, str | Path):
        found = _at(Path(given).expanduser(), prepared)
    elif isinstance(given, list | tuple | np.ndarray) and all(isinstance(one, str) for one in given):
        found = [_Text(str(index), str(one)) for index, one in enumerate(given)]
    else:
        raise ArgumentError(
            f"predict: {type(given).__name__} is no text",
            remedy="give a text, a list of texts, or the path of a file or folder",
        )
    beside = [one.target for one in found]

    def chunks(size: int) -> Iterator[InputChunk]:
        for first in range(0, len(found), size):
            part = found[first : first + size]
            read = [_read(one, prepared) for one in part]
            known = beside[first : first + size] if any(beside) else None
            yield chunk(prepared, [one.name for one in part], read, known, np.int32)

    return Inputs("texts", len(found), chunks)


def _is_path(given: str) -> bool:
    path = Path(given).expanduser() if len(given) < 1024 and "\n" not in given else None
    if path is not None and path.exists():
        return True
    # A name of a file that is not there is a mistake, not a text of one word.
    return path is not None and not given.split()[1:] and path.suffix.lower() in _READ


def _read(one: _Text, prepared: Preparation) -> np.ndarray | Problem:
    if isinstance(one.text, Problem):
        return one.text
    try:
        # As in training: where special tokens were named, their names in the texts are these tokens.
        special = bool(prepared.options.get("special"))
        return pairs.encode(prepared.schema, one.text.strip(), allow_special=special)
    except ArgumentError as error:
        return Problem("not like the training texts", one.where or one.name, error.message)


def _at(path: Path, prepared: Preparation) -> list[_Text]:
    try:
        if path.is_dir():
            return _folder(path, prepared)
        if not path.is_file():
            raise DataError(f"{path} does not exist")
        data = bounded.read(path, path.name, *_LIMITS)
        whole, bad, _ = text.decode(data, path.name)
    except Refused as refused:
        problem = refused.problem
        raise DataError(f"{problem.where}: {problem.detail}", remedy=problem.remedy) from None
    rows = [line.strip("\r\n") for line in text.lines(whole)]
    return _READ.get(path.suffix.lower(), _lines)(path.name, rows, bad)


def _lines(where: str, rows: Sequence[str], bad: dict[int, Problem]) -> list[_Text]:
    """A text on every line; empty lines are none."""
    return [
        _Text(str(number), bad.get(number, row), where=f"{where} line {number}")
        for number, row in enumerate(rows, start=1)
        if row.strip()
    ]


def _tabs(where: str, rows: Sequence[str], bad: dict[int, Problem]) -> list[_Text]:
    """A text on every line, perhaps with a tab and what it becomes after it."""
    found = []
    for one in _lines(where, rows, bad):
        first, tab, rest = one.text.partition("\t") if isinstance(one.text, str) else (one.text, "", "")
        found.append(one._replace(text=first, target=rest.strip() or None if tab else None))
    return found


def _objects(where: str, rows: Sequence[str], bad: dict[int, Problem]) -> list[_Text]:
    """A JSON object on every line, with a text in its field `text` and perhaps what it becomes in `label`."""
    found = []
    for one in _lines(where, rows, bad):
        value, target = one.text, None
        if isinstance(value, str):
            value = documents.text_of(value, "text", one.where)
            if not isinstance(value, Problem):
                label = json.loads(str(one.text)).get("label")
                target = None if label is None else str(label)
        found.append(one._replace(text=value, target=target))
    return found


_READ = {".tsv": _tabs, ".jsonl": _objects, **dict.fromkeys(documents.SUFFIXES, _lines)}
"""How the lines of a file are read, by the ending of its name; any other file has a text on every line."""


def _folder(folder: Path, prepared: Preparation) -> list[_Text]:
    files = [file for file in folders.files(folder, prepared) if documents.has_suffix(file)]
    if not files:
        raise DataError(f"{folder}: there are no texts (.txt, .md) in this folder")
    found = []
    for file in files:
        name = file.relative_to(folder).as_posix()
        top = name.split("/")[0] if "/" in name else None
        try:
            whole, bad, _ = text.clean(bounded.read(file, name, *_LIMITS), name)
            found.append(_Text(name, next(iter(bad.values())) if bad else whole, top))
        except Refused as refused:
            found.append(_Text(name, Problem(refused.problem.kind, name, refused.problem.detail)))
    return found


__all__ = ["inputs"]
