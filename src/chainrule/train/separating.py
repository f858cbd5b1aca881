"""Sources of new recordings: found piece by piece, faded into each other, and written as sound files.

A recording may be as long as it likes: pieces of a fixed length overlap by a quarter and are faded from one to the
next, so that one compiled program and a bounded memory serve all.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core import progress
from chainrule.core.compiling import compiled
from chainrule.core.errors import DataError
from chainrule.core.types import Array
from chainrule.data import kinds
from chainrule.data.inputs.protocol import Given
from chainrule.data.sound_files import write_amplitudes
from chainrule.models.protocol import CanSeparate
from chainrule.nn.spectral import best_order
from chainrule.train.file_names import free, plain
from chainrule.train.predicting import Answered, Answering, Unanswered

if TYPE_CHECKING:
    from chainrule.train.run import Run

_SILENCE = -100.0
"""The level of a source that is not there at all."""


@final
class SourceFinder(Answering):
    """The level of each source in each recording, and its sound in a file where there is a folder for it."""

    def __init__(self, run: "Run", model: CanSeparate, given: Given) -> None:
        prepared = run.preparation
        self._model, self._rate = model, prepared.schema.rate
        self._piece = prepared.schema.shape[0]
        self._inputs = kinds.of(prepared.schema).inputs(given, prepared)
        self._folder: Path | None = None
        self.problems: list[Unanswered] = []
        self.count = 0

    def into(self, folder: Path) -> None:
        """Sources are written here, as NAME-SOURCE.wav."""
        self._folder = folder

    def __iter__(self) -> Iterator[Answered]:
        taken: set[str] = set()
        for chunk in self._inputs.chunks(1):
            (name,) = chunk.names
            self.count += 1
            if chunk.faults:
                fault = chunk.faults[0]
                self.problems.append(Unanswered(name, fault.where, fault.reason))
                yield Answered([name], self._columns(None, name, taken))
            else:
                yield Answered(
                    [name], self._columns(separate(self._model, chunk.x[0], self._piece), name, taken)
                )
            progress.update(f"sources of {self._inputs.unit}", self.count, self._inputs.total)
        if not self.count:
            raise DataError("there are no recordings to find sources in")

    def remarks(self) -> list[str]:
        """What the numbers are."""
        return ["levels are in decibels below the loudest that sound can be"]

    def _columns(
        self, found: Float[np.ndarray, "sources samples channels"] | None, name: str, taken: set[str]
    ) -> dict[str, np.ndarray]:
        names = self._model.source_names
        levels = [np.nan] * len(names) if found is None else [_level(one) for one in found]
        columns = {f"level {source}": np.array([level]) for source, level in zip(names, levels, strict=True)}
        if self._folder is None:
            return columns
        stem = free(name, taken, "sound")
        for number, source in enumerate(names):
            file = f"{stem}-{plain(source)}.wav"
            if found is not None:
                write_amplitudes(self._folder / file, self._rate, found[number])
            columns[f"file {source}"] = np.array([file if found is not None else ""], np.str_)
        return columns


def separate(
    model: CanSeparate, x: Float[np.ndarray, "samples channels"], piece: int
) -> Float[np.ndarray, "sources samples channels"]:
    """The sources of a recording of any length; pieces are those of training."""
    fade = piece // 4
    step = piece - fade
    count = max(1, -(-(len(x) - fade) // step))
    padded = np.pad(x, ((0, count * step + fade - len(x)), (0, 0)))
    total, weights = None, np.zeros(len(padded), np.float32)
    for number in range(count):
        window = np.ones(piece, np.float32)
        ramp = (np.arange(fade, dtype=np.float32) + 1) / (fade + 1)
        if number:
            window[:fade] = ramp
        if number < count - 1:
            window[piece - fade :] = ramp[::-1]
        part = slice(number * step, number * step + piece)
        found = np.asarray(_separate(model, jnp.asarray(padded[part])[None]))[0]
        if total is None:
            total = np.zeros((len(found), *padded.shape), np.float32)
        elif not model.ordered and fade:
            shared = slice(number * step, number * step + fade)
            found = _in_order(found, total[:, shared] / weights[None, shared, None])
        total[:, part] += found * window[None, :, None]
        weights[part] += window
    assert total is not None, "there is a piece"
    return (total / weights[None, :, None])[:, : len(x)]


def _in_order(
    found: Float[np.ndarray, "sources samples channels"], before: Float[np.ndarray, "sources fade channels"]
) -> Float[np.ndarray, "sources samples channels"]:
    """Sources of a piece in the order of the piece before it: the one in which both agree most where they overlap."""
    begun = found[:, : before.shape[1]]
    order = best_order(jnp.asarray(np.einsum("isc,jsc->ij", begun, before)))[1]
    return found[np.asarray(order)]


@compiled
def _separate(model: CanSeparate, x: Array) -> Array:
    return model.separate(x)


def _level(x: np.ndarray) -> float:
    """The level of a signal in decibels."""
    energy = float(np.square(x, dtype=np.float64).mean())
    return max(_SILENCE, 10 * float(np.log10(energy))) if energy else _SILENCE


__all__ = ["SourceFinder", "separate"]
