"""Folders of sound: what is read, what is refused by name, what is said, and that nothing is converted unasked."""

import struct
import wave
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile

import chainrule as cr
from chainrule.core.errors import ArgumentError, DataError
from chainrule.data.loading.problems import Refused
from chainrule.data.readers.waveforms import read

RNG = np.random.default_rng(0)
LIMITS = 2**30, 200


def sound(seconds: float = 0.5, rate: int = 8000, channels: int = 1, level: float = 0.5) -> np.ndarray:
    x = RNG.normal(size=(int(seconds * rate), channels))
    return (level * x / np.abs(x).max() * 32767).astype(np.int16)


def put(path: Path, x: np.ndarray, rate: int = 8000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    wavfile.write(path, rate, x)
    return path


def tracks(folder: Path, count: int = 6, names: tuple[str, ...] = ("drums", "voice"), **options: int) -> Path:
    for number in range(count):
        for name in names:
            put(folder / f"song{number}" / f"{name}.wav", sound(**options))
    return folder


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (np.array([0, 128, 255], np.uint8), [-1, 0, 127 / 128]),
        (np.array([-32768, 0, 16384], np.int16), [-1, 0, 0.5]),
        (np.array([-(2**31), 0, 2**30], np.int32), [-1, 0, 0.5]),
        (np.array([-1, 0, 0.25], np.float32), [-1, 0, 0.25]),
        (np.array([-1, 0, 0.25], np.float64), [-1, 0, 0.25]),
    ],
)
def test_samples_of_every_type_lie_between_minus_one_and_one(
    tmp_path: Path, stored: np.ndarray, expected: list[float]
) -> None:
    found = read(put(tmp_path / "a.wav", stored), "a.wav", *LIMITS)
    np.testing.assert_allclose(found.x[:, 0], expected, atol=1e-7)
    assert found.rate == 8000


def test_samples_of_24_bits_are_read(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(3)
        file.setframerate(8000)
        file.writeframes(b"".join(struct.pack("<i", value << 8)[1:] for value in (-(2**23), 0, 2**22)))
    np.testing.assert_allclose(read(tmp_path / "a.wav", "a", *LIMITS).x[:, 0], [-1, 0, 0.5], atol=1e-6)


def test_flac_files_are_read_where_soundfile_is_installed(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    x = sound(0.1)
    soundfile.write(tmp_path / "a.flac", x, 8000)
    found = read(tmp_path / "a.flac", "a.flac", *LIMITS)
    np.testing.assert_allclose(found.x, x / 32768, atol=1e-6)
    whole = (tmp_path / "a.flac").read_bytes()
    for bad in (whole[:200], b"fLaC" + bytes(100)):
        (tmp_path / "b.flac").write_bytes(bad)
        with pytest.raises(Refused, match=r"FLAC|samples"):
            read(tmp_path / "b.flac", "b.flac", *LIMITS)
    with pytest.raises(Refused, match="declares"):
        read(tmp_path / "a.flac", "a.flac", 1000 + len(whole), 1)


@pytest.mark.parametrize(
    ("contents", "kind"),
    [
        (b"", "empty"),
        (b"RIFF", "not a WAV file"),
        (b"no sound at all, but long enough to be looked at", "not a WAV file"),
    ],
)
def test_files_that_are_no_sound_are_refused(tmp_path: Path, contents: bytes, kind: str) -> None:
    (tmp_path / "a.wav").write_bytes(contents)
    with pytest.raises(Refused) as error:
        read(tmp_path / "a.wav", "a.wav", *LIMITS)
    assert error.value.problem.kind == kind


def test_damaged_files_are_refused_or_read_but_never_crash(tmp_path: Path) -> None:
    whole = put(tmp_path / "a.wav", sound(0.05)).read_bytes()
    bad = tmp_path / "b.wav"
    for cut in (10, 20, 40, 44, 45, len(whole) // 2, len(whole) - 1):
        bad.write_bytes(whole[:cut])
        with pytest.raises(Refused):
            read(bad, "b.wav", *LIMITS)
    for _ in range(300):
        flipped = bytearray(whole)
        for at in RNG.integers(0, 60, 3):
            flipped[at] = RNG.integers(256)
        bad.write_bytes(bytes(flipped))
        try:
            assert np.isfinite(read(bad, "b.wav", *LIMITS).x).all()
        except Refused:
            continue


def test_amplitudes_beyond_the_limits_are_refused(tmp_path: Path) -> None:
    for values, kind in (([0.0, 3.0], "too loud"), ([0.0, np.nan], "not finite")):
        put(tmp_path / "a.wav", np.array(values, np.float32))
        with pytest.raises(Refused) as error:
            read(tmp_path / "a.wav", "a.wav", *LIMITS)
        assert error.value.problem.kind == kind


def test_what_is_too_loud_is_said_with_the_way_to_write_it_softer(tmp_path: Path) -> None:
    for number in range(4):
        put(tmp_path / f"{number}.wav", sound())
    put(tmp_path / "loud.wav", np.array([0.0, -3.5, 1.0], np.float32))
    text = "\n".join(cr.data.check(tmp_path, length=500).lines())
    assert "amplitudes up to 3.5" in text
    assert "ffmpeg -i IN.wav -af volume=1/4 OUT.wav" in text


def test_a_folder_of_sound_is_cut_into_pieces_with_whole_recordings_in_one_split(tmp_path: Path) -> None:
    for number in range(8):
        put(tmp_path / "bells" / f"{number}.wav", np.full(2500, 100 * (number + 1), np.int16))
    data = cr.data.load(tmp_path / "bells", length=500)
    assert data.schema.shape == (500, 1)
    assert data.schema.rate == 8000
    assert "8,000 a second), mono" in data.describe()
    parts = [set(np.asarray(split.x)[:, 0, 0].tolist()) for split in (data.train, data.val, data.test)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 8
    assert len(data.train) + len(data.val) + len(data.test) == 40
    few = tmp_path / "few"
    put(few / "one.wav", sound(2.0))
    assert len(cr.data.load(few, length=500).test) == 3
    assert cr.data.load(**data.source).hash == data.hash


def test_tracks_become_mixtures_of_their_sources(tmp_path: Path) -> None:
    folder = tracks(tmp_path / "songs")
    put(folder / "song0" / "mixture.wav", sound())
    data = cr.data.load(folder, length=1000)
    assert data.schema.classes == ("drums", "voice")
    assert data.schema.target_shape == (2, 1000, 1)
    batch = data.train.batch(np.arange(3))
    np.testing.assert_allclose(batch.x, batch.y.sum(axis=1), atol=1e-6)
    assert cr.data.load(folder, length=1000, sources="none").schema.target == "none"
    chosen = cr.data.load(folder, length=1000, sources=["voice", "drums"])
    assert chosen.schema.classes == ("voice", "drums")
    with pytest.raises(ArgumentError, match="sources"):
        cr.data.load(folder, sources="voice")


def test_training_hears_sources_in_new_company_and_everybody_else_does_not(tmp_path: Path) -> None:
    import jax

    data = cr.data.load(tracks(tmp_path / "songs", 8), length=1000)
    assert data.train.changes
    assert not data.val.changes
    arrays = {name: jax.numpy.asarray(one) for name, one in data.train.arrays.items()}
    index = np.arange(8)
    fresh, again = (data.train.fresh(arrays, index, jax.random.key(seed)) for seed in (0, 1))
    np.testing.assert_allclose(fresh.x, fresh.y.sum(axis=1), atol=1e-5)
    assert not np.allclose(fresh.x, again.x)
    plain = data.train.batch(index)
    for source in range(2):  # each is one of those that were there, a little louder or softer
        own = np.asarray(fresh.y)[0, source, :, 0]
        cosines = [
            abs(own @ one) / np.linalg.norm(own) / np.linalg.norm(one) for one in plain.y[:, source, :, 0]
        ]
        assert max(cosines) == pytest.approx(1, abs=1e-5)


def kinds_of(folder: Path, **options: object) -> dict[str, str]:
    report = cr.data.check(folder, **options)
    return {group.kind: group.effect for group in report.problems}


def test_what_differs_is_named_and_converted_only_on_request(tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    for number in range(6):
        put(folder / f"{number}.wav", sound())
    put(folder / "fast.wav", sound(rate=16000), 16000)
    put(folder / "wide.wav", sound(channels=2))
    put(folder / "none.wav", np.zeros(4000, np.int16))
    put(folder / "loud.wav", np.clip(20 * sound().astype(int), -32768, 32767).astype(np.int16))
    (folder / "bad.wav").write_bytes(b"RIFFnothing")
    found = kinds_of(folder)
    expected = {"another rate": "skip", "other channels": "skip", "silent": "skip", "not a WAV file": "skip"}
    assert found.items() >= {**expected, "clipped": "note"}.items()
    with pytest.raises(DataError, match=r"4 of 11 recordings cannot be read"):
        cr.data.load(folder, length=500)
    assert len(cr.data.load(folder, length=500, bad="skip").skipped) == 4
    asked = kinds_of(folder, rate=8000, channels=1)
    assert asked.items() >= {"resampled": "note", "channels changed": "note"}.items()
    assert not {"another rate", "other channels"} & asked.keys()
    text = "\n".join(cr.data.check(folder).lines())
    assert "16,000 samples a second, most have 8,000" in text
    assert "data.rate=8000" in text
    assert "data.channels=1" in text


@pytest.mark.parametrize(("declared", "words"), [(1, "too large"), (2**24 - 1, "strange rate")])
def test_a_file_that_declares_a_strange_rate_takes_no_memory_to_convert(
    declared: int, words: str, tmp_path: Path
) -> None:
    for number in range(6):
        put(tmp_path / f"{number}.wav", sound())
    put(tmp_path / "odd.wav", sound(), declared)
    report = cr.data.check(tmp_path, rate=8192, max_bytes=2**24)
    assert words in {group.kind for group in report.problems}


def test_tracks_that_lack_a_source_or_are_silent_are_named(tmp_path: Path) -> None:
    folder = tracks(tmp_path / "songs", 5)
    (folder / "song1" / "voice.wav").unlink()
    put(folder / "song2" / "voice.wav", np.zeros(4000, np.int16))
    put(folder / "song3" / "voice.wav", sound(0.4))
    found = kinds_of(folder)
    assert (
        found.items() >= {"no source": "skip", "silent source": "note", "different lengths": "note"}.items()
    )
    assert found["short"] == "note"


def test_a_folder_without_usable_sound_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    with pytest.raises(DataError, match="no sound is left"):
        cr.data.load(tmp_path, bad="skip")


def test_resampling_keeps_a_tone(tmp_path: Path) -> None:
    time = np.arange(16000) / 16000
    put(tmp_path / "a.wav", (20000 * np.sin(2 * np.pi * 440 * time)).astype(np.int16), 16000)
    moved = read(tmp_path / "a.wav", "a", *LIMITS).at(8000)
    expected = 20000 / 32768 * np.sin(2 * np.pi * 440 * np.arange(8000) / 8000)
    np.testing.assert_allclose(moved.x[200:-200, 0], expected[200:-200], atol=2e-3)


def test_samples_that_resampling_cuts_off_are_counted_and_said(tmp_path: Path) -> None:
    square = np.sign(np.sin(2 * np.pi * 100.3 * np.arange(8000) / 16000)).astype(np.float32)
    put(tmp_path / "a.wav", square, 16000)
    moved = read(tmp_path / "a.wav", "a", *LIMITS).at(8000)
    assert moved.beyond == int((np.abs(moved.x) > 1).sum()) > 100
    assert moved.within().beyond == 0
    assert np.abs(moved.within().x).max() == 1
    put(tmp_path / "b.wav", square / 2, 16000)
    report = cr.data.check(tmp_path, rate=8000, length=500)
    (found,) = (group for group in report.problems if group.kind == "resampled")
    said = {one.where.split("/")[-1]: one.detail for one in found.items}
    assert said["a.wav"] == (
        f"from 16,000 to 8,000 a second; {moved.beyond:,} samples that came out beyond 1 are cut off there"
    )
    assert said["b.wav"] == "from 16,000 to 8,000 a second"
    data = cr.data.load(tmp_path, rate=8000, length=500)
    assert np.abs(np.asarray(data.train.x)).max() == 1
