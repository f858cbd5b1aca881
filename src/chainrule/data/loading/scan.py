"""The scan of a source: its contents, and everything found wrong with it.

`load` and `check` share one scan, which goes through the whole source before anything trains.
"""

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from chainrule.data.loading.options import Option
from chainrule.data.loading.problems import Problem
from chainrule.data.reading import TableReading


@final
@dataclass(frozen=True)
class StreamedText:
    """Text files, one after the other, that are never in memory as a whole."""

    name: str
    files: tuple[Path, ...]
    sizes: tuple[int, ...]
    """Bytes that each takes: a new line is put after a file of several that does not end with one."""
    skips: tuple[int, ...]
    """Bytes at the beginning of each that are left out: the mark of UTF-8."""
    digest: str
    """SHA-256 of these bytes."""
    lower: bool = False
    allow_special: bool = False
    special: tuple[str, ...] = ()

    @functools.cached_property
    def ends(self) -> list[int]:
        """Where each file ends, counted in bytes from the beginning of the first."""
        return list(itertools.accumulate(self.sizes))


@final
@dataclass(frozen=True)
class Contents:
    """All examples of a source, unscaled and not yet split."""

    kind: str
    x: Shaped[np.ndarray, "rows ..."]
    """Examples along the first axis; for text the numbers of its characters, one after the other."""
    y: Shaped[np.ndarray, "examples ..."] | None = None
    target: str = "none"
    classes: tuple[str, ...] = ()
    alphabet: tuple[str, ...] = ()
    """Text: its characters, which the numbers in `x` stand for."""
    target_alphabet: tuple[str, ...] = ()
    """Target text: its characters, which the numbers in `y` stand for."""
    columns: tuple[str, ...] = ()
    levels: int = 0
    rate: int = 0
    """Sound: steps in a second."""
    window: int = 0
    """Text: tokens that an example predicts."""
    shortens: bool = False
    """Text: whether it may be fewer, where a part of the text is shorter."""
    tokenizer: str = "character"
    """Text: what makes tokens out of the characters in `x`: a name or the path of a file."""
    vocab: int | None = None
    """Text: tokens in the vocabulary; the tokenizer's own number if not given."""
    stream: StreamedText | None = None
    """Text: the file behind `x`, where that is a map of its bytes and never in memory as a whole."""
    allow_special: bool = False
    """Text: whether names of special tokens in it become these tokens."""
    special: tuple[str, ...] = ()
    """Text: special tokens that the vocabulary gets on top of its own."""
    documents: Int[np.ndarray, " documents"] | None = None
    """Text: the characters of each document, where windows are to hold whole documents."""
    streams: int = 0
    """Text: streams that training reads side by side; 0 for windows anywhere."""
    parts: Int[np.ndarray, " examples"] | None = None
    """Where the source comes divided: 0 (train), 1 (val) or 2 (test) for each example."""
    rows: Int[np.ndarray, " examples"] | None = None
    """Rows of `x` that are examples; all of them if not given."""
    groups: Int[np.ndarray, " rows"] | None = None
    """Sound: the recording that each example is cut from, counted from 0; music: the piece that each event is of."""
    remix: bool = True
    """Sound: whether training mixes sources with those of other examples."""
    consecutive: bool = False
    """Whether examples follow one another in time: training, validation and test are then pieces, in this order."""
    standardise: Bool[np.ndarray, " features"] | None = None
    """Which features (entries of the last axis) to bring to mean 0 and variance 1; none of them if not given."""
    fill: str = ""
    """What takes the position of NaN in `x`: "median" or "mean" of the training examples; empty if there is none."""
    reading: TableReading | None = None
    """Tables: how the columns were read."""
    weights: Float[np.ndarray, " examples"] | None = None
    """What each example counts for in the loss, not negative; all the same if not given."""
    together: bool = False
    """Whether examples with the same input are to be in the same split."""
    grey: Shaped[np.ndarray, "examples ..."] | None = None
    """What `x` was thrown from as coins, where training throws them anew."""
    brightest: int = 0
    """The value of `grey` that is certain to be a one."""

    def __len__(self) -> int:
        return len(self.x) if self.rows is None else len(self.rows)


@final
@dataclass(frozen=True)
class ReadRequest:
    """What a reader is asked to read."""

    path: Path
    seed: int
    options: Mapping[str, Any]

    def shown(self, path: Path) -> str:
        """A file of the source as a person would look for it: from the source's own name on."""
        return path.relative_to(self.path.parent).as_posix()


@final
@dataclass(frozen=True)
class Scan:
    """The outcome of reading a source from end to end."""

    total: int
    usable: int
    """Items that are sound by themselves."""
    problems: tuple[Problem, ...] = ()
    contents: Contents | None = None
    """Nothing if a problem stops the source."""


@final
@dataclass(frozen=True)
class SourceReader:
    """One format: what its items are called, which options it takes, and how it is read."""

    label: str
    unit: str
    options: Mapping[str, Option]
    scan: Callable[[ReadRequest], Scan]


__all__ = ["Contents", "ReadRequest", "Scan", "SourceReader", "StreamedText"]
