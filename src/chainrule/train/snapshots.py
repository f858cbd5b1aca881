"""Examples that a model drew along the way, kept so that one can see them come about.

After every evaluation a model with snapshots draws the same few examples again, and they are kept in the run folder as
plain arrays, one file for each step. Nothing depends on them: without, a report shows less.
"""

import io
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from chainrule.core import random
from chainrule.models.protocol import HasSnapshots
from chainrule.train.files import make_folder, read_own, write_atomic

FOLDER = "snapshots"
_NAME = re.compile(r"step-(\d{8})\.npy")


class Snapshots(NamedTuple):
    """What was drawn at each of some steps, in the units of the model."""

    steps: Int[np.ndarray, " moments"]
    examples: Float[np.ndarray, "moments n ..."]


def keep(run: Path, model: HasSnapshots, step: int, seed: int) -> None:
    """Draw, and write what was drawn."""
    drawn = np.asarray(model.snapshot(random.key(seed, "snapshots")), np.float16)
    held = io.BytesIO()
    np.save(held, drawn, allow_pickle=False)
    make_folder(run / FOLDER)
    write_atomic(run / FOLDER / f"step-{step:08}.npy", held.getvalue(), durable=False)


def kept(run: Path, most: int) -> Snapshots | None:
    """What a run has kept, at most so many moments, evenly spread, the first and last among them."""
    folder = run / FOLDER
    if not folder.is_dir() or folder.is_symlink():
        return None
    found = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name) and not path.is_symlink())
    if not found:
        return None
    chosen = [found[i] for i in np.unique(np.linspace(0, len(found) - 1, most).astype(int))]
    arrays = [np.load(io.BytesIO(read_own(path)), allow_pickle=False).astype(np.float32) for path in chosen]
    if len({array.shape for array in arrays}) > 1:
        return None
    steps = np.array([int(path.stem.removeprefix("step-")) for path in chosen])
    return Snapshots(steps, np.stack(arrays))


__all__ = ["FOLDER", "Snapshots", "keep", "kept"]
