"""A piece of music for a trained model to go on from: a MIDI file, or events."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from chainrule.core.errors import ArgumentError, ChainruleWarning, DataError
from chainrule.data.loading import bounded
from chainrule.data.loading.options import MAX_BYTES, MAX_RATIO
from chainrule.data.loading.problems import Refused
from chainrule.data.music import events, midi


def read(given: Any) -> Int[np.ndarray, " events"]:
    """The events of a MIDI file, or those that are given as whole numbers.

    >>> read([397, 60, 257, 188]).tolist()
    [397, 60, 257, 188]
    """
    if isinstance(given, str | Path):
        return _of_file(Path(given).expanduser())
    found = np.asarray(given)
    if found.ndim != 1 or not found.size or found.dtype.kind not in "iu":
        raise ArgumentError(
            f"start: an array of {found.dtype} of shape {found.shape}",
            remedy="give the name of a MIDI file, or events as whole numbers one after the other",
        )
    if found.min() < 0 or found.max() >= events.COUNT:
        raise ArgumentError(f"start: events are numbers from 0 to {events.COUNT - 1}")
    return found.astype(np.int32)


def _of_file(path: Path) -> Int[np.ndarray, " events"]:
    try:
        data = bounded.read(path, path.name, MAX_BYTES.default, MAX_RATIO.default)
        piece = midi.read(data, path.name)
    except Refused as refused:
        problem = refused.problem
        raise DataError(f"{problem.where}: {problem.detail}", remedy=problem.remedy) from None
    if piece.percussion:
        warnings.warn(
            f"{path.name}: {piece.percussion:,} notes of percussion have no pitch and are left out",
            ChainruleWarning,
            stacklevel=3,
        )
    if not piece.notes:
        raise DataError(f"{path.name}: no notes with a pitch", remedy="give a MIDI file with notes")
    return events.encode(piece.notes)


__all__ = ["read"]
