"""Standard MIDI files, in and out: notes with times in seconds (The MIDI Manufacturers Association, 1996).

Files of format 0 (one track) and 1 (tracks at the same time) are read. The tempo may change anywhere; a pedal that is
held lengthens the notes of its channel; percussion, which has no pitch, is left out. Nothing a file declares is
believed: every length is compared with the bytes that are there, and what does not fit is refused by its position.
"""

import bisect
import math
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple, final

from chainrule.core.errors import ArgumentError
from chainrule.data.loading.problems import Refused

_TICKS = 500
"""Of a quarter note in files that are written, whose tempo makes a tick a millisecond."""
_TEMPO = 500_000
"""Microseconds of a quarter note until a file says otherwise."""
_PERCUSSION = 9
_PEDAL = 64
_LONGEST = 24 * 3600.0
"""Seconds of the longest piece that is read."""
_DATA_BYTES = {0x8: 2, 0x9: 2, 0xA: 2, 0xB: 2, 0xC: 1, 0xD: 1, 0xE: 2}
"""Bytes after the status of each kind of message."""


class Note(NamedTuple):
    """One note: when it begins and ends, in seconds, its pitch (60 is middle C) and how hard it is struck."""

    start: float
    end: float
    pitch: int
    velocity: int


class MidiPiece(NamedTuple):
    """The notes of a file, by their beginning, and what was left out."""

    notes: list[Note]
    percussion: int
    """Notes of percussion."""


class _Message(NamedTuple):
    """A message of a channel at a time in ticks."""

    tick: int
    order: int
    """Messages of one tick keep the order of the file, but for notes that end, which come first."""
    status: int
    first: int
    second: int


def read(data: bytes, where: str) -> MidiPiece:
    """The notes in the bytes of a MIDI file."""
    if len(data) < 14 or data[:4] != b"MThd":
        raise Refused(
            "not MIDI", where, "it does not begin like a MIDI file", "export it as a standard MIDI file"
        )
    length, form, count, division = struct.unpack(">IHHH", data[4:14])
    if length < 6 or form > 1:
        detail = (
            f"a MIDI file of format {form}; read are formats 0 and 1" if form > 1 else "its header is damaged"
        )
        raise Refused("not MIDI", where, detail, "export it as a standard MIDI file of format 1")
    if division == 0:
        raise Refused("damaged", where, "a quarter note has no ticks", "export the file again")
    messages: list[_Message] = []
    tempi: list[tuple[int, int]] = []
    at, tracks = 8 + length, 0
    while at < len(data) and tracks < count:
        if at + 8 > len(data):
            raise _cut(where, at)
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "big")
        if at + 8 + size > len(data):
            raise _cut(where, at)
        if name == b"MTrk":
            _track(data[at + 8 : at + 8 + size], at + 8, where, messages, tempi)
            tracks += 1
        at += 8 + size
    if tracks < count:
        raise Refused("truncated", where, f"declares {count} tracks, holds {tracks}", "fetch the file again")
    return _notes(messages, _Clock(division, tempi), where)


def _cut(where: str, at: int) -> Refused:
    return Refused("truncated", where, f"the file is cut off after byte {at:,}", "fetch the file again")


def _track(
    data: bytes, offset: int, where: str, messages: list[_Message], tempi: list[tuple[int, int]]
) -> None:
    """The messages of one track; running status is filled in."""
    at, tick, status = 0, 0, 0
    try:
        while at < len(data):
            delta, at = _number(data, at)
            tick += delta
            first = data[at]
            if first == 0xFF:
                kind, (size, start) = data[at + 1], _number(data, at + 2)
                body = data[start : start + size]
                if len(body) < size:
                    raise IndexError
                if kind == 0x51 and size == 3:
                    tempi.append((tick, max(1, int.from_bytes(body, "big"))))
                at = start + size
                if kind == 0x2F:
                    return
            elif first in (0xF0, 0xF7):
                size, start = _number(data, at + 1)
                if start + size > len(data):
                    raise IndexError
                at, status = start + size, 0
            else:
                if first & 0x80:
                    status, at = first, at + 1
                if status >> 4 not in _DATA_BYTES:
                    raise ValueError
                needed = _DATA_BYTES[status >> 4]
                body = data[at : at + needed]
                if len(body) < needed:
                    raise IndexError
                if max(body) > 127:
                    raise ValueError
                messages.append(_Message(tick, len(messages), status, body[0], body[-1]))
                at += needed
    except IndexError:
        raise _cut(where, offset + min(at, len(data))) from None
    except ValueError:
        raise Refused(
            "damaged", where, f"no MIDI message at byte {offset + at:,}", "export it again"
        ) from None


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, at most four bytes, and where it ends."""
    value = 0
    for step in range(4):
        byte = data[at + step]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + step + 1
    raise ValueError


@final
class _Clock:
    """From ticks to seconds, by all changes of tempo."""

    def __init__(self, division: int, tempi: Iterable[tuple[int, int]]) -> None:
        if division & 0x8000:  # frames of film a second, and ticks of a frame
            frames, ticks = 256 - (division >> 8), division & 0xFF
            division = max(frames * ticks, 1)
            tempi = [(0, 1_000_000)]
        changes = {0: _TEMPO, **dict(sorted(tempi, key=lambda one: one[0]))}
        self._ticks: list[int] = []
        self._tempi: list[int] = []
        self._seconds: list[float] = []
        self._division = 1e6 * division
        for tick, tempo in sorted(changes.items()):
            before = self.seconds(tick) if self._ticks else 0.0
            self._ticks.append(tick)
            self._tempi.append(tempo)
            self._seconds.append(before)

    def seconds(self, tick: int) -> float:
        """When a tick is."""
        index = bisect.bisect_right(self._ticks, tick) - 1
        passed = (tick - self._ticks[index]) * self._tempi[index]
        return self._seconds[index] + passed / self._division


def _notes(messages: Sequence[_Message], clock: _Clock, where: str) -> MidiPiece:
    """Notes from messages in time; what still sounds at the end ends with the last message."""
    found: list[Note] = []
    sounding: dict[tuple[int, int], tuple[float, int]] = {}
    held: dict[tuple[int, int], tuple[float, int]] = {}
    pedals: set[int] = set()
    early: dict[tuple[int, int], _Message] = {}  # ends of notes that do not sound yet
    percussion, now = 0, 0.0

    def end(key: tuple[int, int], struck: tuple[float, int]) -> None:
        if now > struck[0]:
            found.append(Note(struck[0], now, key[1], struck[1]))

    def ends(message: _Message) -> bool:
        return message.status >> 4 == 8 or (message.status >> 4 == 9 and not message.second)

    for message in sorted(messages, key=lambda one: (one.tick, not ends(one), one.order)):
        channel, key = message.status & 0xF, (message.status & 0xF, message.first)
        now = clock.seconds(message.tick)
        if now > _LONGEST:
            raise Refused("too long", where, f"it goes on after {_LONGEST / 3600:.0f} hours", "cut it")
        if channel == _PERCUSSION:
            percussion += message.status >> 4 == 9 and message.second > 0
        elif ends(message):
            if key in sounding:
                struck = sounding.pop(key)
                if channel in pedals:
                    held[key] = struck
                else:
                    end(key, struck)
            else:
                early[key] = message
        elif message.status >> 4 == 9:
            for before in (sounding, held):  # the same key again ends what it still sounds
                if key in before:
                    end(key, before.pop(key))
            ended = early.get(key)
            if ended is None or (ended.tick, ended.order) < (message.tick, message.order):
                sounding[key] = now, message.second
            elif channel in pedals:  # struck and let go in the same tick: only a pedal makes it heard
                held[key] = now, message.second
        elif message.status >> 4 == 0xB and message.first == _PEDAL:
            if message.second >= 64:
                pedals.add(channel)
            else:
                pedals.discard(channel)
                for one in [one for one in held if one[0] == channel]:
                    end(one, held.pop(one))
    for key, struck in [*held.items(), *sounding.items()]:
        end(key, struck)
    return MidiPiece(sorted(found), percussion)


def apart(notes: Iterable[Note]) -> list[Note]:
    """Notes by their beginning, each cut off where its pitch is struck again: one key sounds once.

    >>> apart([Note(0.0, 3.0, 60, 80), Note(1.0, 2.0, 60, 70)])
    [Note(start=0.0, end=1.0, pitch=60, velocity=80), Note(start=1.0, end=2.0, pitch=60, velocity=70)]
    """
    following: dict[int, float] = {}
    found = []
    for note in sorted(notes, reverse=True):
        again = following.get(note.pitch, math.inf)
        if again > note.start:  # of those that begin together the longest is left
            found.append(note._replace(end=min(note.end, again)))
            following[note.pitch] = note.start
    return found[::-1]


def write(notes: Iterable[Note]) -> bytes:
    """A MIDI file of format 0 with these notes, to the millisecond.

    >>> read(write([Note(0.0, 0.5, 60, 80)]), "a.mid").notes
    [Note(start=0.0, end=0.5, pitch=60, velocity=80)]
    """
    changes: list[tuple[int, int, int, int]] = []
    for note in apart(notes):
        if not (0 <= note.pitch < 128 and 1 <= note.velocity < 128 and 0 <= note.start < note.end < _LONGEST):
            raise ArgumentError(
                f"write: {note} cannot be written",
                remedy="pitches are 0 to 127, velocities 1 to 127, and a note ends after it begins",
            )
        begins, ends = round(1000 * note.start), round(1000 * note.end)
        changes += [(begins, 1, note.pitch, note.velocity), (max(ends, begins + 1), 0, note.pitch, 0)]
    body, before = bytearray(b"\x00\xff\x51\x03" + _TEMPO.to_bytes(3, "big")), 0
    for tick, strikes, pitch, velocity in sorted(changes):
        body += _variable(tick - before) + bytes([0x90 if strikes else 0x80, pitch, velocity])
        before = tick
    body += b"\x00\xff\x2f\x00"
    return (
        b"MThd" + struct.pack(">IHHH", 6, 0, 1, _TICKS) + b"MTrk" + struct.pack(">I", len(body)) + bytes(body)
    )


def _variable(value: int) -> bytes:
    """A number of variable length.

    >>> _variable(200)
    b'\\x81H'
    """
    found = [value & 0x7F]
    while value := value >> 7:
        found.append(value & 0x7F | 0x80)
    return bytes(reversed(found))


__all__ = ["MidiPiece", "Note", "apart", "read", "write"]
