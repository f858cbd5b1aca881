"""Files of pairs of texts: on every line a text, a tab, and the text it becomes, or the class it belongs to.

Quotation marks are part of a text. A file of two columns is one of pairs if the cells of a column are words that
hardly ever come again; where words repeat they are classes, and the file is a table.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Integer

from chainrule.data import targets
from chainrule.data.loading import bounded
from chainrule.data.loading.options import Option, choice, flag, whole
from chainrule.data.loading.problems import Problem
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader
from chainrule.data.readers import text
from chainrule.data.text.pairs import padded

_TEXT = "text"
_SNIFFED = 2**16
_FEW, _OFTEN = 20, 5
"""Different texts that may well be classes, and how often each then comes on average."""


def has_pairs(path: Path) -> bool:
    """Whether a file with tabs holds pairs of texts; judged by its first lines."""
    return any(map(_free, two_columns(path)))


def two_columns(path: Path) -> list[tuple[str, ...]]:
    """The cells of both columns in the first lines of a file with tabs; nothing where most lines have more or fewer."""
    with path.open("rb") as file:
        start = file.read(_SNIFFED)
    whole_lines = start.splitlines()[: None if len(start) < _SNIFFED else -1]
    rows = [line.decode(errors="replace").split("\t") for line in whole_lines if line.strip()]
    two = [row for row in rows if len(row) == 2]
    return list(zip(*two, strict=True)) if len(two) > 1 and 2 * len(two) > len(rows) else []


def _free(cells: tuple[str, ...]) -> bool:
    words = [
        cell.strip() for cell in cells[1:] if not _is_number(cell)
    ]  # the first may be the name of the column
    return 2 * len(words) > len(cells) - 1 and 2 * len(set(words)) > len(words)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def contents_of(
    sources: Sequence[str], targets: Sequence[str], tokenizer: str = "character", vocab: int | None = None
) -> Contents:
    """Two columns of texts in characters, with what the options say about their tokens."""
    x, alphabet = numbered(sources)
    y, target_alphabet = numbered(targets)
    return Contents(
        "text",
        x,
        y,
        "text",
        alphabet=alphabet,
        target_alphabet=target_alphabet,
        tokenizer=tokenizer,
        vocab=vocab,
    )


def labelled_contents(
    texts: Sequence[str], labels: Sequence[str], tokenizer: str = "character", vocab: int | None = None
) -> Contents:
    """Texts in characters, and the class of each."""
    x, alphabet = numbered(texts)
    classes, y = np.unique(np.array(labels), return_inverse=True)
    return Contents(
        "text",
        x,
        y.astype(np.int32),
        "class",
        classes=tuple(map(str, classes)),
        alphabet=alphabet,
        tokenizer=tokenizer,
        vocab=vocab,
    )


def numbered(texts: Sequence[str]) -> tuple[Integer[np.ndarray, "rows length"], tuple[str, ...]]:
    """Texts as rows of character numbers with an end mark, and the characters."""
    flat, alphabet = text.encode("".join(texts))
    cuts = np.cumsum([len(one) for one in texts])[:-1]
    return padded(np.split(flat, cuts), len(alphabet)), alphabet


def _scan(request: ReadRequest) -> Scan:
    where, options = request.path.name, request.options
    data = bounded.read(request.path, where, options["max_bytes"], options["max_ratio"])
    found, bad, notes = text.decode(data, where)
    problems = [*notes]
    kept: list[tuple[str, str]] = []
    first: dict[tuple[str, str], int] = {}
    total = 0
    for number, line in enumerate(text.lines(found), start=1):
        if not line.strip("\r\n") or (number == 1 and options["header"]):
            continue
        total += 1
        location = f"{where} line {number}"
        pair = bad.get(number) or _pair(line.strip("\r\n"), location, options["longest"])
        if isinstance(pair, Problem):
            problems.append(pair)
            continue
        kept.append(pair)
        if first.setdefault(pair, number) != number:
            problems.append(Problem("the same pair again", location, f"as in line {first[pair]}", "note"))
    if not kept:
        return Scan(total, 0, (*problems, Problem("empty", where, "no pair is left", "stop")))
    columns = list(zip(*kept, strict=True))
    first_column, second_column = reversed(columns) if options["swap"] else columns
    translated = targets.get(options["target"]).has_tokens
    made = contents_of if translated else labelled_contents
    if not translated and first.get(kept[0]) == 1 and second_column.count(second_column[0]) == 1:
        detail = f"no other text has the class {second_column[0]!r}; if the line names the columns: data.header=true"
        problems.append(Problem("a class of its own", f"{where} line 1", detail, "note"))
    kinds = len(set(second_column))
    if translated and kinds <= _FEW and _OFTEN * kinds <= len(kept):
        detail = f"{kinds} different texts in {len(kept)} lines; if they name classes: data.target=class"
        problems.append(Problem("the second column is taken for texts", where, detail, "note"))
    contents = replace(
        made(first_column, second_column, options["tokenizer"], options["vocab"]),
        special=text.special_names(options),
        allow_special=bool(options["special"]),
    )
    return Scan(total, len(kept), tuple(problems), contents)


def _pair(line: str, where: str, longest: int) -> tuple[str, str] | Problem:
    cells = [cell.strip() for cell in line.split("\t")]
    if len(cells) != 2:
        return Problem("not a pair", where, f"{len(cells)} columns instead of 2")
    if not all(cells):
        return Problem("missing text", where, "one side is empty")
    length = max(map(len, cells))
    if length > longest:
        return Problem("too long", where, f"{length} characters; allow it: data.longest={length}")
    return cells[0], cells[1]


def _text(value: Any) -> str:
    """The only kind of data that a file of pairs holds."""
    if value != _TEXT:
        raise ValueError(
            f"{_TEXT!r}: words that hardly ever come again are no classes; as a table, save it as .csv"
        )
    return _TEXT


reader = SourceReader(
    "pairs",
    "pairs",
    {
        "tokenizer": text.OPTIONS["tokenizer"],
        "vocab": text.OPTIONS["vocab"],
        "special": text.OPTIONS["special"],
        "target": Option(
            "text", choice("text", "class"), "what the second column is: a text, or the name of a class"
        ),
        "kind": Option(_TEXT, _text, "text; to have a table of two columns, save it as .csv"),
        "swap": Option(False, flag, "whether the second column is to become the first"),
        "header": Option(False, flag, "whether the first line names the columns"),
        "longest": Option(256, whole(1), "most characters of a text"),
        "max_bytes": text.OPTIONS["max_bytes"],
        "max_ratio": text.OPTIONS["max_ratio"],
    },
    _scan,
)

__all__ = ["contents_of", "has_pairs", "labelled_contents", "numbered", "reader", "two_columns"]
