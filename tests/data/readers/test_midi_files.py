"""Folders of MIDI files: pieces held out as a whole, classes by folder, damaged and short files named."""

from pathlib import Path

import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import DataError
from chainrule.data.generated.tunes import tune
from chainrule.data.kinds.music import _excerpts
from chainrule.data.music import midi
from chainrule.data.readers.midi_files import contents_of

RNG = np.random.default_rng(0)


def folder(path: Path, *, classes: tuple[str, ...] = (), count: int = 10) -> Path:
    for number in range(count):
        below = path / classes[number % len(classes)] if classes else path
        below.mkdir(parents=True, exist_ok=True)
        (below / f"{number}.mid").write_bytes(midi.write(tune(RNG, "major")))
    return path


def test_pieces_are_excerpts_of_events_held_out_as_a_whole(tmp_path: Path) -> None:
    data = cr.data.load(folder(tmp_path / "songs"), window=32)
    assert data.schema.shape == (32,)
    assert len(data.schema.tokens) == 413
    covered = [
        {int(at) for start in split.arrays["starts"] for at in range(start, start + 32)}
        for split in (data.train, data.val, data.test)
    ]
    assert all(covered)
    assert not covered[0] & (covered[1] | covered[2])
    assert cr.data.load(**data.source).hash == data.hash
    assert "413 kinds in excerpts of 32" in data.describe()


def test_folders_are_classes(tmp_path: Path) -> None:
    data = cr.data.load(folder(tmp_path / "songs", classes=("bach", "ravel"), count=20), window=32)
    assert data.schema.classes == ("bach", "ravel")
    assert data.train.y.shape == (len(data.train),)


def test_folders_in_folders_are_classes_of_several_names(tmp_path: Path) -> None:
    forms = ("bach/fugue", "bach/suite", "ravel/suite")
    songs = folder(tmp_path / "songs", classes=forms, count=30)
    assert cr.data.load(songs, window=32).schema.classes == ("bach", "ravel")
    data = cr.data.load(songs, window=32, folders=2)
    assert data.schema.classes == forms
    assert cr.data.load(**data.source).hash == data.hash
    (songs / "bach" / "lost.mid").write_bytes(midi.write(tune(RNG, "major")))
    (group,) = cr.data.check(songs, window=32, folders=2).problems
    assert (group.kind, group.effect, group.count) == ("too few folders", "skip", 1)
    assert group.items[0].remedy == "data.folders=1"
    assert cr.data.load(songs, window=32, folders=2, bad="skip").schema.classes == forms


def test_bad_files_are_named(tmp_path: Path) -> None:
    songs = folder(tmp_path / "songs")
    (songs / "cut.mid").write_bytes((songs / "0.mid").read_bytes()[:100])
    (songs / "short.mid").write_bytes(midi.write([midi.Note(0.0, 1.0, 60, 64)]))
    (songs / "none.mid").write_bytes(midi.write([]))
    groups = cr.data.check(songs, window=32).problems
    found = {group.kind: group.effect for group in groups}
    assert found == {"truncated": "skip", "too short": "skip", "no notes": "skip"}
    assert not any(
        "data.window" in group.items[0].remedy for group in groups
    )  # four events are too few for any
    with pytest.raises(DataError, match="3 of 13 pieces cannot be read"):
        cr.data.load(songs, window=32)
    for file in songs.glob("[0-9]*.mid"):
        file.unlink()
    with pytest.raises(DataError, match="no music is left"):
        cr.data.load(songs, bad="skip")


def test_the_remedy_for_short_pieces_works(tmp_path: Path) -> None:
    songs = folder(tmp_path / "songs")
    (group,) = (one for one in cr.data.check(songs, window=500).problems if one.kind == "too short")
    name, value = group.items[0].remedy.rsplit(".", 1)[1].split("=")
    assert not cr.data.check(songs, **{name: int(value)}).problems


def test_pieces_are_counted_once_for_all_excerpts(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    own = np.bincount
    monkeypatch.setattr(np, "bincount", lambda *given, **said: (counted.append(1), own(*given, **said))[1])
    pieces = [np.arange(40 + number) % 413 for number in range(60)]
    contents = contents_of(pieces, ["a", "b"] * 30, 32)
    found = _excerpts(contents, np.arange(60), 8)
    assert len(counted) <= 4  # not once for each piece, which takes minutes where there are thousands
    ends = np.cumsum([len(piece) for piece in pieces])
    starts = found.arrays["starts"]
    assert set(ends - 32) <= set(starts.tolist())  # the last excerpt of a piece ends with it
    of = np.searchsorted(ends, starts, side="right")
    assert (of == np.searchsorted(ends, starts + 31, side="right")).all()
    assert np.array_equal(found.arrays["y"], of % 2)
