"""What new inputs are made of: chunks of examples in model units, in the order in which they were given."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import Bool, Int, Shaped

from chainrule.core.errors import ArgumentError
from chainrule.data import targets
from chainrule.data.loading.problems import Problem
from chainrule.data.placement import Placement
from chainrule.data.reading import TableReading
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema

if TYPE_CHECKING:
    from chainrule.data.dataset import Data

Given: TypeAlias = Any
"""A path, an array, a data frame, a text, an image, or a list of these."""


class KnownTargets(NamedTuple):
    """What is known beforehand of what a model is to predict."""

    y: Shaped[np.ndarray, "examples ..."]
    """In the form and units of a split."""
    known: Bool[np.ndarray, " examples"]
    """Whose target is known; the others have any value."""
    unknown: str = ""
    """The first that is not."""


@final
@dataclass(frozen=True)
class Preparation:
    """How the examples of some data became what a model sees: the way that new inputs go too."""

    schema: Schema
    scaling: Scaling
    target_scaling: Scaling | None = None
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Options of the source that decide what its examples are, such as `lower`."""
    reading: TableReading | None = None
    """Tables: how every column was read."""
    reread: Callable[[], TableReading | None] = lambda: None
    """Tables: reads the training table again, where that is possible, if the reading was not kept."""

    def check(self, data: "Data") -> None:
        """Raise unless data were prepared in this way: by the same schema and scaling."""
        own, theirs = (_scalings(one) for one in (self, data))
        if data.schema != self.schema or own != theirs:
            raise ArgumentError(
                f"data={data.name}: these data were prepared by themselves",
                remedy="give their name or path: they are then prepared as the training data were",
            )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the entries of the last axis of an example."""
        read = self.reading.features if self.reading is not None else ()
        return self.schema.columns or read or tuple(f"feature {i}" for i in range(self.schema.shape[-1]))

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of what is predicted, one for each output."""
        columns = self.reading.targets if self.reading is not None else ()
        return targets.of(self.schema).output_names(self.schema, columns)

    def examples(self, raw: Shaped[np.ndarray, "examples ..."]) -> Shaped[np.ndarray, "examples ..."]:
        """Examples in the units of the data as a model sees them."""
        numbers = (raw > 0.5 if self.schema.levels == 2 else raw).astype(np.float64)
        return np.asarray(self.scaling.apply(numbers)).astype(np.float32)

    def targets(self, values: Sequence[Any] | np.ndarray) -> KnownTargets | None:
        """Targets from what stands beside the inputs (names or numbers, `None` where nothing does), if any is known."""
        y, known = targets.of(self.schema).recognised(self.schema, values)
        unknown = next((repr(value) for value, good in zip(values, known, strict=True) if not good), "")
        found = self.scaled(KnownTargets(y, known, unknown))
        return found if known.any() else None

    def scaled(self, found: KnownTargets) -> KnownTargets:
        """Targets in the units of the data as splits hold them."""
        if self.target_scaling is None:
            return found
        return found._replace(y=self.target_scaling.apply(found.y.astype(np.float64)).astype(np.float32))


def _scalings(prepared: "Preparation | Data") -> list[dict[str, Any] | None]:
    both = prepared.scaling, prepared.target_scaling
    return [None if scaling is None else scaling.to_json() for scaling in both]


class Original(NamedTuple):
    """An image as it was given, before it was brought to the size of the training images."""

    size: tuple[int, int]
    """Height and width."""
    pixels: Callable[[], Shaped[np.ndarray, "height width channels"]]
    """In model units."""
    target: Callable[[], Shaped[np.ndarray, "..."] | None]
    """What is known of it beforehand, if anything; an error for what cannot be used."""


class InputChunk(NamedTuple):
    """Some inputs, one after the other."""

    names: Sequence[str]
    """Of every input: the name of a file, the number of a row."""
    rows: Int[np.ndarray, " examples"]
    """Which of them can be used, by their position here."""
    x: Shaped[np.ndarray, "examples ..."]
    """These, in model units."""
    faults: Mapping[int, Problem]
    """What is wrong with the others, by their position here."""
    targets: KnownTargets | None = None
    """What is known of the targets of `x`."""
    placements: Sequence[Placement] = ()
    """Where each of `x` lies on its canvas; none where inputs are as they were given."""
    originals: Sequence[Original] = ()
    """Those on the canvases."""


class Inputs(NamedTuple):
    """All inputs, read as they are asked for."""

    unit: str
    """What they are: "images", "rows", "texts"."""
    total: int
    """How many there are; 0 where that is not known beforehand."""
    chunks: Callable[[int], Iterator[InputChunk]]
    """The inputs in chunks of about this many."""
    notes: Sequence[str] = ()
    """What there is to say when all are read."""


def chunk(
    prepared: Preparation,
    names: Sequence[str],
    read: Sequence[np.ndarray | Problem],
    beside: Sequence[Any] | None = None,
    dtype: type[np.generic] = np.float32,
) -> InputChunk:
    """A chunk of examples in model units, or what is wrong with each, and what stands beside them.

    `dtype` is that of the examples, for a chunk without any.
    """
    faults = {i: one for i, one in enumerate(read) if isinstance(one, Problem)}
    rows = np.array([i for i in range(len(read)) if i not in faults], np.int64)
    good = [one for one in read if not isinstance(one, Problem)]
    x = np.stack(good) if good else np.zeros((0, *prepared.schema.shape), dtype)
    found = None if beside is None else prepared.targets([beside[row] for row in rows])
    return InputChunk(names, rows, x, faults, found)


__all__ = ["Given", "InputChunk", "Inputs", "KnownTargets", "Original", "Preparation", "chunk"]
