"""Files of SentencePiece (`tokenizer.model`): a vocabulary in the format of protocol buffers, read field by field.

Read are vocabularies of merges with bytes for what has no token, as the first two generations of Llama have them; what
else such a file may ask for changes the tokens and is refused by name.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chainrule.core.errors import ChainruleError, DataError
from chainrule.data.text.tokenizers.sentence_piece import SentencePiece

_BPE = 2
_CONTROL, _USER, _UNUSED = 3, 4, 5
_MAX_BYTES = 2**27
_REMEDY = "convert it with transformers: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(NEW)"


def read(path: str | Path) -> SentencePiece:
    """The tokenizer in a file of SentencePiece."""
    source = Path(path)
    if source.stat().st_size > _MAX_BYTES:
        raise DataError(f"{source.name}: a tokenizer file of more than {_MAX_BYTES:,} bytes is not read")
    tokens: list[str] = []
    scores: list[float] = []
    special: list[str] = []
    trainer: dict[int, Any] = {}
    normalizer: dict[int, Any] = {}
    try:
        for field, value in _fields(source.read_bytes()):
            if field == 1:
                piece = dict(_fields(value))
                tokens.append(piece[1].decode())
                scores.append(struct.unpack("<f", piece[2])[0] if 2 in piece else 0.0)
                kind = piece.get(3, 1)
                if kind in (_USER, _UNUSED):
                    raise DataError(
                        f"{source.name}: {tokens[-1]!r} is a token defined by the user", remedy=_REMEDY
                    )
                special += [tokens[-1]] if kind == _CONTROL else []
            elif field == 2:
                trainer = dict(_fields(value))
            elif field == 3:
                normalizer = dict(_fields(value))
    except (ValueError, KeyError, struct.error, IndexError, TypeError, AttributeError) as error:
        if isinstance(error, ChainruleError):
            raise
        raise DataError(f"{source.name} is not a vocabulary of SentencePiece", remedy=_REMEDY) from None
    _check(source.name, trainer, normalizer)
    return SentencePiece.scored(tokens, scores, special)


def _check(name: str, trainer: dict[int, Any], normalizer: dict[int, Any]) -> None:
    """Refuse what the tokenizer here does not do; numbers are those of the format's fields, with their defaults."""
    wanted = {
        "a model of merges (BPE)": trainer.get(3, 1) == _BPE,
        "bytes for unknown characters": trainer.get(35, 0) == 1,
        "no normalisation of characters": not normalizer.get(2),
        "a space in front of a text": normalizer.get(3, 1) == 1,
        "spaces as they are": normalizer.get(4, 1) == 0,
        "spaces as characters": normalizer.get(5, 1) == 1,
    }
    lacking = [what for what, is_so in wanted.items() if not is_so]
    if lacking:
        raise DataError(
            f"{name} is not of Llama's kind; that has {lacking[0]}",
            remedy=_REMEDY,
        )


def _fields(raw: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message in their order: whole numbers, or bytes."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(raw, at)
            yield tag >> 3, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            size, at = _varint(raw, at)
        if size is None or at + size > len(raw):
            raise ValueError("no message")
        yield tag >> 3, raw[at : at + size]
        at += size


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        byte = raw[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
    raise ValueError("no number")


__all__ = ["read"]
