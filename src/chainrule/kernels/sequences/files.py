"""Sequences from files: FASTA, and plain text with one sequence a line.

Files are read within limits and taken for text and nothing else; a line that is neither is named.
"""

from pathlib import Path
from typing import NamedTuple

from chainrule.core.errors import DataError
from chainrule.core.quoting import plain
from chainrule.data.loading import bounded
from chainrule.data.loading.options import MAX_BYTES, MAX_RATIO
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.readers import text

_NAME = 200
"""Letters of a name that are kept."""


class NamedSequences(NamedTuple):
    """What a file holds."""

    names: list[str]
    sequences: list[str]


def read_fasta(path: str | Path, *, max_bytes: int = MAX_BYTES.default) -> NamedSequences:
    """The sequences of a FASTA file, also of one packed with gzip; letters become capitals.

    A line that begins with `>` names a sequence, whose letters follow on as many lines as they need; a closing `*` and
    lines that begin with `;` are left out.
    """
    where = str(path)
    names: list[str] = []
    parts: list[list[str]] = []
    for number, line in _lines(Path(path), where, max_bytes):
        if line.startswith(">"):
            names.append(plain(line[1:].strip(), _NAME))
            parts.append([])
        elif line.startswith(";") or not line:
            continue
        elif not names:
            raise DataError(
                f"{where} line {number}: letters before the first name; a FASTA file begins with a line like >name",
                remedy="for one sequence a line: read_lines",
            )
        else:
            joined = "".join(line.split()).upper()
            if not joined.rstrip("*").replace("-", "").isalpha():
                raise DataError(f"{where} line {number}: {plain(joined, 40)!r} is not letters alone")
            parts[-1].append(joined)
    sequences = ["".join(own).rstrip("*") for own in parts]
    for name, sequence in zip(names, sequences, strict=True):
        if not sequence:
            raise DataError(f"{where}: {name!r} has no letters", remedy="leave it out of the file")
    if not names:
        raise DataError(f"{where}: no sequences")
    return NamedSequences(names, sequences)


def read_lines(path: str | Path, *, max_bytes: int = MAX_BYTES.default) -> NamedSequences:
    """The lines of a text file, each a sequence as it stands; empty lines are left out, and names are line numbers."""
    where = str(path)
    kept = [(number, line) for number, line in _lines(Path(path), where, max_bytes) if line]
    if not kept:
        raise DataError(f"{where}: no sequences")
    return NamedSequences([f"line {number}" for number, _ in kept], [line for _, line in kept])


def _lines(path: Path, where: str, max_bytes: int) -> list[tuple[int, str]]:
    try:
        found, bad, _ = text.decode(bounded.read(path, where, max_bytes, MAX_RATIO.default), where)
    except Refused as error:
        problem = error.problem
        raise DataError(f"{problem.where}: {problem.reason}", remedy=_remedy(problem, max_bytes)) from None
    for problem in bad.values():
        raise DataError(f"{problem.where}: {problem.reason}", remedy=problem.remedy)
    return [(number, line.strip()) for number, line in enumerate(text.lines(found), start=1)]


def _remedy(problem: Problem, max_bytes: int) -> str:
    """The way out in the words of these functions, whose arguments are not the options of data sets."""
    if problem.kind == "too large":
        return f"if you trust the file and have the memory: max_bytes={2 * max_bytes}"
    return "unpack the file first" if problem.kind == "too strongly compressed" else problem.remedy


__all__ = ["NamedSequences", "read_fasta", "read_lines"]
