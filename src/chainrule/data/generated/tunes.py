"""Tunes made by rule: scales and broken chords in major and minor keys, in steady time.

What follows is hardly ever open: a model that has understood the rule is nearly always right about the next note.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from chainrule.data.loading.options import Option, whole
from chainrule.data.loading.scan import ReadRequest, Scan, SourceReader
from chainrule.data.music import events
from chainrule.data.music.midi import Note
from chainrule.data.readers.midi_files import WINDOW, contents_of

MODES = {"major": (0, 2, 4, 5, 7, 9, 11), "minor": (0, 2, 3, 5, 7, 8, 10)}
_STEPS = (16, 24, 32)
"""Shifts of 8 ms from note to note, one for each tune."""
_NOTES = 96


@final
@dataclass(frozen=True)
class Tunes:
    """Scales and chords."""

    summary: str

    @property
    def reader(self) -> SourceReader:
        """The tunes as a source of data."""
        options = {
            "n": Option(200, whole(10, 10**5), "number of tunes"),
            "window": Option(WINDOW, whole(2, 3 * _NOTES), "events in an example"),
        }
        return SourceReader("tunes", "tunes", options, _scan)


def _scan(request: ReadRequest) -> Scan:
    n, rng = request.options["n"], np.random.default_rng(request.seed)
    modes = [list(MODES)[number % len(MODES)] for number in range(n)]
    pieces = [events.encode(tune(rng, mode)) for mode in modes]
    return Scan(n, n, contents=contents_of(pieces, modes, request.options["window"]))


def tune(rng: np.random.Generator, mode: str) -> list[Note]:
    """A tune in one key: scales up and down, and chords of it note by note."""
    tonic, step = int(rng.integers(48, 60)), events.STEP * int(rng.choice(_STEPS))
    velocity = int(rng.integers(10, 30)) * 4 + 2
    scale = MODES[mode]
    locations: list[int] = []
    while len(locations) < _NOTES:
        root = int(rng.choice([0, 3, 4, 5]))
        up = [*range(root, root + 8)]
        chord = [root, root + 2, root + 4, root + 7]
        figure = [up, up[::-1], chord + chord[-2:0:-1]][int(rng.integers(3))]
        locations += figure
    found = []
    for number, index in enumerate(locations[:_NOTES]):
        pitch = tonic + 12 * (index // 7) + scale[index % 7]
        found.append(Note(number * step, (number + 1) * step, pitch, velocity))
    return found


TUNES = {"tunes": Tunes("scales and broken chords in major and minor keys, as events of MIDI")}

__all__ = ["TUNES", "Tunes", "tune"]
