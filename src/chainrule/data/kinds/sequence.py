"""Sequences of numbers, (time, features)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from chainrule.core.pictures import Lines, Picture
from chainrule.data import targets
from chainrule.data.kind import Arranged, Kind
from chainrule.data.loading.levels import counted
from chainrule.data.previews import heads, some, title_of
from chainrule.data.schema import Schema
from chainrule.data.sound_files import amplitudes, write_sound

if TYPE_CHECKING:
    from chainrule.data.dataset import Data
    from chainrule.data.inputs.protocol import Given, Preparation
    from chainrule.data.inputs.series import History

_SHOWN = 4
_FEATURES = 3


@final
class SequenceKind(Kind):
    """Features in time, each standardised over all times."""

    noun: ClassVar[str] = "sequences"
    sample_count: ClassVar[int] = 5
    from_rows: ClassVar[bool] = True
    axes: ClassVar[tuple[int, ...]] = (2, 3)

    def describe(self, schema: Schema, total: int) -> str:
        """How many, how long, and of how many features."""
        shape = "×".join(str(n) for n in schema.shape)
        sound = f" at {schema.rate:,} samples a second" if schema.rate else ""
        return f"{total:,} sequences of {shape}{sound}{targets.of(schema).describe(schema)}"

    def arranged(self, x: np.ndarray, rows: np.ndarray | None, levels: int | None, where: str) -> Arranged:
        """Every feature is standardised, unless it counts levels."""
        if levels is not None:
            return Arranged(counted(x, rows, levels, where), levels)
        return Arranged(x, standardise=np.ones(x.shape[-1], bool))

    def histories(self, given: "Given", prepared: "Preparation") -> "list[History]":
        """Series to go on from."""
        from chainrule.data.inputs import series

        return series.histories(given, prepared)

    def preview(self, data: "Data") -> Picture:
        """The first features of some sequences; of sound the waveform."""
        x, _ = some(data, _SHOWN)[:2]
        if data.schema.rate:
            title = title_of(data, len(x), "pieces of sound")
            names = [f"piece {i + 1}" for i in range(len(x))]
            return _waveform(data.schema, "data-sequences", title, names, x)
        steps = np.arange(x.shape[1])
        series = {
            f"{i}, feature {j}": (steps, x[i, :, j])
            for i in range(len(x))
            for j in range(min(_FEATURES, x.shape[2]))
        }
        return Lines("data-sequences", title_of(data, len(x), "sequences"), "step", "value", series)

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
        """The first feature of the first few; of sound the waveform."""
        del real, follows
        whole = drawn.reshape(len(drawn), drawn.shape[1], -1)[: self.sample_count]
        first = whole[:, :, 0]
        shown = [f"{i + 1} {name}" for i, name in enumerate(names)] or [str(i + 1) for i in range(len(first))]
        if schema.rate:
            return _waveform(schema, "samples", title, shown, whole, caption)
        series = {name: (np.arange(len(y)), y) for name, y in zip(shown, first, strict=False)}
        return Lines("samples", title, "time", heads(schema, 1)[0], series, caption=caption)

    def write_playable(self, folder: Path, schema: Schema, drawn: np.ndarray) -> Mapping[str, Path]:
        """Sound as WAV files, one for each sample."""
        if not schema.rate:
            return {}
        return {
            f"sound {i + 1}": write_sound(folder / f"sample-{i + 1}.wav", schema, one)
            for i, one in enumerate(drawn)
        }


def _waveform(
    schema: Schema, name: str, title: str, names: Sequence[str], x: np.ndarray, caption: str = ""
) -> Lines:
    """The amplitude of the first channel over time in seconds."""
    seconds = np.arange(x.shape[1]) / schema.rate
    series = {label: (seconds, y) for label, y in zip(names, amplitudes(schema, x)[:, :, 0], strict=False)}
    said = f"{schema.rate:,} samples a second; silence is 0."
    return Lines(name, title, "seconds", "amplitude", series, caption=" ".join(filter(None, [caption, said])))


kind = SequenceKind()

__all__ = ["SequenceKind", "kind"]
