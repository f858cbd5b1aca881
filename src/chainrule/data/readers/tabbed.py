"""Tables with tabs between their cells; with `kind=text` texts and the classes they belong to, or pairs of texts.

A file of two columns whose words come again is a table (see `pairs.has_pairs`), also where the first column holds a few
different sentences. That is said, with the way to have them read as texts.
"""

from dataclasses import replace
from typing import Any

from chainrule.core.errors import ArgumentError
from chainrule.data.loading.options import Option, choice, optional
from chainrule.data.loading.problems import Problem
from chainrule.data.loading.scan import ReadRequest, Scan, SourceReader
from chainrule.data.readers import pairs, table

_TEXT, _CLASS = "text", "class"
_OWN = ("tokenizer", "vocab", "special", "swap", "longest")
"""Options that texts have and tables do not."""


def _scan(request: ReadRequest) -> Scan:
    if request.options["kind"] == _TEXT:
        return _texts(request)
    found = table.csv.reader.scan(request)
    columns = pairs.two_columns(request.path) if request.options["kind"] is None else []
    if columns and _are_sentences(columns[0]):
        detail = "in both columns the same words come again; if the first holds texts: data.kind=text"
        if _are_sentences(columns[1]):
            detail += "; if both do, as pairs: data.kind=text data.target=text"
        note = Problem("read as a table", request.path.name, detail, "note")
        found = replace(found, problems=(*found.problems, note))
    return found


def _texts(request: ReadRequest) -> Scan:
    header = request.options["header"]
    columns = pairs.two_columns(request.path)
    target = _target(request.options["target"], columns)
    if header is None:  # a first line with a class of its own names the columns
        header = target == _CLASS and bool(columns) and columns[1][0] not in columns[1][1:]
    options = {
        name: request.options.get(name, option.default) for name, option in pairs.reader.options.items()
    }
    found = pairs.reader.scan(replace(request, options={**options, "target": target, "header": header}))
    if request.options["target"] != _CLASS == target and columns and _are_sentences(columns[1]):
        detail = "its cells are several words each; if they are texts: data.target=text"
        note = Problem("the second column is taken for classes", request.path.name, detail, "note")
        found = replace(found, problems=(*found.problems, note))
    return found


def _target(wanted: Any, columns: list[tuple[str, ...]]) -> str:
    """What the second column is: texts if that is said, classes otherwise, also where it is named as in a table."""
    named = (_CLASS, -1, 1, *(column[0].strip() for column in columns[1:]))
    if wanted != _TEXT and wanted not in named:
        raise ArgumentError(
            f"target={wanted!r}: with kind=text the second column is the target",
            remedy="classes: data.target=class; texts: data.target=text",
        )
    return _TEXT if wanted == _TEXT else _CLASS


def _are_sentences(cells: tuple[str, ...]) -> bool:
    """Whether most cells of a column hold several words."""
    return 2 * sum(" " in cell.strip() for cell in cells) > len(cells)


reader = SourceReader(
    "CSV",
    "rows",
    {
        **table.csv.reader.options,
        "kind": Option(
            None,
            optional(choice("table", "points", _TEXT)),
            "points by default if there are two features; text: texts in the first column, in the second their classes "
            "or, with target=text, the texts they become",
        ),
        **{name: pairs.reader.options[name] for name in _OWN},
    },
    _scan,
)

__all__ = ["reader"]
