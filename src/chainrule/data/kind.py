"""The interface of kinds of data: description, checks, splits, pictures and files.

Each kind is one file in `data/kinds`, and the file is the registration. `Schema.kind` is its name; `kinds.of(schema)`
is the object. Code elsewhere asks the object; it never compares names.
"""

import abc
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Picture
from chainrule.data.division import Positions
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.rows import Divided, in_rows, positions
from chainrule.data.loading.scan import Contents
from chainrule.data.schema import Schema
from chainrule.data.splits import Split
from chainrule.data.target import Cells

if TYPE_CHECKING:
    from chainrule.data.dataset import Data
    from chainrule.data.inputs.protocol import Given, Inputs, Preparation
    from chainrule.data.inputs.series import History


class Arranged(NamedTuple):
    """An array from a file as examples of one kind."""

    x: np.ndarray
    levels: int = 0
    columns: tuple[str, ...] = ()
    standardise: np.ndarray | None = None
    """Which features to bring to mean 0 and variance 1."""


class Decided(NamedTuple):
    """What the contents of a source decided that was left to them."""

    options: Mapping[str, Any] = MappingProxyType({})
    """Options with their values, for the record."""
    remarks: Sequence[Problem] = ()


class Kind(abc.ABC):
    """What an example is."""

    noun: ClassVar[str] = "examples"
    """What examples are called, in the plural."""
    sample_count: ClassVar[int]
    """How many examples make a good picture."""
    spatial: ClassVar[bool] = False
    """Whether an example is a grid of pixels, (height, width, channels)."""
    has_tokens: ClassVar[bool] = False
    """Whether an example is a text, `x` holding token numbers."""
    has_distances: ClassVar[bool] = False
    """Whether the distance between two examples means something, so that samples can be laid over the data."""
    comparable: ClassVar[bool] = False
    """Whether drawn examples can be compared with real ones: as vectors, or by what a network sees in them."""
    can_be_binary: ClassVar[bool] = False
    """Whether `binarize` makes zeros and ones out of it."""
    has_rows: ClassVar[bool] = False
    """Whether an example is a row of numbers, so that rows one after the other can be a series."""
    from_rows: ClassVar[bool] = False
    """Whether rows of numbers one after the other make an example."""
    has_events: ClassVar[bool] = False
    """Whether an example is a row of whole numbers that stand for events, such as notes of music."""
    has_amplitudes: ClassVar[bool] = False
    """Whether an example is sound, numbers between -1 and 1 at `Schema.rate`."""
    axes: ClassVar[tuple[int, ...]] = ()
    """Axes of an array that holds such examples along the first, the last number with all of them; none: no array."""

    # ------------------------------------------------------------------ what the schema says

    def shows_pixels(self, schema: Schema) -> bool:
        """Default: an example is not an image in grey or colour."""
        del schema
        return False

    def is_plane(self, schema: Schema) -> bool:
        """Default: examples are not the points of a plane."""
        del schema
        return False

    def is_corpus(self, schema: Schema) -> bool:
        """Default: examples are not passages of one long text, each token to be predicted from those before it."""
        del schema
        return False

    def in_unit_interval(self, schema: Schema) -> bool:
        """Default: numbers a model sees lie in [0, 1] where they have levels."""
        return schema.levels > 0

    def raw_range(self, schema: Schema) -> tuple[float, float] | None:
        """Default: raw numbers with levels lie between the first and the last; others may be anything."""
        return (0.0, schema.levels - 1.0) if schema.levels else None

    @abc.abstractmethod
    def describe(self, schema: Schema, total: int) -> str:
        """How many of what, in a few words."""

    def details(self, schema: Schema) -> list[tuple[str, Sequence[str]]]:
        """Default: the names of the features; lists of names, each with what they are of."""
        return [("columns", schema.columns)]

    def smaller(self, schema: Schema) -> str:
        """Default: nothing makes examples smaller; otherwise an option of the data that does, as it is written."""
        del schema
        return ""

    # ------------------------------------------------------------------ from the contents of a source to splits

    def claims(self, x: np.ndarray, where: str) -> bool:
        """Default: unless the user says so, no array is taken for this."""
        del x, where
        return False

    def arranged(self, x: np.ndarray, rows: np.ndarray | None, levels: int | None, where: str) -> Arranged:
        """Default: not from an array. `rows` are those that are examples, `levels` what the user says of them."""
        del x, rows, levels
        raise Refused("unclear shape", where, f"an array is no {type(self).__name__}")

    def shape(self, contents: Contents) -> tuple[int, ...]:
        """Default: the shape of one example is that of a row of `x`."""
        return contents.x.shape[1:]

    def shares(self, contents: Contents) -> tuple[float, float, float]:
        """Default: 80, 10 and 10 % of the examples for training, validation and test."""
        del contents
        return 0.8, 0.1, 0.1

    def positions(self, contents: Contents, shares: Sequence[float], seed: int) -> Sequence[Positions] | None:
        """Default: where the examples of each split stand; nothing where splits are pieces of one text."""
        return positions(contents, shares, seed)

    def divide(self, contents: Contents, schema: Schema, shares: Sequence[float], seed: int) -> Divided:
        """Default: examples along the first axis, drawn at random."""
        return in_rows(contents, schema, shares, seed)

    def decided(self, contents: Contents, made: Divided, where: str) -> Decided:
        """Default: nothing was left to the contents to decide."""
        del contents, made, where
        return Decided()

    def size(self, schema: Schema, split: Split) -> int:
        """Default: the size of a split is the number of its examples."""
        del schema
        return len(split)

    # ------------------------------------------------------------------ new inputs of a trained model

    def inputs(self, given: "Given", prepared: "Preparation") -> "Inputs":
        """Default: new examples come in arrays; otherwise in files and whatever else a user has of this kind."""
        from chainrule.data.inputs import arrays

        return arrays.inputs(given, prepared, self.noun)

    def histories(self, given: "Given", prepared: "Preparation") -> "list[History]":
        """Default: examples are no series to go on from."""
        del given, prepared
        raise CapabilityError(f"{type(self).__name__}: only sequences can be forecast")

    # ------------------------------------------------------------------ other data of a trained model

    def own_options(self, schema: Schema) -> dict[str, Any]:
        """Default: none; otherwise options of sources that make examples what those of a schema are."""
        del schema
        return {}

    def adopted(self, contents: Contents, rows: np.ndarray, prepared: "Preparation", where: str) -> Split:
        """Default: these examples of another source, scaled as those of training were."""
        from chainrule.data.loading.others import examples_like

        x = contents.x[rows if contents.rows is None else contents.rows[rows]]
        return examples_like(contents, rows, prepared, where, np.asarray(x))

    # ------------------------------------------------------------------ pictures and files

    @abc.abstractmethod
    def preview(self, data: "Data") -> Picture:
        """Some training examples in their original units."""

    @abc.abstractmethod
    def picture(
        self,
        schema: Schema,
        drawn: np.ndarray,
        names: Sequence[str] = (),
        *,
        real: np.ndarray | None = None,
        follows: np.ndarray | None = None,
        title: str = "Samples",
        caption: str = "",
    ) -> Picture:
        """Samples in original units.

        `names` say what each was asked to be, `real` are examples to compare with, `follows` what each sample follows.
        """

    def cells(self, schema: Schema, x: np.ndarray, most: int) -> Cells:
        """Default: examples have no columns in a table; at most `most` numbers of each otherwise."""
        del schema, most
        return Cells([], [[] for _ in range(len(x))])

    def write(
        self, folder: Path, schema: Schema, drawn: np.ndarray, arrays: Mapping[str, np.ndarray]
    ) -> Path:
        """Default: samples in original units as `samples.npz`, with the arrays that belong to them."""
        del schema
        file = folder / "samples.npz"
        np.savez(file, allow_pickle=False, samples=drawn, **arrays)
        return file

    def clips(self, schema: Schema, drawn: np.ndarray) -> Mapping[str, np.ndarray]:
        """Default: nothing can be listened to; otherwise some samples as sound (samples, channels), by their names."""
        del schema, drawn
        return {}

    def clip_rate(self, schema: Schema) -> int:
        """Default: the samples a second of `clips` are those of the data."""
        return schema.rate

    def write_playable(self, folder: Path, schema: Schema, drawn: np.ndarray) -> Mapping[str, Path]:
        """Default: none; otherwise files of samples that other programs open, by what they are."""
        del folder, schema, drawn
        return {}


__all__ = ["Arranged", "Kind"]
