"""Texts larger than memory, in one file or several: read in blocks, their tokens kept in a file that is mapped.

The file of tokens is written once, into the user's cache (`$XDG_CACHE_HOME/chainrule/tokens`), under the hash of the
text, of its division and of the tokenizer; it can be deleted at any time and is then written again. A text is cut only
where a single white space stands between two other characters: no rule of splitting reaches across such a place, so the
tokens are those of the whole text, which is checked for every tokenizer that comes from a file.
"""

import bisect
import codecs
import hashlib
import itertools
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chainrule.core.errors import ArgumentError, DataError, DiskError
from chainrule.data.loading.scan import StreamedText
from chainrule.data.text import tokenizers
from chainrule.data.text.tokenizers import ByteBPE, Tokenizer
from chainrule.data.text.tokenizers.byte_bpe import count

BLOCK = 2**20
"""Bytes read at once."""
LEARNT = 2**26
"""Bytes of training text that a tokenizer is learnt from."""
_UNCUT = 32
"""Blocks without a place to cut after which a text is refused."""
_VERSION = 1


class TokenFile(NamedTuple):
    """The tokens of a text in a file, and what they are."""

    tokenizer: Tokenizer
    tokens: list[np.ndarray]
    """Of training, validation and test, mapped."""
    bytes: list[int]
    """Of text, in UTF-8."""
    characters: list[int]


def tokenized(text: StreamedText, lengths: Sequence[int], kind: str, vocab: int | None) -> TokenFile:
    """The tokens of the three pieces of a text, of about these many bytes, from the cache or written there."""
    if kind in tokenizers.KINDS and kind != "byte-bpe":
        raise ArgumentError(
            f"stream=true and tokenizer={kind}: it would have to see the whole text first",
            remedy="use data.tokenizer=byte-bpe, or a tokenizer's .json file",
        )
    given = None if kind in tokenizers.KINDS else tokenizers.extended(tokenizers.read(kind), text.special)
    if given is not None and vocab is not None:
        raise ArgumentError(
            f"vocab={vocab}: the tokenizer of {Path(kind).name} has its own vocabulary",
            remedy="leave vocab out",
        )
    bounds = _bounds(text, lengths)
    which = kind if given is None else given.fingerprint
    key = [_VERSION, text.digest, bounds, which, vocab, text.lower, text.allow_special, *text.special]
    name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
    folder = _cache() / name
    if not _is_whole(folder):
        _write(folder, text, bounds, given, vocab)
    about = json.loads((folder / "about.json").read_text())
    mapped = np.memmap(folder / "tokens.bin", about["type"], "r")
    pieces = np.split(mapped, np.cumsum(about["tokens"])[:-1])
    return TokenFile(tokenizers.read(folder / "tokenizer.json"), pieces, about["bytes"], about["characters"])


def _cache() -> Path:
    own = os.environ.get("XDG_CACHE_HOME")
    return (Path(own) if own else Path.home() / ".cache") / "chainrule" / "tokens"


def _is_whole(folder: Path) -> bool:
    try:
        about = json.loads((folder / "about.json").read_text())
        size = sum(about["tokens"]) * np.dtype(about["type"]).itemsize
        return (folder / "tokenizer.json").is_file() and (folder / "tokens.bin").stat().st_size == size
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _bounds(text: StreamedText, lengths: Sequence[int]) -> list[int]:
    """Where pieces begin and end: behind the line, or else the character, that the wanted length ends in."""
    bounds, size = [0], sum(text.sizes)
    for wanted in np.cumsum(lengths)[:-1].tolist():
        block = _bytes(text, wanted, min(BLOCK, size - wanted))
        line = block[: block.find(b"\n") + 1]
        if not line:
            line = block[: next((i for i, byte in enumerate(block) if byte & 0xC0 != 0x80), len(block))]
        bounds.append(min(wanted + len(line), size))
    return [*bounds, size]


def _bytes(text: StreamedText, at: int, count: int) -> bytes:
    """So many bytes of all files, one after the other, from a position on."""
    found = bytearray()
    for number in range(bisect.bisect_right(text.ends, at), len(text.files)):
        if len(found) == count:
            break
        left = text.ends[number] - at - len(found)
        wanted = min(count - len(found), left)
        with text.files[number].open("rb") as file:
            file.seek(text.skips[number] + text.sizes[number] - left)
            raw = file.read(wanted)
        # Of several files, one may lack the new line that was counted as its end.
        lacking = wanted - len(raw)
        if lacking > (len(text.files) > 1 and wanted == left):
            raise DataError(f"{text.files[number].name} has become shorter while it was read")
        found += raw + b"\n" * lacking
    return bytes(found)


def _write(
    folder: Path, text: StreamedText, bounds: list[int], given: Tokenizer | None, vocab: int | None
) -> None:
    """Write the files of a text into the cache, all or nothing."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        room, needed = shutil.disk_usage(folder.parent).free, 2 * bounds[-1]
        if room < needed // 4:
            raise DiskError(
                f"{folder.parent} has {room:,} bytes left; the tokens of {text.name} may need {needed:,}",
                remedy="make room, or name another place for it: XDG_CACHE_HOME=DIR",
            )
        half_made = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    except OSError as error:
        raise DiskError(f"{folder.parent} cannot be written ({error.strerror or error})") from None
    try:
        tokenizer = _learnt(text, bounds, vocab) if given is None else given
        _check_cuts(text, bounds, tokenizer)
        kind = np.dtype("<u2" if len(tokenizer) <= 2**16 else "<u4")
        amounts, letters = [], []
        with (half_made / "tokens.bin").open("wb") as file:
            for first, last in itertools.pairwise(bounds):
                amounts.append(0)
                letters.append(0)
                for piece in _texts(text, first, last):
                    ids = tokenizer.encode(piece, allow_special=text.allow_special)
                    file.write(ids.astype(kind).tobytes())
                    amounts[-1] += len(ids)
                    letters[-1] += len(piece)
        tokenizers.write(tokenizer, half_made / "tokenizer.json")
        held = [last - first for first, last in itertools.pairwise(bounds)]
        about = {
            "text": text.name,
            "type": kind.str,
            "tokens": amounts,
            "bytes": held,
            "characters": letters,
        }
        (half_made / "about.json").write_text(json.dumps(about))
        shutil.rmtree(folder, ignore_errors=True)
        half_made.rename(folder)
    except OSError as error:
        if not _is_whole(folder):  # another process may have been faster
            raise DiskError(f"{folder} cannot be written ({error.strerror or error})") from None
    finally:
        shutil.rmtree(half_made, ignore_errors=True)


def _learnt(text: StreamedText, bounds: list[int], vocab: int | None) -> Tokenizer:
    """Merges from the beginning of the training text."""
    chunks: Counter[str] = Counter()
    for piece in _texts(text, 0, min(bounds[1], LEARNT), whole=bounds[1] <= LEARNT):
        chunks.update(count(piece, text.special))
    size = tokenizers.VOCAB["byte-bpe"] if vocab is None else vocab
    return ByteBPE.from_counts(chunks, size, special=text.special)


def _check_cuts(text: StreamedText, bounds: list[int], tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer for which the pieces of a text have other tokens than the whole."""
    sample = next(_texts(text, 0, min(bounds[1], 2**16), whole=False), "")
    at = _cut(sample[: len(sample) // 2])
    parts = [tokenizer.encode(part) for part in (sample[:at], sample[at:])]
    if not np.array_equal(tokenizer.encode(sample), np.concatenate(parts)):
        raise ArgumentError(
            f"stream=true: this tokenizer ({type(tokenizer).__name__}) reads a text as one, and not in pieces",
            remedy="leave data.stream out, or use data.tokenizer=byte-bpe",
        )


def _texts(text: StreamedText, first: int, last: int, *, whole: bool = True) -> Iterator[str]:
    """The text between two positions, in pieces that tokenizers take one by one; not `whole`, its end is left out."""
    decoder = codecs.getincrementaldecoder("utf-8-sig" if first == 0 else "utf-8")()
    held, left = "", last - first
    while left:
        raw = _bytes(text, last - left, min(BLOCK, left))
        left -= len(raw)
        held += decoder.decode(raw, final=whole and not left)
        at = len(held) if whole and not left else _cut(held)
        if not at and len(held) > _UNCUT * BLOCK:
            raise DataError(
                f"{text.name}: {len(held):,} characters without a single white space between two others",
                remedy="such a text cannot be cut into pieces: leave data.stream out",
            )
        if at:
            piece, held = held[:at], held[at:]
            piece = piece.replace("\r\n", "\n").replace("\r", "\n")
            yield piece.lower() if text.lower else piece


def _cut(text: str) -> int:
    """The last place before a single white space between two other characters; 0 where there is none.

    >>> text = "to be,  or"
    >>> text[: _cut(text)]
    'to'
    """
    for at in range(len(text) - 2, 0, -1):
        if text[at].isspace() and not text[at - 1].isspace() and not text[at + 1].isspace():
            return at
    return 0


def examined(path: Path) -> Iterator[tuple[bytes, int]]:
    """The bytes of a file block by block, each with its position."""
    with path.open("rb") as file:
        at = 0
        while raw := file.read(BLOCK):
            yield raw, at
            at += len(raw)


__all__ = ["BLOCK", "LEARNT", "TokenFile", "examined", "tokenized"]
