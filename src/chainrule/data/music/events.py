"""Music as events: 413 of them, one after the other, say which notes begin and end, how hard, and how time passes.

128 events strike a note, 128 end one, 125 let 8 ms to 1 s pass, and 32 set how hard the next notes are struck (Oore et
al., *This time with feeling: learning expressive musical performance*, 2018).
"""

from collections.abc import Iterable, Sequence
from math import inf

import numpy as np
from jaxtyping import Int

from chainrule.core.errors import ArgumentError
from chainrule.data.music.midi import Note, apart

PITCHES, SHIFTS, LOUDNESSES = 128, 125, 32
STEP = 0.008
"""Seconds of the smallest shift."""
_OFF = PITCHES
_SHIFT = 2 * PITCHES
_LOUDNESS = _SHIFT + SHIFTS
COUNT = _LOUDNESS + LOUDNESSES
_OF_LOUDNESS = 128 // LOUDNESSES
_NAMES = ("C", "C♯", "D", "D♯", "E", "F", "F♯", "G", "G♯", "A", "A♯", "B")
_LOUDEST = 64
"""How hard notes are struck until an event says it."""


def pitch_name(pitch: int) -> str:
    """A pitch as musicians write it.

    >>> pitch_name(60), pitch_name(69)
    ('C4', 'A4')
    """
    return f"{_NAMES[pitch % 12]}{pitch // 12 - 1}"


def names() -> tuple[str, ...]:
    """What every event is called.

    >>> len(names()), names()[60], names()[188], names()[256], names()[381]
    (413, 'C4', 'C4 ends', '8 ms', 'velocity 2')
    """
    pitches = [pitch_name(pitch) for pitch in range(PITCHES)]
    return (
        *pitches,
        *(f"{name} ends" for name in pitches),
        *(f"{8 * steps} ms" for steps in range(1, SHIFTS + 1)),
        *(f"velocity {_velocity(level)}" for level in range(LOUDNESSES)),
    )


def _velocity(level: int) -> int:
    """The velocity in the middle of a level."""
    return _OF_LOUDNESS * level + _OF_LOUDNESS // 2


def _stepped(note: Note) -> Note:
    """A note whose times count steps."""
    begins = round(note.start / STEP)
    return note._replace(start=begins, end=max(round(note.end / STEP), begins + 1))


def encode(notes: Iterable[Note]) -> Int[np.ndarray, " events"]:
    """The events of some notes, times to the nearest 8 ms.

    >>> encode([Note(0.0, 0.016, 60, 66)]).tolist()
    [397, 60, 257, 188]
    """
    notes = list(notes)
    for note in notes:
        if not (0 <= note.pitch < PITCHES and 1 <= note.velocity < 128 and 0 <= note.start <= note.end < inf):
            raise ArgumentError(
                f"encode: {note} has no events",
                remedy="pitches are 0 to 127, velocities 1 to 127, and a note ends after it begins",
            )
    changes: list[tuple[int, int, int, int]] = []
    for begins, ends, pitch, velocity in apart(_stepped(note) for note in notes):
        changes += [(int(begins), 1, pitch, velocity), (int(ends), 0, pitch, 0)]
    found: list[int] = []
    now, loudness = 0, -1
    for step, strikes, pitch, velocity in sorted(changes):  # of one moment, ends come first
        while now < step:
            passed = min(step - now, SHIFTS)
            found.append(_SHIFT + passed - 1)
            now += passed
        if strikes and velocity // _OF_LOUDNESS != loudness:
            loudness = velocity // _OF_LOUDNESS
            found.append(_LOUDNESS + loudness)
        found.append(pitch if strikes else _OFF + pitch)
    return np.array(found, np.int32)


def decode(events: Sequence[int] | Int[np.ndarray, " events"]) -> list[Note]:
    """The notes of some events, whatever their order: what is struck twice ends first, what never ends ends last.

    >>> decode([397, 60, 257, 188])
    [Note(start=0.0, end=0.016, pitch=60, velocity=66)]
    """
    found: list[Note] = []
    sounding: dict[int, tuple[int, int]] = {}
    now, velocity = 0, _LOUDEST

    def end(pitch: int) -> None:
        begins, hard = sounding.pop(pitch)
        if now > begins:
            found.append(Note(begins * STEP, now * STEP, pitch, hard))

    for index, event in enumerate(int(one) for one in events):
        if not 0 <= event < COUNT:
            raise ArgumentError(f"events[{index}]={event}: an event is a number from 0 to {COUNT - 1}")
        if event < _SHIFT:
            pitch = event % PITCHES
            if pitch in sounding:
                end(pitch)
            if event < _OFF:
                sounding[pitch] = now, velocity
        elif event < _LOUDNESS:
            now += event - _SHIFT + 1
        else:
            velocity = _velocity(event - _LOUDNESS)
    for pitch in list(sounding):
        end(pitch)
    return sorted(found)


def seconds(events: Int[np.ndarray, " events"]) -> float:
    """How long some events take.

    >>> seconds(np.array([380, 60, 256]))
    1.008
    """
    shifts = events[(events >= _SHIFT) & (events < _LOUDNESS)]
    return float(STEP * (shifts - _SHIFT + 1).sum())


__all__ = [
    "COUNT",
    "LOUDNESSES",
    "PITCHES",
    "SHIFTS",
    "STEP",
    "decode",
    "encode",
    "names",
    "pitch_name",
    "seconds",
]
