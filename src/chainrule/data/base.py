"""What data are once they are loaded: a schema, three splits, and the way back to the original units.

Arrays are kept compact (bytes of an image file, symbol numbers of a text, standardised numbers of a table) in memory or
in a memory map; `Split.gather` turns a set of example numbers into a scaled `Batch`, with NumPy on the host or inside a
compiled step, so small data can live on the device in their compact form.
"""

import abc
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias, final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.data.examples import Batch, Beginnings, Documents, predicted

Kind: TypeAlias = Literal["image", "text", "table", "points", "sequence"]
Target: TypeAlias = Literal["class", "labels", "value", "text", "none"]
"""One class of several; any number of labels, each there or not; numbers; another text; nothing."""


def compact(values: Mapping[str, Any]) -> str:
    """Plain values as JSON in one spelling: equal for equal values, whatever the order of their keys."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@final
@dataclass(frozen=True)
class Schema:
    """The shape and meaning of one example; all a model needs to know in order to be built."""

    kind: Kind
    shape: tuple[int, ...]
    """Shape of one `x` without the batch axis; images are (height, width, channels), a text one symbol more than it
    predicts."""
    target: Target = "none"
    target_shape: tuple[int, ...] = ()
    classes: tuple[str, ...] = ()
    """Names of the classes, `y` holding their positions, or of the labels, `y` holding 0 or 1 for each."""
    symbols: tuple[str, ...] = ()
    """Text: the vocabulary; `x` holds positions in it."""
    tokenizer: str = field(default="", repr=False)
    """Text: the JSON of the tokenizer whose tokens the symbols are; empty where every symbol is a character."""
    target_symbols: tuple[str, ...] = ()
    """Target text: its vocabulary; `y` holds positions in it."""
    target_tokenizer: str = field(default="", repr=False)
    """Target text: the JSON of its tokenizer, as for `tokenizer`."""
    target_length: float = 0.0
    """Target values: the length that all of them have as vectors, as embeddings do; 0 where it differs."""
    columns: tuple[str, ...] = ()
    """Tables: the names of the features."""
    levels: int = 0
    """How many equally spaced values the raw numbers can take (256 for 8-bit images); 0 for continuous data."""
    packed: bool = False
    """Text: an example holds several documents, each to be read by itself."""
    streams: int = 0
    """Text: passages come side by side in so many streams, each going on where the one before it ended; 0 for none."""

    @property
    def dimensions(self) -> int:
        """Number of entries of one example.

        >>> Schema("image", (8, 8, 1)).dimensions
        64
        """
        return int(np.prod(self.shape))

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a run folder."""
        values = asdict(self)
        for name in ("tokenizer", "target_tokenizer"):
            text = values.pop(name)
            if text:
                values[name] = json.loads(text)
        for name in ("target_symbols", "target_length", "packed", "streams"):
            if not values[name]:  # so that data without them keep the hash they have always had
                del values[name]
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Schema":
        """The schema written by `to_json`.

        >>> schema = Schema("points", (2,), target="class", classes=("a", "b"))
        >>> Schema.from_json(schema.to_json()) == schema
        True
        """
        plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        for name in ("tokenizer", "target_tokenizer"):
            if name in plain:
                plain[name] = compact(dict(plain[name]))
        return cls(**plain)


@final
@dataclass(frozen=True)
class Scaling:
    """The map from raw values to what a model sees, `x = (raw - shift) * factor`, and its inverse.

    `shift` and `factor` are single numbers or arrays of one example's shape. Densities change by
    `log p(raw) = log p(x) + log_volume`.

    >>> pixels = Scaling(shift=0.0, factor=1 / 255)
    >>> pixels.apply(np.array([[0, 255]], dtype=np.uint8)).tolist()
    [[0.0, 1.0]]
    >>> pixels.inverse(np.array([[0.0, 1.0]])).tolist()
    [[0.0, 255.0]]
    """

    shift: float | np.ndarray = 0.0
    factor: float | np.ndarray = 1.0

    def apply(self, raw: Any) -> Any:
        """Raw values (NumPy or JAX, leading batch axis) to model units, in the default floating type."""
        return (raw - self._like(self.shift, raw)) * self._like(self.factor, raw)

    def inverse(self, x: Any) -> Any:
        """Model units back to raw values (not rounded)."""
        return x / self._like(self.factor, x) + self._like(self.shift, x)

    def log_volume(self, dimensions: int) -> float:
        """Logarithm of the volume element |dx/draw| of one example with that many entries."""
        logs = np.log(np.abs(np.asarray(self.factor, dtype=np.float64)))
        return float(logs.sum() if logs.ndim else logs * dimensions)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a run folder."""
        return {"shift": np.asarray(self.shift).tolist(), "factor": np.asarray(self.factor).tolist()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Scaling":
        """The scaling written by `to_json`."""
        parts = {
            k: np.asarray(v, dtype=np.float64) if isinstance(v, list) else float(v) for k, v in values.items()
        }
        return cls(**parts)

    @staticmethod
    def _like(value: float | np.ndarray, reference: Any) -> Any:
        # float32 keeps integer images from being promoted to float64 on the host; a float64 input stays float64.
        dtype = np.float64 if reference.dtype == np.float64 else np.float32
        array = np.asarray(value, dtype=dtype)
        return array.reshape((1,) * (reference.ndim - array.ndim) + array.shape)


class Split(abc.ABC):
    """One part of the data (training, validation or test): raw arrays and the rule that cuts examples out of them."""

    arrays: Mapping[str, np.ndarray]
    streams: int = 0
    """How many examples of a batch go on, each at its place, from those of the batch before; 0: any order will do."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """Number of examples."""

    @abc.abstractmethod
    def gather(self, arrays: Mapping[str, Any], index: Any) -> Batch:
        """The scaled examples with these numbers, from `self.arrays` or from a copy of it on a device."""

    def batch(self, index: Any) -> Batch:
        """The scaled examples with these numbers, on the host."""
        return self.gather(self.arrays, np.asarray(index))

    @property
    def x(self) -> Any:
        """All examples, scaled."""
        return self.batch(np.arange(len(self))).x

    @property
    def y(self) -> Any:
        """All targets, or `None`."""
        return self.batch(np.arange(len(self))).y

    @property
    def nbytes(self) -> int:
        """Bytes of the raw arrays."""
        return sum(int(a.nbytes) for a in self.arrays.values())


@final
@dataclass(frozen=True)
class Rows(Split):
    """Examples along the first axis of `arrays["x"]`, targets (if any) along that of `arrays["y"]`."""

    arrays: Mapping[str, np.ndarray]
    scaling: Scaling = field(default_factory=Scaling)
    target_scaling: Scaling | None = None
    """Given for numeric targets; class numbers are not scaled."""

    def __len__(self) -> int:
        return len(self.arrays["x"])

    def gather(self, arrays: Mapping[str, Any], index: Any) -> Batch:
        """Rows by number."""
        y = arrays["y"][index] if "y" in arrays else None
        if y is not None and self.target_scaling is not None:
            y = self.target_scaling.apply(y)
        return Batch(self.scaling.apply(arrays["x"][index]), y)


@final
@dataclass(frozen=True)
class Windows(Split):
    """Passages of one long `arrays["symbols"]`, one every `stride` symbols.

    A passage holds `length + 1` symbols: a model reads the first `length` and predicts the last `length`. With
    `stride=1` there is one for every place of the text, none of which is ever written out; with `stride=length` they
    share only their ends, so that every symbol but the very first is predicted once. A rest that is shorter than the
    stride is left out.

    With `streams` the text is cut into so many long pieces that are read side by side: of a batch of that size, each
    passage goes on where the one at its place in the batch before has ended.

    >>> passages = Windows({"symbols": np.arange(8)}, length=3, stride=3)
    >>> passages.x.tolist()
    [[0, 1, 2, 3], [3, 4, 5, 6]]
    >>> Windows({"symbols": np.arange(13)}, length=3, stride=3, streams=2).x[:, 0].tolist()
    [0, 6, 3, 9]
    """

    arrays: Mapping[str, np.ndarray]
    length: int
    stride: int = 1
    bytes: int = 0
    """Bytes of the text in UTF-8, for likelihoods per byte, which compare across vocabularies."""
    streams: int = 0

    def __len__(self) -> int:
        every = max(0, (len(self.arrays["symbols"]) - self.length - 1) // self.stride + 1)
        return every // self.streams * self.streams if self.streams else every

    @property
    def bytes_per_token(self) -> float:
        """How much text a symbol stands for: bits per byte are bits per symbol divided by this.

        >>> Windows({"symbols": np.zeros(10, np.uint8)}, length=5, bytes=25).bytes_per_token
        2.5
        """
        return self.bytes / max(len(self.arrays["symbols"]), 1)

    def gather(self, arrays: Mapping[str, Any], index: Any) -> Batch:
        """Passages by number, as int32."""
        if self.streams:
            index = index % self.streams * (len(self) // self.streams) + index // self.streams
        begins = index * self.stride
        positions = begins[:, None] + np.arange(self.length + 1)[None, :]
        symbols = arrays["symbols"][positions].astype(np.int32)
        return Batch(symbols, Beginnings(begins) if self.streams else None)


@final
@dataclass(frozen=True)
class Pairs(Split):
    """Texts and the texts they become: symbols of the one along `arrays["x"]`, of the other along `arrays["y"]`.

    A row holds its symbols, then, up to the full length, the number after the last of the vocabulary: the end mark.
    """

    arrays: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.arrays["x"])

    def gather(self, arrays: Mapping[str, Any], index: Any) -> Batch:
        """Pairs by number, as int32."""
        return Batch(arrays["x"][index].astype(np.int32), arrays["y"][index].astype(np.int32))


@final
@dataclass(frozen=True)
class Data:
    """Loaded data: three splits of one source under one schema."""

    name: str
    schema: Schema
    train: Split
    val: Split
    test: Split
    scaling: Scaling
    target_scaling: Scaling | None
    hash: str
    """SHA-256 of the raw contents and the schema: two data objects with the same hash hold the same numbers."""
    source: Mapping[str, Any]
    """What `load` was called with, fully resolved, so that a run can be repeated."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Files or rows left out, each with its reason."""
    notes: tuple[tuple[str, int], ...] = ()
    """What is odd about the data and used all the same: each kind of remark and how often it was made."""

    def split(self, name: str) -> Split:
        """A split by its name."""
        splits = {"train": self.train, "val": self.val, "test": self.test}
        if name not in splits:
            raise ArgumentError(f'split={name!r}: split must be "train", "val" or "test"')
        return splits[name]

    def inverse(self, x: Any) -> np.ndarray:
        """Examples in model units back in the original units; data with levels are rounded to them and clipped."""
        return to_original(self.schema, self.scaling, x)

    def bits_per_dim(self, log_prob: Any) -> Any:
        """Log densities in model units (nats per example) as bits per dimension of the original data.

        For data with levels the density is that of the uniformly dequantised values, whose negative logarithm bounds
        the discrete code length from above.
        """
        dimensions = self.schema.dimensions
        return -(np.asarray(log_prob) + self.scaling.log_volume(dimensions)) / (dimensions * np.log(2.0))

    def describe(self) -> str:
        """One line for people: kind, size, classes, split."""
        splits = (self.train, self.val, self.test)
        text = self.schema.kind == "text" and self.schema.target == "none"
        sizes = [len(split.arrays["symbols"]) if text else len(split) for split in splits]
        total = max(sum(sizes), 1)
        shares = " / ".join(
            f"{n} {100 * s / total:.0f} %" for n, s in zip(("train", "val", "test"), sizes, strict=True)
        )
        if self.schema.kind == "text" and self.schema.target == "text":
            symbols = f"{len(self.schema.symbols):,} to {len(self.schema.target_symbols):,} symbols"
            return f"{total:,} pairs of texts, {symbols}, {shares}"
        shape = "×".join(str(n) for n in self.schema.shape)
        what = {
            "image": f"{total:,} images of {shape}",
            "text": f"{total:,} {self._unit if text else 'texts'}, {len(self.schema.symbols):,} symbols",
            "table": f"{total:,} rows of {shape} columns",
            "points": f"{total:,} points in {shape} dimensions",
            "sequence": f"{total:,} sequences of {shape}",
        }[self.schema.kind]
        word = "labels" if self.schema.target == "labels" else "classes"
        classes = f", {len(self.schema.classes)} {word}" if self.schema.classes else ""
        if self.schema.target == "text":
            classes = f" with captions, {len(self.schema.target_symbols):,} symbols"
        return f"{what}{classes}, {shares}"

    @property
    def _unit(self) -> str:
        return "tokens" if self.schema.tokenizer else "characters"

    def renamed(self, name: str) -> "Data":
        """The same data under another name."""
        return replace(self, name=name)


def to_original(schema: Schema, scaling: Scaling, x: Any) -> np.ndarray:
    """Examples in model units back in the original units; data with levels are rounded to them and clipped."""
    raw = np.asarray(scaling.inverse(np.asarray(x)))
    return np.clip(np.rint(raw), 0, schema.levels - 1) if schema.levels else raw


__all__ = [
    "Batch",
    "Beginnings",
    "Data",
    "Documents",
    "Kind",
    "Pairs",
    "Rows",
    "Scaling",
    "Schema",
    "Split",
    "Target",
    "Windows",
    "compact",
    "predicted",
    "to_original",
]
