"""The file of compressed data: whatever happens to it is said, with the place."""

import io

import numpy as np
import pytest

from chainrule.core.errors import DataError
from chainrule.information.compression.codes import CodedStream
from chainrule.information.compression.container import CompressedReader, CompressedWriter

RAWS = [b"first part", b"second"]


def written() -> bytes:
    file = io.BytesIO()
    writer = CompressedWriter(file, {"seed": 3}, b"names")
    for number, raw in enumerate(RAWS):
        lanes = [
            CodedStream(np.arange(4 + number, dtype=np.uint32), number, {}),
            CodedStream(np.arange(9, 12, dtype=np.uint32), 2, {}),
        ]
        writer.segment(len(raw), lanes[: 1 + number], raw)
    writer.close()
    assert writer.bytes == len(file.getvalue())
    return file.getvalue()


def consume(blob: bytes) -> list[np.ndarray]:
    reader = CompressedReader(io.BytesIO(blob), "a.crz")
    found = []
    for number, segment in enumerate(reader.segments(), start=1):
        reader.matched(segment, number, RAWS[number - 1])
        found.append(np.concatenate([lane.words for lane in segment.lanes]))
    return found


def test_segments_come_back() -> None:
    reader = CompressedReader(io.BytesIO(written()))
    assert (reader.header, reader.names) == ({"seed": 3}, b"names")
    for number, segment in enumerate(reader.segments()):
        assert [lane.initial for lane in segment.lanes] == [number, 2][: 1 + number]
        reader.matched(segment, number + 1, RAWS[number])
    assert [words.tolist() for words in consume(written())] == [[0, 1, 2, 3], [0, 1, 2, 3, 4, 9, 10, 11]]


def test_a_file_that_was_cut_off_is_refused_wherever_that_was() -> None:
    blob = written()
    for length in range(len(blob)):
        with pytest.raises(DataError, match=r"cut off|does not begin"):
            consume(blob[:length])


def test_every_altered_bit_is_found() -> None:
    blob = written()
    for bit in range(8 * len(blob)):
        altered = bytearray(blob)
        altered[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DataError) as found:
            consume(bytes(altered))
        assert "a.crz" in str(found.value)


def test_errors_name_the_place() -> None:
    blob = written()
    with pytest.raises(DataError, match="does not begin like a compressed file of Chainrule"):
        consume(b"PK\x03\x04 something else")
    with pytest.raises(DataError, match=r"has format 1; this version reads 2") as older:
        consume(blob[:8] + b"\x01\x00" + blob[10:])
    assert "compress the data again" in str(older.value)
    with pytest.raises(DataError, match=r"goes on after its end \(byte \d+\)"):
        consume(blob + b"x")
    at = blob.index(np.arange(5, dtype="<u4").tobytes())
    with pytest.raises(
        DataError, match=r"a\.crz is damaged: the checksum of its segment 2 is another \(byte \d+\)"
    ):
        consume(blob[:at] + b"\xff" + blob[at + 1 :])
    reader = CompressedReader(io.BytesIO(blob), "a.crz")
    with pytest.raises(DataError, match="segment 1 decodes to other data than were compressed"):
        reader.matched(next(reader.segments()), 1, b"other")
