"""Pairs of texts made by rule: small tasks on which a model of pairs either works or visibly does not.

Copying asks for memory, reversing for reading in another order, dates for seeing one thing in many spellings, tasks for
doing with the same digits what a word says, and melodies for following what came before while reading chord by chord.
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.data.loading.options import Option, optional, whole
from chainrule.data.loading.scan import ReadRequest, Scan, SourceReader
from chainrule.data.readers.pairs import contents_of

Random: TypeAlias = np.random.Generator

_FIRST, _LAST = datetime.date(1900, 1, 1).toordinal(), datetime.date(2099, 12, 31).toordinal()
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NOTES = ("C", "C#", "D", "Eb", "E", "F", "F#", "G", "Ab", "A", "Bb", "B")
_SCALE = (0, 2, 4, 5, 7, 9, 11)
"""Semitones of a major scale above its first note."""
_MINOR, _DIMINISHED = (1, 2, 5), 6
"""Degrees of the scale whose chords are minor, and the one whose chord is diminished."""
_FOLLOWS = ((0, 3, 4, 5), (4, 6), (3, 5), (0, 1, 4), (0, 5), (1, 3), (0, 2))
"""Degrees that may follow each."""
_MIDDLE, _LOWEST, _HIGHEST = 67, 48, 90
"""The tone about which a melody turns, and a range it never reaches the ends of."""
_SPELLINGS = (
    "{day} {month} {year}",
    "{day} {mon} {year}",
    "{month} {day}, {year}",
    "{mon} {day}, {year}",
    "{weekday}, {day} {month} {year}",
    "{weekday}, {month} {day}, {year}",
    "the {nth} of {month} {year}",
    "{month} {nth}, {year}",
    "{year}, {month} {day}",
)


@final
@dataclass(frozen=True)
class Task:
    """A rule that makes pairs."""

    summary: str
    draw: Callable[[Random, int], tuple[str, str]]
    """From (random numbers, length) to a text and what it becomes."""
    length: int | None = None
    """Characters of a text unless told otherwise; none where the rule decides."""
    n: int = 20_000

    @property
    def reader(self) -> SourceReader:
        """The task as a source of data."""
        options = {"n": Option(self.n, whole(10, 10**6), "number of pairs")}
        if self.length is not None:
            options["length"] = Option(self.length, whole(1, 1000), "digits, or chords, of the longest text")
            options["shortest"] = Option(
                None,
                optional(whole(1, 1000)),
                "digits, or chords, of the shortest text; all are equally long if not given",
            )
        return SourceReader("task", "pairs", options, self._scan)

    def _scan(self, request: ReadRequest) -> Scan:
        rng, n = np.random.default_rng(request.seed), request.options["n"]
        longest = request.options.get("length", 0)
        shortest = request.options.get("shortest")
        if shortest is not None and shortest > longest:
            raise ArgumentError(f"shortest={shortest}: it must not be longer than length={longest}")
        lengths = rng.integers(longest if shortest is None else shortest, longest + 1, n)
        sources, targets = zip(*(self.draw(rng, int(length)) for length in lengths), strict=True)
        return Scan(n, n, contents=contents_of(sources, targets))


def _digits(rng: Random, length: int) -> str:
    return "".join(map(str, rng.integers(0, 10, length)))


def _copy(rng: Random, length: int) -> tuple[str, str]:
    digits = _digits(rng, length)
    return digits, digits


def _reverse(rng: Random, length: int) -> tuple[str, str]:
    digits = _digits(rng, length)
    return digits, digits[::-1]


def _date(rng: Random, _length: int) -> tuple[str, str]:
    date = datetime.date.fromordinal(int(rng.integers(_FIRST, _LAST + 1)))
    month = _MONTHS[date.month - 1]
    words = {
        "day": date.day,
        "nth": f"{date.day}{_ending(date.day)}",
        "month": month,
        "mon": month[:3],
        "year": date.year,
        "weekday": _DAYS[date.weekday()],
    }
    return _SPELLINGS[rng.integers(len(_SPELLINGS))].format(**words), date.isoformat()


def _ending(day: int) -> str:
    """What follows the number of a day.

    >>> [f"{day}{_ending(day)}" for day in (1, 2, 3, 11, 12, 22, 30)]
    ['1st', '2nd', '3rd', '11th', '12th', '22nd', '30th']
    """
    return "th" if 10 < day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def _melody(rng: Random, length: int) -> tuple[str, str]:
    """Chords of a key that follow each other by fourths and fifths, and the melody that leads from one to the next.

    Of every chord the melody takes three tones: the one nearest to the tone before (the lower of two), then the next
    ones of the chord, upwards where the tone before lies below G4 and downwards elsewhere.
    """
    tonic, degree = int(rng.integers(12)), 0
    chords, tones = [], []
    last = _MIDDLE - 1
    for _ in range(length):
        root = (tonic + _SCALE[degree]) % 12
        members = {(tonic + _SCALE[(degree + step) % 7]) % 12 for step in (0, 2, 4)}
        pitches = [tone for tone in range(_LOWEST, _HIGHEST) if tone % 12 in members]
        nearest = min(range(len(pitches)), key=lambda at: (abs(pitches[at] - last), pitches[at]))
        way = 1 if last < _MIDDLE else -1
        played = [pitches[nearest + way * step] for step in range(3)]
        last = played[-1]
        chords.append(_NOTES[root] + ("dim" if degree == _DIMINISHED else "m" if degree in _MINOR else ""))
        tones += [f"{_NOTES[tone % 12]}{tone // 12 - 1}" for tone in played]
        degree = int(rng.choice(_FOLLOWS[degree]))
    return " ".join(chords), " ".join(tones)


def _instructed(rng: Random, length: int) -> tuple[str, str]:
    """A task by name before its digits: what comes out depends on both."""
    name = tuple(_INSTRUCTIONS)[rng.integers(len(_INSTRUCTIONS))]
    digits = _digits(rng, length)
    return f"{name} {digits}", _INSTRUCTIONS[name](digits)


_INSTRUCTIONS: dict[str, Callable[[str], str]] = {
    "copy": lambda digits: digits,
    "reverse": lambda digits: digits[::-1],
    "sort": lambda digits: "".join(sorted(digits)),
}
TASKS = {
    "copy": Task("digits and the same digits: texts to copy", _copy, length=12),
    "reverse": Task("digits and the same digits backwards", _reverse, length=12),
    "tasks": Task("digits to copy, reverse or sort, as the word before them says", _instructed, length=6),
    "melody": Task("chords of a key, and a melody of three tones for each", _melody, length=4),
    "dates": Task("dates from 1900 to 2099 in nine spellings, and as 1998-05-03", _date),
}

__all__ = ["TASKS", "Task"]
