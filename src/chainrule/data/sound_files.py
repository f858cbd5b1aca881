"""Sound as a listener has it: amplitudes between -1 and 1, and WAV files of 16 bits at the rate of the data."""

import io
import wave
from pathlib import Path

import numpy as np
from jaxtyping import Float, Num

from chainrule.data.schema import Schema


def amplitudes(
    schema: Schema, x: Num[np.ndarray, "*examples steps channels"]
) -> Float[np.ndarray, "*examples steps channels"]:
    """Samples in their original units, which count levels from 0 on, as numbers between -1 and 1; silence is 0.

    >>> sound = Schema("sequence", (3, 1), levels=256, rate=8000)
    >>> amplitudes(sound, np.array([[0], [128], [192]])).ravel().tolist()
    [-1.0, 0.0, 0.5]
    """
    half = schema.levels / 2
    return np.asarray((np.asarray(x, np.float64) - half) / half)


def write_sound(path: Path, schema: Schema, x: Num[np.ndarray, "steps channels"]) -> Path:
    """A WAV file of samples in their original units, which count levels."""
    return write_amplitudes(path, schema.rate, amplitudes(schema, x))


def write_amplitudes(path: Path, rate: int, x: Num[np.ndarray, "samples channels"]) -> Path:
    """A WAV file of amplitudes between -1 and 1."""
    path.write_bytes(wav_bytes(rate, x))
    return path


def wav_bytes(rate: int, x: Num[np.ndarray, "samples channels"]) -> bytes:
    """The bytes of a WAV file of whole numbers of 16 bits; amplitudes beyond the loudest are cut off.

    >>> wav_bytes(8000, np.zeros((4, 1)))[:4]
    b'RIFF'
    """
    numbers = np.clip(np.rint(np.asarray(x, np.float64) * 2**15), -(2**15), 2**15 - 1).astype("<i2")
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(x.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(numbers.tobytes())
    return out.getvalue()


__all__ = ["amplitudes", "wav_bytes", "write_amplitudes", "write_sound"]
