"""Sound files as amplitudes between -1 and 1: WAV of whole numbers or floats, and FLAC where soundfile is installed.

Nothing is converted silently: another rate or another number of channels is made only on request, and whoever reads a
file is told what was found in it.
"""

import io
import math
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float

from chainrule.data.loading import bounded
from chainrule.data.loading.problems import Refused

SUFFIXES = (".wav", ".flac")
_RUN = 3
"""Samples one after the other at the loudest amplitude that count as clipped: one alone may be a peak."""
_SILENT = 1e-4
"""The loudest amplitude of a recording that counts as silent: 80 dB below the limit."""
_LOUDEST = 1 - 2.0**-14
"""What an amplitude at the limit of 16 bits reaches on either side."""


@final
@dataclass(frozen=True)
class SoundRecording:
    """Amplitudes, and how many there are in a second."""

    x: Float[np.ndarray, "samples channels"]
    rate: int

    @property
    def silent(self) -> bool:
        """Whether there is nothing to hear."""
        return float(np.abs(self.x).max(initial=0)) < _SILENT

    @property
    def clipped(self) -> int:
        """Places where several samples in a row stand at the limit."""
        loud = np.abs(self.x) >= _LOUDEST
        runs = loud[: len(loud) - _RUN + 1].copy()
        for shift in range(1, _RUN):
            runs &= loud[shift : len(loud) - _RUN + 1 + shift]
        before = np.concatenate([np.zeros((1, runs.shape[1]), bool), runs[:-1]]) if len(runs) else runs
        return int((runs & ~before).sum())

    @property
    def beyond(self) -> int:
        """Samples outside of [-1, 1], which no file that is read has."""
        return int((np.abs(self.x) > 1).sum())

    def within(self) -> "SoundRecording":
        """The same sound, cut off at -1 and 1."""
        return SoundRecording(self.x.clip(-1, 1), self.rate)

    def at(self, rate: int) -> "SoundRecording":
        """The same sound with so many samples a second, by a polyphase filter; loud places may come out beyond 1.

        >>> SoundRecording(np.zeros((441, 1), np.float32), 44100).at(8000).x.shape
        (80, 1)
        """
        if rate == self.rate:
            return self
        from scipy.signal import resample_poly  # a second to import, and needed on request only

        common = math.gcd(rate, self.rate)
        moved = resample_poly(self.x, rate // common, self.rate // common, axis=0)
        return SoundRecording(moved.astype(np.float32), rate)

    def in_channels(self, channels: int) -> "SoundRecording":
        """The same sound in one channel, the mean of all, or with one repeated."""
        if channels == self.x.shape[1]:
            return self
        mean = self.x.mean(axis=1, keepdims=True)
        return SoundRecording(np.repeat(mean, channels, axis=1).astype(np.float32), self.rate)


def read(path: Path, where: str, max_bytes: int, max_ratio: int) -> SoundRecording:
    """The recording in a file, or a refusal that says what is wrong with it."""
    data = bounded.read(path, where, max_bytes, max_ratio)
    if not data:
        raise Refused("empty", where, "the file has no bytes", "fetch or write it again")
    found = (_flac if path.suffix.lower() == ".flac" else _wav)(data, where, max_bytes, max_ratio)
    if not len(found.x):
        raise Refused("empty", where, "the file has no samples", "fetch or write it again")
    if not np.isfinite(found.x).all():
        raise Refused("not finite", where, "some samples are NaN or infinite", "write the file again")
    if np.abs(found.x).max() > 1:
        detail = f"amplitudes up to {np.abs(found.x).max():.3g}; sound lies between -1 and 1"
        softer = f"write it again, softer: ffmpeg -i IN.wav -af volume=1/{math.ceil(np.abs(found.x).max())} OUT.wav"
        raise Refused("too loud", where, detail, softer)
    return found


def _wav(data: bytes, where: str, max_bytes: int, max_ratio: int) -> SoundRecording:
    del max_ratio  # nothing in a WAV file is compressed
    from scipy.io import wavfile

    again = "write it again, for example: ffmpeg -i IN.wav -c:a pcm_s16le OUT.wav"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", wavfile.WavFileWarning)
            warnings.filterwarnings("ignore", "Chunk .non-data.", wavfile.WavFileWarning)
            rate, x = wavfile.read(io.BytesIO(data))
    except wavfile.WavFileWarning as error:
        raise Refused("truncated", where, f"the file is cut off ({error})", "fetch the file again") from None
    except (
        ValueError,
        struct.error,
        EOFError,
        OverflowError,
        MemoryError,
        TypeError,
        IndexError,
        KeyError,
        ZeroDivisionError,
        UnboundLocalError,
    ) as error:  # what SciPy's reader lets through of a damaged file
        raise Refused("not a WAV file", where, f"not a WAV file that can be read ({error})", again) from None
    if not 1 <= rate < 2**24 or x.ndim > 2 or x.nbytes > 8 * max_bytes:
        raise Refused("not a WAV file", where, f"{rate:,} samples a second in shape {x.shape}", again)
    return SoundRecording(_amplitudes(x if x.ndim == 2 else x[:, None]), int(rate))


def _amplitudes(x: np.ndarray) -> Float[np.ndarray, "samples channels"]:
    """Whole numbers as shares of the largest that their type holds; SciPy keeps 24 bits at the top of 32."""
    if x.dtype.kind == "f":
        return x.astype(np.float32)
    if x.dtype == np.uint8:  # the only size that is stored without a sign
        return ((x.astype(np.float32) - 128) / 128).astype(np.float32)
    return (x.astype(np.float64) / 2.0 ** (8 * x.dtype.itemsize - 1)).astype(np.float32)


def _flac(data: bytes, where: str, max_bytes: int, max_ratio: int) -> SoundRecording:
    try:
        import soundfile
    except ImportError:
        raise Refused(
            "needs soundfile",
            where,
            "FLAC files are read by the package soundfile, which is not installed",
            "pip install 'chainrule[audio]', or write the files as WAV",
        ) from None
    library: Any = soundfile
    try:
        with library.SoundFile(io.BytesIO(data)) as file:
            needed = 4 * file.frames * file.channels
            # What a file declares is not believed: silence compresses without limit.
            if not 0 <= needed <= min(max_bytes, max(2**28, max_ratio * len(data))):
                detail = f"declares {needed:,} bytes of sound in a file of {len(data):,}"
                raise Refused("too large", where, detail, "if you trust the file: data.max_ratio=2000")
            x = file.read(dtype="float32", always_2d=True)
            rate, declared = int(file.samplerate), int(file.frames)
    except library.LibsndfileError as error:
        raise Refused(
            "damaged", where, f"not a FLAC file that can be read ({error})", "fetch it again"
        ) from None
    if len(x) != declared:
        raise Refused(
            "truncated", where, f"declares {declared:,} samples, holds {len(x):,}", "fetch it again"
        )
    return SoundRecording(x, rate)


__all__ = ["SUFFIXES", "SoundRecording", "read"]
