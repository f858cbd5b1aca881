"""The shape and meaning of one example: all a model needs to know in order to be built."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, final

import numpy as np


def compact(values: Mapping[str, Any]) -> str:
    """Plain values as JSON in one spelling: equal for equal values, whatever the order of their keys."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


_IN_FILES = {"tokens": "symbols", "target_tokens": "target_symbols"}
"""Fields that are written under another name: hashes of data cover the written form, and stay what they were."""


@final
@dataclass(frozen=True)
class Schema:
    """The shape and meaning of one example; all a model needs to know in order to be built."""

    kind: str
    """What an example is, by name; `kinds.of(schema)` knows the rest."""
    shape: tuple[int, ...]
    """Shape of one `x` without the batch axis; images are (height, width, channels), a text one token more than it
    predicts."""
    target: str = "none"
    """What stands beside it, by name; `targets.of(schema)` knows the rest."""
    target_shape: tuple[int, ...] = ()
    classes: tuple[str, ...] = ()
    """Names of the classes, `y` holding their positions, or of the labels, `y` holding 0 or 1 for each."""
    tokens: tuple[str, ...] = ()
    """Text: the vocabulary; `x` holds positions in it."""
    tokenizer: str = field(default="", repr=False)
    """Text: the JSON of the tokenizer; empty where every token is a character."""
    target_tokens: tuple[str, ...] = ()
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
    rate: int = field(default=0, compare=False)
    """Sound: steps in a second; 0 where steps have no length. It is no part of what data are: models never see it."""

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
        for name in ("target_tokens", "target_length", "packed", "streams", "rate"):
            if not values[name]:  # so that data without them keep the hash they have always had
                del values[name]
        return {_IN_FILES.get(name, name): value for name, value in values.items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Schema":
        """The schema written by `to_json`.

        >>> schema = Schema("points", (2,), target="class", classes=("a", "b"))
        >>> Schema.from_json(schema.to_json()) == schema
        True
        """
        present = {stored: name for name, stored in _IN_FILES.items()}
        plain: dict[str, Any] = {
            present.get(k, k): tuple(v) if isinstance(v, list) else v for k, v in values.items()
        }
        for name in ("tokenizer", "target_tokenizer"):
            if name in plain:
                plain[name] = compact(dict(plain[name]))
        return cls(**plain)


__all__ = ["Schema", "compact"]
