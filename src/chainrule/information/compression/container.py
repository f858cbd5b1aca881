"""The file of compressed data: magic number, version, header, segments, end; every part has a checksum of its own.

    magic (8 bytes) | version (u16) | two blocks, the header (JSON) and names: length (u32), zlib, CRC-32
    segments: "S", examples (u64), lanes (u32); initial words (u32) and words (u64) of every lane; the 32-bit words of
              all lanes, one after another; digest of the raw data (8), CRC-32
    end:      "E", segments (u32), examples (u64), SHA-256 of the raw data, CRC-32

Numbers are little-endian. A file that was cut off, altered or is none of ours is refused where it shows, by its byte.
"""

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedIOBase
from typing import Any, NamedTuple, final

import numpy as np

from chainrule.core.errors import DataError
from chainrule.core.quoting import plain
from chainrule.information.compression.codes import CodedStream
from chainrule.information.compression.lanes import MOST

MAGIC = b"\x89CRZ\r\n\x1a\n"
VERSION = 2
"""Format 1 had one stream in a segment."""
_LARGEST_HEADER = 2**24
_LARGEST_NAMES = 2**28
_SEGMENT = struct.Struct("<QI")
_LANE = struct.Struct("<IQ")
_END = struct.Struct("<IQ32s")


class Segment(NamedTuple):
    """Part of the data: how many examples, their words, and a digest of what they have to become."""

    examples: int
    lanes: tuple[CodedStream, ...]
    digest: bytes


@final
class CompressedWriter:
    """Writes a file part by part."""

    def __init__(self, file: BufferedIOBase, header: Mapping[str, Any], names: bytes = b"") -> None:
        self._file, self._raw = file, hashlib.sha256()
        self._segments = self._examples = self.bytes = 0
        self._put(MAGIC + struct.pack("<H", VERSION))
        for plain_block in (json.dumps(header, sort_keys=True, separators=(",", ":")).encode(), names):
            block = zlib.compress(plain_block, 9) if plain_block else b""
            self._put(struct.pack("<I", len(block)) + block)
            self._put(struct.pack("<I", zlib.crc32(block)))

    def segment(self, count: int, lanes: Sequence[CodedStream], raw: bytes) -> None:
        """Add a segment; `raw` are the bytes that it stands for."""
        fields = _SEGMENT.pack(count, len(lanes))
        fields += b"".join(_LANE.pack(lane.initial, len(lane.words)) for lane in lanes)
        body = fields + b"".join(lane.words.astype("<u4").tobytes() for lane in lanes) + digest(raw)
        self._put(b"S" + body + struct.pack("<I", zlib.crc32(body)))
        self._raw.update(raw)
        self._segments, self._examples = self._segments + 1, self._examples + count

    def close(self) -> None:
        """Write the end."""
        body = _END.pack(self._segments, self._examples, self._raw.digest())
        self._put(b"E" + body + struct.pack("<I", zlib.crc32(body)))

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self.bytes += len(data)


@final
class CompressedReader:
    """Reads a file part by part; whatever is wrong with it is said with the place."""

    def __init__(self, file: BufferedIOBase, where: str = "the compressed data") -> None:
        self._file, self._where, self._at, self._raw = file, plain(where), 0, hashlib.sha256()
        if self._take(len(MAGIC), "magic number", foreign=True) != MAGIC:
            raise self.error("does not begin like a compressed file of Chainrule", "is it another file?")
        (version,) = struct.unpack("<H", self._take(2, "version"))
        if version != VERSION:
            older = "decompress it with the version that wrote it, or compress the data again"
            remedy = "update Chainrule" if version > VERSION else older
            raise self.error(f"has format {version}; this version reads {VERSION}", remedy)
        try:
            self.header: dict[str, Any] = json.loads(_unpacked(self._block("header", _LARGEST_HEADER)))
            self.names = _unpacked(self._block("names", _LARGEST_NAMES))
        except (ValueError, zlib.error, RecursionError) as error:
            if isinstance(error, DataError):
                raise
            raise self.error("has a header that cannot be read") from None

    def segments(self) -> Iterator[Segment]:
        """Every segment, to the end; `matched` has to be told what each became."""
        number = examples = 0
        while True:
            number += 1
            kind = self._take(1, f"segment {number}")
            if kind == b"E":
                break
            if kind != b"S":
                raise self.error(f"is damaged before segment {number}")
            segment = self._segment(number)
            examples += segment.examples
            yield segment
        segments, total, whole = _END.unpack(self._checked(_END.size, "end"))
        if (segments, total) != (number - 1, examples) or whole != self._raw.digest():
            raise self.error("does not hold what its end says: a segment is missing or came twice")
        if self._file.read(1):
            raise self.error("goes on after its end")

    def matched(self, segment: Segment, number: int, raw: bytes) -> None:
        """Raise unless a segment became what it stood for."""
        if digest(raw) != segment.digest:
            raise DataError(
                f"{self._where}: segment {number} decodes to other data than were compressed",
                remedy="decode with the same versions on the machine that compressed",
            )
        self._raw.update(raw)

    def error(self, what: str, remedy: str = "fetch the file again") -> DataError:
        """What is wrong with the file, with the place."""
        return DataError(f"{self._where} {what} (byte {self._at:,})", remedy=remedy)

    def _segment(self, number: int) -> Segment:
        name = f"segment {number}"
        fields = self._take(_SEGMENT.size, name)
        count, lanes = _SEGMENT.unpack(fields)
        if not 1 <= lanes <= MOST:
            raise self.error(f"is damaged: {name} claims {lanes:,} lanes, which cannot be")
        fields += self._take(lanes * _LANE.size, name)
        sizes = list(_LANE.iter_unpack(fields[_SEGMENT.size :]))
        body = self._take(4 * sum(words for _, words in sizes) + 8, name)
        self._check(fields + body, name)
        every = np.frombuffer(body[:-8], "<u4").astype(np.uint32)
        parts = np.split(every, np.cumsum([words for _, words in sizes])[:-1])
        found = (CodedStream(part, initial, {}) for part, (initial, _) in zip(parts, sizes, strict=True))
        return Segment(count, tuple(found), body[-8:])

    def _block(self, name: str, most: int) -> bytes:
        (length,) = struct.unpack("<I", self._take(4, name))
        if length > most:
            raise self.error(f"has a {name} of {length:,} bytes, which cannot be")
        return self._checked(length, name)

    def _checked(self, count: int, name: str) -> bytes:
        block = self._take(count, name)
        self._check(block, name)
        return block

    def _check(self, block: bytes, name: str) -> None:
        (stored,) = struct.unpack("<I", self._take(4, name))
        if stored != zlib.crc32(block):
            raise self.error(f"is damaged: the checksum of its {name} is another")

    def _take(self, count: int, name: str, foreign: bool = False) -> bytes:
        # In pieces: a damaged length must not ask for more memory than the file has bytes.
        found = bytearray()
        while len(found) < count and (piece := self._file.read(min(count - len(found), 2**24))):
            found += piece
        self._at += len(found)
        if len(found) < count and not foreign:
            raise self.error(f"ends in the middle of its {name}: it was cut off")
        return bytes(found)


def digest(raw: bytes) -> bytes:
    """A short digest of raw data."""
    return hashlib.sha256(raw).digest()[:8]


def _unpacked(packed: bytes) -> bytes:
    if not packed:
        return b""
    unpacking = zlib.decompressobj()
    found = unpacking.decompress(packed, _LARGEST_NAMES)
    if unpacking.unconsumed_tail:
        raise DataError("the list of names is larger than it can be")
    return found


__all__ = ["MAGIC", "VERSION", "CompressedReader", "CompressedWriter", "Segment", "digest"]
