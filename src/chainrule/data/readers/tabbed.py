"""Tables with tabs between their cells; with `kind=text` texts and the classes they belong to.

A file of two columns whose words come again is a table (see `pairs.has_pairs`), also where the first column holds a few
different sentences. That is said, with the way to have them read as texts.
"""

from dataclasses import replace
from pathlib import Path

from chainrule.data.loading.options import Option, choice, optional
from chainrule.data.loading.problems import Problem
from chainrule.data.loading.scan import ReadRequest, Scan, SourceReader
from chainrule.data.readers import pairs, table

_TEXT = "text"
_OWN = ("tokenizer", "vocab", "swap", "longest")
"""Options that texts have and tables do not."""


def _scan(request: ReadRequest) -> Scan:
    if request.options["kind"] == _TEXT:
        return _texts(request)
    found = table.csv.reader.scan(request)
    if request.options["kind"] is None and _has_sentences(request.path):
        detail = "in both columns the same words come again; if the first holds texts: data.kind=text"
        note = Problem("read as a table", request.path.name, detail, "note")
        found = replace(found, problems=(*found.problems, note))
    return found


def _texts(request: ReadRequest) -> Scan:
    header = request.options["header"]
    columns = pairs.two_columns(request.path)
    if header is None:  # a first line with a class of its own names the columns
        header = bool(columns) and columns[1][0] not in columns[1][1:]
    options = {
        name: request.options.get(name, option.default) for name, option in pairs.reader.options.items()
    }
    return pairs.reader.scan(replace(request, options={**options, "target": "class", "header": header}))


def _has_sentences(path: Path) -> bool:
    """Whether most cells of the first of two columns hold several words."""
    columns = pairs.two_columns(path)
    return bool(columns) and 2 * sum(" " in cell.strip() for cell in columns[0]) > len(columns[0])


reader = SourceReader(
    "CSV",
    "rows",
    {
        **table.csv.reader.options,
        "kind": Option(
            None,
            optional(choice("table", "points", _TEXT)),
            "points by default if there are two features; text: texts in the first column, their classes in the second",
        ),
        **{name: pairs.reader.options[name] for name in _OWN},
    },
    _scan,
)

__all__ = ["reader"]
