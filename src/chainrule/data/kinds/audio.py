"""Sound: amplitudes between -1 and 1, (samples, channels), at a rate."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from chainrule.core.pictures import Lines, Picture
from chainrule.data import targets
from chainrule.data.division import Positions, complete, divide, sizes
from chainrule.data.kind import Kind
from chainrule.data.loading.rows import Divided, in_rows, positions
from chainrule.data.loading.scan import Contents
from chainrule.data.previews import some, title_of
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.sound_files import write_amplitudes
from chainrule.data.splits import Split
from chainrule.data.stems import Stems

if TYPE_CHECKING:
    from chainrule.data.dataset import Data
    from chainrule.data.inputs.protocol import Given, Inputs, Preparation
    from chainrule.data.inputs.series import History

_SHOWN = 4
_FEW = 3
"""Recordings that can be divided; fewer are cut in time."""
_CHANNELS = {1: "mono", 2: "stereo"}


@final
class AudioKind(Kind):
    """Amplitudes as they are: nothing is scaled, so that loud and soft stay apart."""

    noun: ClassVar[str] = "sounds"
    sample_count: ClassVar[int] = 4
    has_amplitudes: ClassVar[bool] = True

    def raw_range(self, schema: Schema) -> tuple[float, float]:
        """From -1 to 1."""
        del schema
        return -1.0, 1.0

    def describe(self, schema: Schema, total: int) -> str:
        """How many, how long, at what rate, in how many channels."""
        samples, channels = schema.shape
        seconds = f"{samples / schema.rate:.3g} s ({samples:,} samples at {schema.rate:,} a second)"
        spoken = _CHANNELS.get(channels, f"{channels} channels")
        return f"{total:,} sounds of {seconds}, {spoken}{targets.of(schema).describe(schema)}"

    def smaller(self, schema: Schema) -> str:
        """Examples half as long."""
        return f"data.length={schema.shape[0] // 2}" if schema.shape[0] > 64 else ""

    def positions(self, contents: Contents, shares: Sequence[float], seed: int) -> Sequence[Positions] | None:
        """All pieces of a recording in one split; of fewer than three recordings, the last pieces are held out."""
        groups = contents.groups
        if groups is None:
            return positions(contents, shares, seed)
        count = int(groups.max()) + 1
        if contents.parts is not None:
            first = np.array([contents.parts[np.flatnonzero(groups == group)[0]] for group in range(count)])
            chosen = complete(first, shares, seed)
        elif count >= _FEW:
            chosen = divide(count, shares, seed)
        else:
            return np.split(np.arange(len(groups)), np.cumsum(sizes(len(groups), shares))[:-1])
        return [np.flatnonzero(np.isin(groups, part)) for part in chosen]

    def divide(self, contents: Contents, schema: Schema, shares: Sequence[float], seed: int) -> Divided:
        """Sources are mixed as they are asked for; sound without them is rows."""
        if contents.y is None:
            return in_rows(contents, schema, shares, seed, self.positions(contents, shares, seed))
        parts = self.positions(contents, shares, seed)
        assert parts is not None, "recordings have positions"
        splits = [
            Stems({"y": contents.y[part]}, remix=contents.remix and not number)
            for number, part in enumerate(parts)
        ]
        return Divided(schema, splits, Scaling(), positions=parts)

    def own_options(self, schema: Schema) -> dict[str, Any]:
        """Recordings are cut, resampled and mixed down to what those of training were."""
        own = {"length": schema.shape[0], "rate": schema.rate, "channels": schema.shape[1]}
        return {**own, "sources": list(schema.classes) or None}

    def adopted(self, contents: Contents, rows: np.ndarray, prepared: "Preparation", where: str) -> Split:
        """Mixtures with their sources, by the names of training."""
        from chainrule.data.loading.others import examples_like, no_targets

        schema = prepared.schema
        if not targets.of(schema).given:
            return examples_like(contents, rows, prepared, where, np.asarray(contents.x[rows]))
        if contents.y is None or contents.y.shape[1:] != schema.target_shape:
            raise no_targets(where)
        return Stems({"y": contents.y[rows]})

    def inputs(self, given: "Given", prepared: "Preparation") -> "Inputs":
        """Recordings in files, folders and arrays."""
        from chainrule.data.inputs import recordings

        return recordings.inputs(given, prepared)

    def histories(self, given: "Given", prepared: "Preparation") -> "list[History]":
        """Sound to go on from."""
        from chainrule.data.inputs import recordings, series

        return series.histories(recordings.amplitudes(given, prepared), prepared)

    def preview(self, data: "Data") -> Picture:
        """The waveforms of some."""
        x = some(data, _SHOWN).x
        names = [f"piece {i + 1}" for i in range(len(x))]
        return _waveform(data.schema, "data-sounds", title_of(data, len(x), "sounds"), names, x)

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
        """The waveforms of the first few."""
        del real, follows
        shown = drawn[: self.sample_count]
        called = [f"{i + 1} {name}" for i, name in enumerate(names)] or [
            str(i + 1) for i in range(len(shown))
        ]
        return _waveform(schema, "samples", title, called, shown, caption)

    def write_playable(self, folder: Path, schema: Schema, drawn: np.ndarray) -> Mapping[str, Path]:
        """WAV files, one for each sample."""
        return {
            f"sound {i + 1}": write_amplitudes(folder / f"sample-{i + 1}.wav", schema.rate, one)
            for i, one in enumerate(drawn)
        }

    def clips(self, schema: Schema, drawn: np.ndarray) -> Mapping[str, np.ndarray]:
        """The first few to listen to."""
        del schema
        return {str(i + 1): one for i, one in enumerate(drawn[: self.sample_count])}


def _waveform(
    schema: Schema, name: str, title: str, names: Sequence[str], x: np.ndarray, caption: str = ""
) -> Lines:
    seconds = np.arange(x.shape[1]) / schema.rate
    series = {label: (seconds, y) for label, y in zip(names, x[:, :, 0], strict=False)}
    said = f"{schema.rate:,} samples a second."
    return Lines(name, title, "seconds", "amplitude", series, caption=" ".join(filter(None, [caption, said])))


kind = AudioKind()

__all__ = ["AudioKind", "kind"]
