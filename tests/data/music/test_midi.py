"""MIDI files and events: there and back, tempo, pedal, and files that are damaged."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.core.errors import ArgumentError
from chainrule.data.loading.problems import Refused
from chainrule.data.music import events, midi
from chainrule.data.music.midi import Note

RNG = np.random.default_rng(0)


def chunk(body: bytes) -> bytes:
    return b"MTrk" + struct.pack(">I", len(body)) + body


def file(*tracks: bytes, form: int = 1, division: int = 480) -> bytes:
    return b"MThd" + struct.pack(">IHHH", 6, form, len(tracks), division) + b"".join(map(chunk, tracks))


END = b"\x00\xff\x2f\x00"


def notes(data: bytes) -> list[Note]:
    return midi.read(data, "a.mid").notes


@given(
    st.lists(
        st.tuples(st.integers(0, 2000), st.integers(1, 300), st.integers(0, 127), st.integers(0, 31)),
        max_size=20,
    )
)
@settings(max_examples=60, deadline=None)
def test_notes_on_the_grid_survive_events_and_files(drawn: list[tuple[int, int, int, int]]) -> None:
    free: dict[int, int] = {}
    made = []
    for start, length, pitch, level in sorted(drawn):
        begins = max(start, free.get(pitch, 0))
        free[pitch] = begins + length
        made.append(Note(begins * events.STEP, (begins + length) * events.STEP, pitch, 4 * level + 2))
    for back in (events.decode(events.encode(made)), notes(midi.write(made))):
        assert len(back) == len(made)
        for one, other in zip(sorted(made), back, strict=True):
            assert one[2:] == other[2:]
            assert one[:2] == pytest.approx(other[:2], abs=1e-9)


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 30), st.integers(60, 61), st.integers(0, 31)),
        max_size=12,
    )
)
@settings(max_examples=60, deadline=None)
def test_notes_of_several_voices_last_until_their_pitch_is_struck_again(
    drawn: list[tuple[int, int, int, int]],
) -> None:
    made = [
        Note(start * events.STEP, (start + length) * events.STEP, pitch, 4 * level + 2)
        for start, length, pitch, level in drawn
    ]
    expected = {}
    for note in sorted(made):  # of those that begin together the last is the longest
        later = [one.start for one in made if one.pitch == note.pitch and one.start > note.start]
        expected[note.start, note.pitch] = note._replace(end=min([note.end, *later]))
    for back in (events.decode(events.encode(made)), notes(midi.write(made))):
        assert len(back) == len(expected)
        for one, other in zip(sorted(expected.values()), back, strict=True):
            assert one == pytest.approx(other, abs=1e-9)


def test_there_are_413_events() -> None:
    assert events.COUNT == len(events.names()) == len(set(events.names())) == 128 + 128 + 125 + 32


def test_the_tempo_map_running_status_and_tracks_are_followed() -> None:
    tempo = (
        b"\x00\xff\x51\x03\x07\xa1\x20" + b"\x83\x60\xff\x51\x03\x0f\x42\x40" + END
    )  # half speed after a quarter
    tune = b"\x00\x90\x3c\x40" + b"\x83\x60\x3c\x00" + b"\x00\x3e\x40" + b"\x83\x60\x3e\x00" + END
    assert notes(file(tempo, tune)) == [Note(0.0, 0.5, 60, 64), Note(0.5, 1.5, 62, 64)]
    assert notes(file(tune, form=0)) == [Note(0.0, 0.5, 60, 64), Note(0.5, 1.0, 62, 64)]


def test_a_pedal_lengthens_notes_until_it_is_lifted() -> None:
    pedal = (
        b"\x00\xb0\x40\x7f" + b"\x00\x90\x3c\x40" + b"\x83\x60\x80\x3c\x00" + b"\x83\x60\xb0\x40\x00" + END
    )
    assert notes(file(pedal)) == [Note(0.0, 1.0, 60, 64)]


def test_percussion_is_left_out_and_counted_and_hanging_notes_end() -> None:
    found = midi.read(
        file(b"\x00\x99\x24\x40" + b"\x00\x90\x3c\x40" + b"\x83\x60\x99\x24\x00" + END), "a.mid"
    )
    assert found.percussion == 1
    assert found.notes == [Note(0.0, 0.5, 60, 64)]


def test_a_note_of_no_length_does_not_hang() -> None:
    struck, let_go = b"\x00\x90\x3c\x40", b"\x00\x80\x3c\x00"
    after = b"\x83\x60\x90\x3e\x40" + b"\x83\x60\x80\x3e\x00" + END
    assert notes(file(struck + let_go + after)) == [Note(0.5, 1.0, 62, 64)]
    again = let_go + struck  # ends what came before and begins anew
    assert len(notes(file(struck + b"\x83\x60\x80\x3c\x00" + again + after))) == 3
    held = b"\x00\xb0\x40\x7f" + struck + let_go + b"\x83\x60\xb0\x40\x00" + END
    assert notes(file(held)) == [Note(0.0, 0.5, 60, 64)]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "not MIDI"),
        (b"RIFF" + bytes(40), "not MIDI"),
        (file(END, form=2), "not MIDI"),
        (file(END, division=0), "damaged"),
        (file(b"\x00\x90\x3c\x40" + END)[:-6], "truncated"),
        (file(b"\x00\x3c\x40" + END), "damaged"),
        (file(b"\x00\x90\x3c\xff" + END), "damaged"),
        (file(b"\xff\xff\xff\xff\x7f\x90\x3c\x40"), "damaged"),
        (file(b"\x00\xff\x01\x7f"), "truncated"),
        (file(END)[:14], "truncated"),
    ],
)
def test_damaged_files_are_refused_by_name(data: bytes, kind: str) -> None:
    with pytest.raises(Refused) as error:
        midi.read(data, "a.mid")
    assert (error.value.problem.kind, error.value.problem.where) == (kind, "a.mid")


def test_no_change_of_bytes_crashes_the_reader() -> None:
    whole = midi.write([Note(0.1 * k, 0.1 * k + 0.3, 40 + k, 70) for k in range(20)])
    for _ in range(2000):
        changed = bytearray(whole)
        for at in RNG.integers(0, len(whole), 4):
            changed[at] = RNG.integers(256)
        try:
            found = midi.read(bytes(changed[: RNG.integers(1, len(whole) + 1)]), "a.mid")
        except Refused:
            continue
        events.decode(events.encode(found.notes))


def test_bad_notes_and_events_are_named() -> None:
    with pytest.raises(ArgumentError, match="velocities 1 to 127"):
        midi.write([Note(0.0, 1.0, 60, 0)])
    with pytest.raises(ArgumentError, match=r"events\[1\]=413"):
        events.decode([0, 413])


@pytest.mark.parametrize(
    "note",
    [
        Note(0.0, 1.0, 200, 64),  # which would be read as the end of another note
        Note(0.0, 1.0, 60, 300),
        Note(0.0, 1.0, 60, 0),
        Note(-1.0, 1.0, 60, 64),
        Note(1.0, 0.5, 60, 64),
        Note(float("nan"), 1.0, 60, 64),
        Note(0.0, float("inf"), 60, 64),
    ],
)
def test_notes_that_no_event_can_say_are_refused(note: Note) -> None:
    with pytest.raises(ArgumentError, match="velocities 1 to 127"):
        events.encode([Note(0.0, 1.0, 60, 64), note])
