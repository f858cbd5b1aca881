"""Data as whole numbers that a code takes, and the way back: arrays of levels, texts, tokens, events of music."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Int

from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.data import kinds, tokenizers
from chainrule.data.schema import Schema
from chainrule.information.compression.codes import LEVELS_WANTED, alphabet
from chainrule.information.compression.headers import NUMBER_TYPES

_SEGMENT_BYTES = 2**24
"""Raw data that are in memory at a time, about."""
_SEGMENT_TOKENS = 2**20
_SEGMENT_LETTERS = 2**20


@final
@dataclass(frozen=True)
class Material:
    """Data to be compressed: their symbols segment by segment, and how to write them back."""

    total: int
    """Examples, or tokens of one long row."""
    segments: Callable[[], Iterator[np.ndarray]]
    form: Mapping[str, Any] = field(default_factory=dict)
    names: bytes = b""
    left_out: tuple[str, ...] = ()
    """Names of files that are not among them."""
    text: Callable[[], Iterator[str]] | None = None
    """The text itself in pieces, where it is one: its tokens may be longer or shorter."""


class LevelSpelling(NamedTuple):
    """How levels were written as numbers."""

    top: int
    """The highest."""
    product: bool
    """Whether fractions are products of rounded numbers, as arithmetic in single precision gives them."""


def arranged(schema: Schema, data: Any) -> Material:
    """An array of levels, a text, a row of tokens, or excerpts of music as symbols.

    >>> pixels = arranged(Schema("image", (2, 2, 1), levels=4), np.array([[[0, 1], [2, 3]]], np.uint8))
    >>> [part.tolist() for part in pixels.segments()], dict(pixels.form)
    ([[[0, 1, 2, 3]]], {'as': 'array', 'dtype': '|u1', 'shape': [1, 2, 2], 'top': 3, 'product': False})
    """
    if kinds.of(schema).has_tokens:
        return _tokens(schema, data)
    if kinds.of(schema).has_events:
        return _events(schema, np.asarray(data))
    if not schema.levels:
        raise CapabilityError(
            "continuous numbers have no shortest file: each holds as many bits as it has digits",
            remedy=LEVELS_WANTED,
        )
    x = _shaped(schema, np.asarray(data))
    size = max(1, _SEGMENT_BYTES // schema.dimensions)
    spelling = _spelling(schema, lambda: _parts(x, size), x.dtype)
    form = {"as": "array", "dtype": x.dtype.str, "shape": list(x.shape), **spelling._asdict()}

    def segments() -> Iterator[np.ndarray]:  # a file may be larger than memory
        for part in _parts(x, size):
            yield _spelled(schema, part, spelling)[0].reshape(len(part), schema.dimensions)

    return Material(len(x), segments, form)


def restored(schema: Schema, form: Mapping[str, Any], symbols: np.ndarray) -> Any:
    """What `arranged` was given, if that was no text.

    >>> schema = Schema("image", (2, 2, 1), levels=4)
    >>> form = {"as": "array", "dtype": "<f4", "shape": [1, 4], "top": 1, "product": False}
    >>> restored(schema, form, np.array([[0, 3, 3, 0]])).tolist()
    [[0.0, 1.0, 1.0, 0.0]]
    """
    if form["as"] in ("tokens", "events"):
        return symbols.astype(np.dtype(form["dtype"]))
    if form["as"] in ("image", "images"):  # read from files: their pixels
        spelling = LevelSpelling(int(form["top"]), False)
        return unlevelled(schema, symbols, np.dtype(np.uint8), spelling).reshape(-1, *schema.shape)
    spelling = LevelSpelling(int(form["top"]), bool(form["product"]))
    return unlevelled(schema, symbols, np.dtype(form["dtype"]), spelling).reshape(form["shape"])


def joined(schema: Schema, parts: Iterable[np.ndarray]) -> np.ndarray:
    """The symbols of all segments, also where there is none."""
    shape = (0,) if kinds.of(schema).has_tokens else (0, schema.dimensions)
    return np.concatenate([np.zeros(shape, np.int32), *parts])


def forms_of(schema: Schema) -> frozenset[str]:
    """What data may be written back as, by the names that headers have for it.

    >>> sorted(forms_of(Schema("text", (9,), tokens=("a", "b"))))
    ['text', 'tokens']
    """
    kind = kinds.of(schema)
    if kind.has_tokens:
        return frozenset({"text", "tokens"})
    if kind.has_events:
        return frozenset({"events"})
    return frozenset({"array", *(("images", "image") if kind.spatial else ())})


def levelled(
    schema: Schema, x: np.ndarray, where: str = "data", tops: Sequence[int] = ()
) -> tuple[Int[np.ndarray, "examples entries"], LevelSpelling]:
    """Levels of values that are levels already, or evenly spaced from 0 to one of some tops; how they were spelled."""
    spelling = _spelling(schema, lambda: iter([x]), x.dtype, where, tops)
    return _spelled(schema, x, spelling)[0].reshape(len(x), schema.dimensions), spelling


def _spelling(
    schema: Schema,
    parts: Callable[[], Iterator[np.ndarray]],
    dtype: np.dtype[Any],
    where: str = "data",
    tops: Sequence[int] = (),
) -> LevelSpelling:
    """How the levels of some data are written, one way for all of them."""
    highest = schema.levels - 1
    usual = [1] if dtype.kind == "f" else [highest, 255] if schema.levels == 2 else [highest]
    bad = None
    for spelling in (LevelSpelling(top, product) for top in tops or usual for product in (False, True)):
        wrong = (part[~good] for part in parts() if not (good := _spelled(schema, part, spelling)[1]).all())
        first = next(wrong, None)
        if first is None:
            return spelling
        bad = first.flat[0]
    wanted = f"fractions k/{highest}" if dtype.kind == "f" else f"whole numbers from 0 to {highest}"
    raise DataError(
        f"{where}: the value {bad} is none of the {schema.levels} levels that the model knows",
        remedy=f"give {wanted}"
        + (", or 0 and 255" if schema.levels == 2 else "")
        + "; what a model has not seen it cannot store without loss",
    )


def _spelled(
    schema: Schema, x: np.ndarray, spelling: LevelSpelling
) -> tuple[Int[np.ndarray, "examples *shape"], Bool[np.ndarray, "examples *shape"]]:
    """The levels that values stand for, and where these are the very same values again."""
    highest = schema.levels - 1
    symbols = np.rint(x.astype(np.float64) * (highest / spelling.top))
    inside = (symbols >= 0) & (symbols <= highest)
    symbols = np.where(inside, symbols, 0).astype(np.int32)
    again = unlevelled(schema, symbols, x.dtype, spelling)
    # Minus zero is equal to zero and yet another number.
    return symbols, inside & (again == x) & ((x.dtype.kind != "f") | (np.signbit(again) == np.signbit(x)))


def unlevelled(
    schema: Schema, symbols: np.ndarray, dtype: np.dtype[Any], spelling: LevelSpelling
) -> np.ndarray:
    """Values of levels, to the last digit as they were."""
    step = spelling.top / (schema.levels - 1)
    if spelling.product:
        return symbols.astype(dtype) * np.asarray(step, dtype)
    return (np.asarray(symbols, np.float64) * spelling.top / (schema.levels - 1)).astype(dtype)


def raw_bytes(schema: Schema, symbols: np.ndarray) -> bytes:
    """Symbols as bytes, one spelling for all machines: what digests are of."""
    size = alphabet(schema)
    return symbols.astype("<u1" if size <= 256 else "<u2" if size <= 65536 else "<u4").tobytes()


def _shaped(schema: Schema, x: np.ndarray) -> np.ndarray:
    shapes = [schema.shape, *([schema.shape[:-1]] if schema.shape[-1] == 1 else [])]
    if x.dtype.str in NUMBER_TYPES and x.shape[1:] in shapes:
        return x
    wanted = "×".join(map(str, schema.shape))
    raise DataError(
        f"data of shape {'×'.join(map(str, x.shape)) or 'none'} and type {x.dtype}: the model knows examples "
        f"of {wanted}",
        remedy=f"give an array of shape (n, {', '.join(map(str, schema.shape))})",
    )


def _tokens(schema: Schema, data: Any) -> Material:
    if isinstance(data, str):
        starts = range(0, len(data), _SEGMENT_LETTERS)
        return text_material(
            schema, lambda: pieces_of(data[first : first + _SEGMENT_LETTERS] for first in starts)
        )
    tokens = np.asarray(data)
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
        raise ArgumentError(
            f"data: {type(data).__name__} is no text", remedy="give a string, or token numbers in one row"
        )
    tokenizers.of(schema).check(tokens)
    form = {"as": "tokens", "dtype": tokens.dtype.str}
    return Material(len(tokens), lambda: _parts(tokens.astype(np.int32), _SEGMENT_TOKENS), form)


def text_material(schema: Schema, pieces: Callable[[], Iterator[str]]) -> Material:
    """A text of which no more than a piece is in memory at a time; each piece is made of tokens of its own."""
    tokenizer = tokenizers.of(schema)

    def tokens_of(piece: str) -> np.ndarray:
        return np.asarray(tokenizer.encode(piece), np.int32)

    total = 0
    for piece in pieces():
        tokens = tokens_of(piece)
        if tokenizer.decode(tokens.tolist()) != piece:
            raise DataError(
                "the tokenizer of the model does not give this text back letter by letter",
                remedy="train with data.tokenizer=character or byte-bpe",
            )
        total += len(tokens)
    return Material(total, lambda: map(tokens_of, pieces()), {"as": "text", "pieces": True}, text=pieces)


def pieces_of(chunks: Iterable[str], most: int = _SEGMENT_LETTERS) -> Iterator[str]:
    """A text cut where a line ends, or a word, into pieces of at most so many letters.

    >>> list(pieces_of(["one two\\nthr", "ee four"], most=9))
    ['one two\\n', 'three ', 'four']
    """
    held = ""
    for chunk in chunks:
        held += chunk
        while len(held) > most:
            whole = held[:most]
            end = whole.rfind("\n") + 1 or whole.rfind(" ") + 1 or most
            yield held[:end]
            held = held[end:]
    if held:
        yield held


def texts(schema: Schema, form: Mapping[str, Any], parts: Iterator[np.ndarray]) -> Iterator[str]:
    """The text that segments stand for, piece by piece where they are pieces of it."""
    decode = tokenizers.of(schema).decode
    for tokens in parts if form.get("pieces") else (joined(schema, parts),):
        yield decode(tokens.tolist())


def _events(schema: Schema, data: np.ndarray) -> Material:
    """Excerpts of music, a row of numbers of events each."""
    length, count = schema.shape[0], len(schema.tokens)
    if data.ndim != 2 or data.shape[1] != length or data.dtype.kind not in "iu":
        raise DataError(
            f"data of shape {'×'.join(map(str, data.shape)) or 'none'} and type {data.dtype}: the model knows "
            f"excerpts of {length} events",
            remedy=f"give an array of whole numbers of shape (n, {length})",
        )
    if data.size and not 0 <= data.min() <= data.max() < count:
        raise DataError(
            f"data: events are numbered from 0 to {count - 1}; found {data.min()} to {data.max()}",
            remedy="number them as the run does: chainrule data show DATA",
        )
    size = max(1, _SEGMENT_TOKENS // length)
    form = {"as": "events", "dtype": data.dtype.str}
    return Material(len(data), lambda: (part.astype(np.int32) for part in _parts(data, size)), form)


def _parts(symbols: np.ndarray, size: int) -> Iterator[np.ndarray]:
    for first in range(0, len(symbols), size):
        yield symbols[first : first + size]


def packed_names(names: list[str]) -> bytes:
    """Names of files as bytes."""
    return json.dumps(names).encode()


__all__ = [
    "LevelSpelling",
    "Material",
    "arranged",
    "forms_of",
    "joined",
    "levelled",
    "packed_names",
    "pieces_of",
    "raw_bytes",
    "restored",
    "text_material",
    "texts",
    "unlevelled",
]
