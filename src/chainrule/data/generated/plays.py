"""Speeches of two plays, each with the play it is from: a small task of reading, made of the embedded text."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import final

from chainrule.data.loading.options import Option, whole
from chainrule.data.loading.scan import ReadRequest, Scan, SourceReader
from chainrule.data.readers import text
from chainrule.data.readers.pairs import labelled_contents

_FILE = Path(__file__).parents[1] / "embedded" / "shakespeare.txt"
_SECOND = "FLAVIUS."
"""Who speaks first in the second play, and nowhere in the first."""


@final
@dataclass(frozen=True)
class Plays:
    """What the speakers say, without their names."""

    summary: str

    @property
    def reader(self) -> SourceReader:
        """The speeches as a source of data."""
        options = {name: text.OPTIONS[name] for name in ("tokenizer", "vocab")}
        options["longest"] = Option(256, whole(16), "characters of a speech that are kept")
        return SourceReader("plays", "speeches", options, _scan)


def _scan(request: ReadRequest) -> Scan:
    longest = request.options["longest"]
    first, second = re.split(rf"^(?={re.escape(_SECOND)})", _FILE.read_text(), maxsplit=1, flags=re.MULTILINE)
    speeches, labels = [], []
    for play, label in ((first, "Macbeth"), (second, "Julius Caesar")):
        for speech in play.split("\n\n"):
            _, _, said = speech.strip().partition("\n")  # the first line is who speaks
            if said:
                speeches.append(said[:longest])
                labels.append(label)
    contents = labelled_contents(speeches, labels, request.options["tokenizer"], request.options["vocab"])
    return Scan(len(speeches), len(speeches), contents=contents)


PLAYS = {"plays": Plays("speeches of Macbeth and Julius Caesar, and which of the two they are from")}

__all__ = ["PLAYS", "Plays"]
