"""WAV files: every size of sample, what is no PCM, what was cut off."""

import io
import wave
from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import DataError
from chainrule.core.pictures import Lines
from chainrule.data import kinds, load
from chainrule.data.schema import Schema

TONE = np.round(20_000 * np.sin(np.arange(600) / 7)).astype(np.int32)


def wav(samples: np.ndarray, size: int = 2, channels: int = 1) -> bytes:
    """Samples of 16 bits as a file with so many bytes each."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(size)
        file.setframerate(8000)
        if size == 1:
            raw = ((samples >> 8) + 128).astype(np.uint8).tobytes()
        else:
            raw = (samples.astype("<i4") << 16).view(np.uint8).reshape(-1, 4)[:, 4 - size :].tobytes()
        file.writeframes(raw)
    return out.getvalue()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_samples_keep_their_levels_up_to_sixteen_bits(size: int, tmp_path: Path) -> None:
    path = tmp_path / "tone.wav"
    path.write_bytes(wav(TONE, size))
    data = load(path, series=60)
    levels = 256 if size == 1 else 65_536
    assert (data.schema.kind, data.schema.shape, data.schema.levels) == ("sequence", (60, 1), levels)
    found = np.concatenate([data.inverse(part.x).ravel() for part in (data.train, data.val, data.test)])
    expected = (TONE >> 8) + 128 if size == 1 else TONE + 32_768
    np.testing.assert_array_equal(np.rint(found), expected)
    assert 0 <= data.train.batch(np.arange(2)).x.min() <= data.train.batch(np.arange(2)).x.max() <= 1
    assert any("more than 16 bits" in kind for kind, _ in data.notes) == (size > 2)
    assert load(**data.source).hash == data.hash


def test_channels_are_features(tmp_path: Path) -> None:
    path = tmp_path / "stereo.wav"
    path.write_bytes(wav(TONE, channels=2))
    data = load(path, series=30)
    assert data.schema.shape == (30, 2)
    np.testing.assert_array_equal(np.rint(data.inverse(data.train.x))[0, :, 1], TONE[1:60:2] + 32_768)


def test_what_is_no_sound_is_refused_by_name(tmp_path: Path) -> None:
    whole = wav(TONE)
    path = tmp_path / "a.wav"
    for content, match in (
        (b"", "a.wav: not a WAV file"),
        (b"RIFF" + whole[8:], "a.wav: not a WAV file"),
        (whole[:20] + b"\3\0" + whole[22:], r"(?s)not a WAV file of whole numbers.*pcm_s16le"),
        (whole[:-100], "a.wav: declares 600 samples of 2 bytes but holds"),
        (wav(TONE[:0]), "a.wav: declares 0 samples"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=match):
            load(path)
    path.write_bytes(whole)
    with pytest.raises(DataError, match=r"(?s)600 rows make 0 examples of 1024.*data.series=60"):
        load(path)


@pytest.mark.parametrize("size", [1, 2])
def test_samples_come_out_as_sound_at_the_rate_of_the_data(size: int, tmp_path: Path) -> None:
    path = tmp_path / "stereo.wav"
    path.write_bytes(wav(TONE, size, channels=2))
    data = load(path, series=30)
    drawn = np.rint(data.inverse(data.train.x))[:2]
    files = kinds.of(data.schema).write_playable(tmp_path, data.schema, drawn)
    assert list(files) == ["sound 1", "sound 2"]
    with wave.open(str(files["sound 2"])) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (8000, 2, 2)
        found = np.frombuffer(file.readframes(100), "<i2")
    expected = TONE[60:120] if size == 2 else (TONE[60:120] >> 8) << 8
    np.testing.assert_array_equal(found, expected)
    assert Schema.from_json(data.schema.to_json()).rate == 8000


def test_the_rate_is_no_part_of_what_data_are(tmp_path: Path) -> None:
    path = tmp_path / "tone.wav"
    path.write_bytes(wav(TONE))
    slow = load(path, series=60)
    path.write_bytes(wav(TONE).replace((8000).to_bytes(4, "little"), (9000).to_bytes(4, "little"), 1))
    fast = load(path, series=60)
    assert (slow.schema.rate, fast.schema.rate) == (8000, 9000)
    assert slow.schema == fast.schema
    assert slow.hash == fast.hash


def test_sound_is_shown_as_a_waveform(tmp_path: Path) -> None:
    path = tmp_path / "tone.wav"
    path.write_bytes(wav(TONE))
    data = load(path, series=60)
    kind = kinds.of(data.schema)
    for picture in (kind.preview(data), kind.picture(data.schema, np.full((2, 60, 1), 32_768.0))):
        assert isinstance(picture, Lines)
        assert (picture.x_label, picture.y_label) == ("seconds", "amplitude")
        assert all(
            np.abs(values).max() <= 1 and times[-1] == 59 / 8000 for times, values in picture.series.values()
        )
    assert "8,000 samples a second" in data.describe()
    loud = np.full((1, 5, 1), 70_000.0)
    with wave.open(str(kind.write_playable(tmp_path, data.schema, loud)["sound 1"])) as file:
        assert set(np.frombuffer(file.readframes(5), "<i2")) == {2**15 - 1}
