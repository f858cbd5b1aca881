"""Music: events that strike and end notes and let time pass; `Schema.tokens` are their names."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Picture
from chainrule.data import targets
from chainrule.data.division import Positions, complete, divide
from chainrule.data.kind import Kind
from chainrule.data.loading.rows import Divided
from chainrule.data.loading.scan import Contents
from chainrule.data.music import events, midi, rendering
from chainrule.data.music.excerpts import Excerpts
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.splits import Split

if TYPE_CHECKING:
    from chainrule.data.dataset import Data
    from chainrule.data.inputs.protocol import Given, Inputs, Preparation

_SHOWN = 3
_STRIDE = 8
"""Events between the beginnings of two training examples."""


@final
class MusicKind(Kind):
    """Numbers of events."""

    noun: ClassVar[str] = "excerpts of music"
    sample_count: ClassVar[int] = 4
    has_events: ClassVar[bool] = True

    def describe(self, schema: Schema, total: int) -> str:
        """How many, and how long."""
        said = targets.of(schema).describe(schema)
        return f"{total:,} events of {len(schema.tokens):,} kinds in excerpts of {schema.shape[0]:,}{said}"

    def details(self, schema: Schema) -> list[tuple[str, Sequence[str]]]:
        """The events."""
        return [("events", schema.tokens)]

    def smaller(self, schema: Schema) -> str:
        """Examples half as long."""
        return f"data.window={schema.shape[0] // 2}" if schema.shape[0] > 16 else ""

    def shape(self, contents: Contents) -> tuple[int, ...]:
        """So many events."""
        return (contents.window,)

    def positions(self, contents: Contents, shares: Sequence[float], seed: int) -> Sequence[Positions] | None:
        """None: excerpts overlap."""
        del contents, shares, seed
        return None

    def divide(self, contents: Contents, schema: Schema, shares: Sequence[float], seed: int) -> Divided:
        """Whole pieces are drawn; of those of training excerpts overlap, of the others they lie side by side."""
        strata, count = targets.of(contents).strata(contents.y), len(_lengths(contents))
        if contents.parts is None:
            parts = divide(count, shares, seed, strata)
        else:
            parts = complete(contents.parts, shares, seed, strata)
        targets.of(contents).check_training(contents, parts[0])
        strides = (_STRIDE, contents.window, contents.window)
        splits = [_excerpts(contents, part, stride) for part, stride in zip(parts, strides, strict=True)]
        return Divided(schema, splits, Scaling())

    def size(self, schema: Schema, split: Split) -> int:
        """Events in all its excerpts, each counted once."""
        starts = np.sort(split.arrays["starts"])
        return int(np.minimum(np.diff(starts), schema.shape[0]).sum()) + schema.shape[0] if len(starts) else 0

    def own_options(self, schema: Schema) -> dict[str, Any]:
        """Excerpts as long as those of training."""
        return {"window": schema.shape[0]}

    def adopted(self, contents: Contents, rows: np.ndarray, prepared: "Preparation", where: str) -> Split:
        """All pieces, side by side."""
        from chainrule.data.loading.others import targets_like

        del rows
        pieces = np.arange(len(_lengths(contents)))
        found = _excerpts(contents, pieces, contents.window)
        y = targets_like(contents, pieces, prepared, where)
        if y is None:
            return Excerpts({name: one for name, one in found.arrays.items() if name != "y"}, found.length)
        return Excerpts({**found.arrays, "y": y[_of_pieces(contents, pieces, contents.window)]}, found.length)

    def inputs(self, given: "Given", prepared: "Preparation") -> "Inputs":
        """None: nothing is predicted of music."""
        del given, prepared
        raise CapabilityError("models of music write it", remedy="chainrule sample RUN writes MIDI files")

    def preview(self, data: "Data") -> Picture:
        """Piano rolls of some excerpts."""
        rows = np.linspace(0, len(data.train) - 1, min(_SHOWN, len(data.train))).astype(int)
        x, y = data.train.batch(rows)[:2]
        target = targets.of(data.schema)
        names = target.captions(data.schema, y) if target.given else []
        title = f"{data.name}: {len(x)} of {len(data.train):,} training excerpts"
        return rendering.rolls("data-music", title, x, names, "")

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
        """Piano rolls of the first few."""
        del schema, real, follows
        return rendering.rolls("samples", title, drawn[: self.sample_count], names, caption)

    def write_playable(self, folder: Path, schema: Schema, drawn: np.ndarray) -> Mapping[str, Path]:
        """MIDI files, one for each sample."""
        del schema
        found = {}
        for number, row in enumerate(drawn, start=1):
            found[f"music {number}"] = folder / f"sample-{number}.mid"
            found[f"music {number}"].write_bytes(midi.write(events.decode(row.astype(int))))
        return found

    def clips(self, schema: Schema, drawn: np.ndarray) -> Mapping[str, np.ndarray]:
        """The first few on a simple instrument."""
        del schema
        return {
            str(number + 1): rendering.sound(events.decode(row.astype(int)))
            for number, row in enumerate(drawn[: self.sample_count])
        }

    def clip_rate(self, schema: Schema) -> int:
        """That of the instrument."""
        del schema
        return rendering.RATE


def _lengths(contents: Contents) -> np.ndarray:
    """How many events each piece has."""
    assert contents.groups is not None, "music comes in pieces"
    return np.bincount(contents.groups)


def _starts(contents: Contents, pieces: np.ndarray, stride: int) -> list[np.ndarray]:
    """Where the excerpts of each of these pieces begin, from the beginning of the piece; the last one ends with it."""
    lasts = (_lengths(contents)[pieces] - contents.window).tolist()
    return [
        np.unique(np.append(np.arange(0, last + 1, stride), last if stride < contents.window else 0))
        for last in lasts
    ]


def _of_pieces(contents: Contents, pieces: np.ndarray, stride: int) -> np.ndarray:
    """The piece of each excerpt."""
    return np.repeat(pieces, [len(one) for one in _starts(contents, pieces, stride)])


def _excerpts(contents: Contents, pieces: np.ndarray, stride: int) -> Excerpts:
    lengths = _lengths(contents)
    before = np.cumsum(lengths) - lengths
    own = _starts(contents, pieces, stride)
    starts = [first + one for first, one in zip(before[pieces], own, strict=True)]
    positions = [
        (one + contents.window / 2) / length for length, one in zip(lengths[pieces], own, strict=True)
    ]
    arrays = {
        "tokens": contents.x,
        "starts": np.concatenate([np.zeros(0, np.int64), *starts]).astype(np.int32),
        "positions": np.concatenate([np.zeros(0), *positions]).astype(np.float32),
    }
    if contents.y is not None:
        arrays["y"] = contents.y[_of_pieces(contents, pieces, stride)]
    return Excerpts(arrays, contents.window)


kind = MusicKind()

__all__ = ["MusicKind", "kind"]
