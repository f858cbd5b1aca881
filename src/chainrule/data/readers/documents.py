"""Many texts as one: folders of text files, and files with one JSON object a line.

The texts follow each other in the order of their paths or lines, each on lines of its own; with `packing` they are
documents, each to be read by itself.
"""

import codecs
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chainrule.data.loading import bounded
from chainrule.data.loading.options import Option, guard
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import ReadRequest, Scan, SourceReader
from chainrule.data.loading.walking import LINKS, files_of
from chainrule.data.readers import text

SUFFIXES = (".txt", ".md")


def has_texts(folder: Path) -> bool:
    """Whether a folder holds text files at any depth."""
    return any(
        name.lower().endswith(SUFFIXES)
        for _, _, names in os.walk(folder, followlinks=False)
        for name in names
    )


def _on_lines(texts: list[str]) -> list[str]:
    return [one if one.endswith("\n") else f"{one}\n" for one in texts]


def _scan_folder(request: ReadRequest) -> Scan:
    every = files_of(request.path, request.options["max_files"], request.options["links"])
    files = [file for file in every if has_suffix(file)]
    if request.options["stream"]:
        return _scan_streamed(request, files)
    left = request.options["max_bytes"]
    texts: list[str] = []
    problems: list[Problem] = []
    for file in files:
        where = request.shown(file)
        try:
            data = bounded.read(file, where, left, request.options["max_ratio"])
            left -= len(data)
            found, bad, notes = text.clean(data, where)
        except Refused as refused:
            if refused.problem.kind == "too large":
                raise
            problems.append(Problem(refused.problem.kind, where, refused.problem.detail))
            continue
        problems += notes
        if bad:
            first = next(iter(bad.values()))
            problems.append(Problem(first.kind, where, f"{first.detail}, line {next(iter(bad))}"))
        elif found:
            texts.append(found)
    if not texts:
        problems.append(Problem("empty", request.path.name, "no text is left", "stop"))
        return Scan(len(files), 0, tuple(problems))
    contents = text.contents_of(_on_lines(texts), request.options)
    return Scan(len(files), len(texts), tuple(problems), contents)


def _scan_streamed(request: ReadRequest, files: Sequence[Path]) -> Scan:
    """Files that need not fit into memory, gone through once; one that is no text is left out as a whole."""
    text.check_unpacked(request.path.name, request.options)
    digest = hashlib.sha256()
    kept: list[Path] = []
    sizes: list[int] = []
    skips: list[int] = []
    problems: list[Problem] = []
    for file in files:
        own = digest.copy()
        try:
            found = text.go_through(file, request.shown(file), own.update)
        except Refused as refused:
            problems.append(Problem(refused.problem.kind, request.shown(file), refused.problem.detail))
            continue
        if not found.ends:
            own.update(b"\n")
        digest = own
        kept.append(file)
        skips.append(len(codecs.BOM_UTF8) if found.marked else 0)
        sizes.append(found.size - skips[-1] + (not found.ends))
    if not kept:
        problems.append(Problem("empty", request.path.name, "no text is left", "stop"))
        return Scan(len(files), 0, tuple(problems))
    name, options = request.path.name, request.options
    contents = text.streamed_contents(name, kept, sizes, skips, digest.hexdigest(), options)
    return Scan(len(files), len(kept), tuple(problems), contents)


def has_suffix(path: Path) -> bool:
    """Whether the name of a file says that it is a text."""
    return path.name.lower().endswith(SUFFIXES)


def _scan_lines(request: ReadRequest) -> Scan:
    where, field = request.path.name, request.options["field"]
    data = bounded.read(request.path, where, request.options["max_bytes"], request.options["max_ratio"])
    whole, bad, notes = text.decode(data, where)
    texts: list[str] = []
    problems = [*notes]
    total = 0
    for number, line in enumerate(text.lines(whole), start=1):
        if not line.strip():
            continue
        total += 1
        found = bad.get(number) or text_of(line, field, f"{where} line {number}")
        if isinstance(found, Problem):
            problems.append(found)
        else:
            texts.append(found.replace("\r\n", "\n").replace("\r", "\n"))
    if not any(texts):
        problems.append(Problem("empty", where, "no text is left", "stop"))
        return Scan(total, 0, tuple(problems))
    return Scan(total, len(texts), tuple(problems), text.contents_of(_on_lines(texts), request.options))


def text_of(line: str, field: str, where: str) -> str | Problem:
    """The text in a field of a JSON object on one line."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return Problem("not JSON", where)
    found = value.get(field) if isinstance(value, dict) else None
    if not isinstance(found, str):
        return Problem("no text", where, f"no field {field!r} with a text; another one: data.field=NAME")
    if any("\ud800" <= c <= "\udfff" for c in found):
        return Problem("not text", where, "half of a surrogate pair")
    return found


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("the name of a field")
    return value


folder_reader = SourceReader(
    "text",
    "files",
    {
        **text.OPTIONS,
        "stream": text.STREAM,
        "max_files": guard(1_000_000, "most files in a folder"),
        "links": LINKS,
    },
    _scan_folder,
)
lines_reader = SourceReader(
    "text",
    "lines",
    {**text.OPTIONS, "field": Option("text", _name, "the field of each object that holds its text")},
    _scan_lines,
)

__all__ = ["SUFFIXES", "folder_reader", "has_suffix", "has_texts", "lines_reader", "text_of"]
