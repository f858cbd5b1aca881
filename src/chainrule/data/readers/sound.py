"""Sound: WAV files of whole numbers (PCM), cut into examples one after the other.

Samples of 16 bits keep their 65,536 levels, counted from the lowest, so that silence is 32,768; those of 8 bits their
256; longer ones are read at 16 bits. Channels are the features of a step.
"""

import io
import wave

import numpy as np
from jaxtyping import Num

from chainrule.data.loading import bounded
from chainrule.data.loading.options import MAX_BYTES, MAX_RATIO, Option, whole
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader

WINDOW = 1024


def parse(data: bytes, where: str) -> Num[np.ndarray, "frames channels"]:
    """The samples in the bytes of a WAV file, as whole numbers from 0 on."""
    try:
        with wave.open(io.BytesIO(data)) as file:
            channels, size, frames = file.getnchannels(), file.getsampwidth(), file.getnframes()
            raw = file.readframes(frames)
    except (wave.Error, EOFError) as error:
        remedy = "write it as PCM of 16 bits, for example: ffmpeg -i IN.wav -c:a pcm_s16le OUT.wav"
        raise Refused(
            "not PCM", where, f"not a WAV file of whole numbers ({error or 'cut off'})", remedy
        ) from None
    if not raw or len(raw) != frames * channels * size:
        detail = f"declares {frames:,} samples of {channels * size} bytes but holds {len(raw):,} bytes"
        raise Refused("truncated", where, detail, "fetch the file again")
    if size == 1:  # the only size that is stored without a sign
        return np.frombuffer(raw, np.uint8).reshape(-1, channels)
    # The two highest bytes of each number, which comes with its lowest byte first.
    highest = np.frombuffer(raw, np.uint8).reshape(-1, size)[:, -2:]
    signed = np.ascontiguousarray(highest).view("<i2")
    return (signed.astype(np.int32) + 2**15).astype(np.uint16).reshape(-1, channels)


def _scan(request: ReadRequest) -> Scan:
    where = request.shown(request.path)
    options = request.options
    data = bounded.read(request.path, where, options["max_bytes"], options["max_ratio"])
    x = parse(data, where)
    with wave.open(io.BytesIO(data)) as file:
        deep, rate = file.getsampwidth() > 2, file.getframerate()
    notes = (Problem("sound of more than 16 bits, read at 16", where, "", "note"),) if deep else ()
    # Rows of a table in this moment; the option `series` makes examples of them.
    contents = Contents("table", x, levels=2 ** (8 * x.dtype.itemsize), rate=rate)
    return Scan(len(x), len(x), notes, contents)


reader = SourceReader(
    "sound",
    "samples",
    {
        "series": Option(WINDOW, whole(2), "steps in an example"),
        "max_bytes": MAX_BYTES,
        "max_ratio": MAX_RATIO,
    },
    _scan,
)

__all__ = ["WINDOW", "parse", "reader"]
