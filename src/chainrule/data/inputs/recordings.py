"""New recordings for a trained model of sound: files, folders and arrays, of any length.

A recording at another rate or with other channels than those of training is refused, with the way to convert it: what
a model would say of it would be about another sound.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data.inputs import arrays, folders
from chainrule.data.inputs.protocol import Given, InputChunk, Inputs, Preparation
from chainrule.data.loading.options import MAX_BYTES, MAX_RATIO
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.readers import waveforms

_LIMITS = MAX_BYTES.default, MAX_RATIO.default


def inputs(given: Given, prepared: Preparation) -> Inputs:
    """Recordings one by one, each a chunk of its own because they differ in length; `x` is (1, samples, channels)."""
    found = _found(given, prepared)

    def chunks(size: int) -> Iterator[InputChunk]:
        del size
        for name, one in found:
            x = one if isinstance(one, np.ndarray) else _read(one, name, prepared)
            if isinstance(x, Problem):
                none = np.zeros((0, *prepared.schema.shape), np.float32)
                yield InputChunk([name], np.zeros(0, np.int64), none, {0: x})
            else:
                yield InputChunk([name], np.zeros(1, np.int64), x[None], {})

    return Inputs("recordings", len(found), chunks)


def amplitudes(given: Given, prepared: Preparation) -> Float[np.ndarray, "..."]:
    """One recording to go on from, or an array of several of equal length."""
    if not isinstance(given, str | Path):
        return arrays.as_array(given)
    found = _read(Path(given).expanduser(), Path(given).name, prepared)
    if isinstance(found, Problem):
        raise DataError(f"{found.where}: {found.reason}", remedy=found.remedy)
    return found


def _found(given: Given, prepared: Preparation) -> list[tuple[str, Path | np.ndarray]]:
    if isinstance(given, str | Path):
        path = Path(given).expanduser()
        if not path.is_dir():
            return [(path.name, path)]
        files = [file for file in folders.files(path, prepared) if file.suffix.lower() in waveforms.SUFFIXES]
        if not files:
            raise DataError(
                f"{path}: there is no sound in this folder", remedy="read are: WAV and FLAC files"
            )
        return [(file.relative_to(path).as_posix(), file) for file in files]
    if isinstance(given, list | tuple) and all(isinstance(one, str | Path) for one in given):
        return [pair for one in given for pair in _found(one, prepared)]
    x = np.asarray(arrays.as_array(given), np.float32)
    channels = prepared.schema.shape[1]
    several = x.ndim == 3
    shaped = x if several else (x[:, None] if x.ndim == 1 else x)[None]
    if shaped.ndim != 3 or shaped.shape[2] != channels or not np.isfinite(shaped).all():
        raise ArgumentError(
            f"an array of shape {'×'.join(map(str, x.shape))}: the run was trained on sound of {channels} "
            f"channel{'s' * (channels != 1)}",
            remedy=f"give (samples, {channels}) or (n, samples, {channels}), finite numbers between -1 and 1",
        )
    return [(str(number), one) for number, one in enumerate(shaped)]


def _read(path: Path, name: str, prepared: Preparation) -> Float[np.ndarray, "samples channels"] | Problem:
    schema = prepared.schema
    try:
        found = waveforms.read(path, name, *_LIMITS)
    except Refused as refused:
        problem = refused.problem
        return Problem(problem.kind, name, problem.detail, remedy=problem.remedy)
    if (found.rate, found.x.shape[1]) != (schema.rate, schema.shape[1]):
        theirs, ours = (
            f"{rate:,} Hz in {n}"
            for rate, n in ((found.rate, found.x.shape[1]), (schema.rate, schema.shape[1]))
        )
        remedy = f"ffmpeg -i IN.wav -ar {schema.rate} -ac {schema.shape[1]} OUT.wav"
        return Problem(
            "other sound", name, f"{theirs} channels; the run was trained on {ours}: {remedy}", remedy=remedy
        )
    return found.x


__all__ = ["amplitudes", "inputs"]
