"""Notes to look at and to listen to: piano rolls, and a simple instrument of a few harmonics that die away."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from chainrule.core.pictures import Images
from chainrule.data.music import events
from chainrule.data.music.midi import Note

RATE = 11_025
_HARMONICS = (1.0, 0.5, 0.3, 0.15, 0.08)
_LEFT = 0.15
"""Seconds in which a note dies away after its end."""
_LOUDEST = 0.9
_COLUMNS = 480
_HIGH = 3
"""Pixels of a pitch."""
_BLACK = (1, 3, 6, 8, 10)
"""Black keys of an octave."""
_GROUND = 0.88, 0.94
"""How light the ground is behind notes of black keys, and of white ones."""
_LONGEST = 60.0
"""Seconds that are made into sound, at most."""


def sound(notes: Sequence[Note]) -> Float[np.ndarray, "samples 1"]:
    """Notes as they would sound; the first minute of them."""
    heard = [note for note in notes if note.start < _LONGEST]
    last = min(max((note.end for note in heard), default=0.0), _LONGEST)
    out = np.zeros(int(RATE * (last + _LEFT)) + 1)
    for note in heard:
        first, time = int(RATE * note.start), np.arange(int(RATE * (note.end - note.start + _LEFT))) / RATE
        frequency = 440 * 2 ** ((note.pitch - 69) / 12)
        held = note.end - note.start
        fades = np.exp(-2 * time) * np.clip((held + _LEFT - time) / _LEFT, 0, 1) * np.minimum(1, time * 200)
        wave = sum(
            size * np.sin(2 * np.pi * (k + 1) * frequency * time)
            for k, size in enumerate(_HARMONICS)
            if (k + 1) * frequency < RATE / 2
        )
        part = (note.velocity / 127 * fades * wave)[: max(0, len(out) - first)]
        out[first : first + len(part)] += part
    return (_LOUDEST * out / max(float(np.abs(out).max()), 1e-9)).astype(np.float32)[:, None]


def roll(
    notes: Sequence[Note], pitches: tuple[int, int], length: float, columns: int
) -> Float[np.ndarray, "pitches columns"]:
    """How hard each pitch sounds over time, between 0 and 1, the highest pitch first."""
    low, high = pitches
    found = np.zeros((high - low + 1, columns))
    for note in notes:
        if low <= note.pitch <= high and note.start < length:
            first = int(columns * note.start / length)
            last = max(first + 1, int(columns * min(note.end, length) / length))
            found[high - note.pitch, first:last] = note.velocity / 127
    return found


def _keys(pitches: tuple[int, int]) -> Float[np.ndarray, "pitches 1"]:
    """The light ground behind notes, darker where keys are black, the highest pitch first."""
    low, high = pitches
    black = np.isin(np.arange(high, low - 1, -1) % 12, _BLACK)
    return np.where(black, *_GROUND)[:, None]


def rolls(name: str, title: str, rows: np.ndarray, names: Sequence[str], caption: str) -> Images:
    """Piano rolls of rows of events: pitch upwards, time to the right, all at one scale."""
    pieces = [events.decode(row.astype(int)) for row in rows]
    every = [note for notes in pieces for note in notes]
    low, high = (choose((note.pitch for note in every), default=60) for choose in (min, max))
    length = max((note.end for note in every), default=1.0)
    pitches = low - 1, high + 1
    drawn = np.stack([roll(notes, pitches, length, _COLUMNS) for notes in pieces])
    labels = [" ".join(filter(None, [str(i + 1), *names[i : i + 1]])) for i in range(len(rows))]
    said = f"{events.pitch_name(low)} to {events.pitch_name(high)} upwards, {length:.1f} seconds to the right; the "
    return Images(
        name,
        title,
        np.repeat(_keys(pitches) * (1 - drawn), _HIGH, axis=1)[..., None],
        labels,
        columns=1,
        caption=" ".join(
            filter(None, [caption, f"{said}darker, the harder a note is struck; behind them the black keys."])
        ),
        aligned=True,
    )


__all__ = ["RATE", "roll", "rolls", "sound"]
