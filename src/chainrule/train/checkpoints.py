"""Checkpoints: a folder `step-00000800` with the tensors (safetensors) and a manifest that proves they are whole.

A checkpoint is written beside its final place, flushed to the disk, and renamed: it is either complete or not there.
The manifest holds the SHA-256 of the tensor file and the shape and type of every tensor, and the small values the loop
needs to go on. Tensor names are keys, never paths; nothing in a checkpoint can name a file, a class or a function.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from chainrule.core import tree
from chainrule.core.errors import CheckpointError
from chainrule.core.types import Tree
from chainrule.train.files import disk_errors, sync_folder

FORMAT = 1
_TENSORS = "state.safetensors"
_MANIFEST = "manifest.json"
_TYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "BOOL": np.bool_,
}


def save(folder: Path, state: Tree, step: int, journal: Mapping[str, Any]) -> Path:
    """Write the checkpoint of a step; when this returns, it is on the disk."""
    final = folder / f"step-{step:08d}"
    temporary = folder / f".tmp-{final.name}-{os.getpid()}"
    tensors = {name: np.asarray(leaf) for name, leaf in tree.named_leaves(state)}
    contents = safetensors.numpy.save(tensors)
    manifest = {
        "format": FORMAT,
        "step": step,
        "sha256": hashlib.sha256(contents).hexdigest(),
        "bytes": len(contents),
        "tensors": {name: {"shape": list(a.shape), "dtype": a.dtype.name} for name, a in tensors.items()},
        "journal": dict(journal),
    }
    with disk_errors(final):
        try:
            temporary.mkdir(parents=True)
            for name, raw in (
                (_TENSORS, contents),
                (_MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode()),
            ):
                with (temporary / name).open("wb") as file:
                    file.write(raw)
                    file.flush()
                    os.fsync(file.fileno())
            sync_folder(temporary)
            if final.exists():  # only a damaged one: a run never saves the same step twice
                final.rename(folder / f".tmp-replaced-{final.name}-{os.getpid()}")
            temporary.rename(final)
            sync_folder(folder)
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    return final


def steps(folder: Path) -> list[int]:
    """Steps that have a checkpoint, oldest first."""
    return sorted(int(found.name[5:]) for found in folder.glob("step-*") if found.name[5:].isdigit())


def path(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is."""
    return folder / f"step-{step:08d}"


def read_manifest(checkpoint: Path) -> dict[str, Any]:
    """The manifest, checked for its format."""
    try:
        manifest = json.loads((checkpoint / _MANIFEST).read_text(encoding="utf-8"))
        version = manifest["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(checkpoint, f"its manifest cannot be read ({type(error).__name__})") from error
    if version != FORMAT:
        raise CheckpointError(
            f"checkpoint {checkpoint.name} has format {version!r}; this version of Chainrule reads format {FORMAT}",
            remedy="install the version named in the run's env.json, or a newer one",
        )
    return dict(manifest)


def load(checkpoint: Path, like: Tree) -> tuple[Tree, dict[str, Any]]:
    """The state and the journal of a checkpoint, verified; `like` gives the structure, shapes and types."""
    manifest = read_manifest(checkpoint)
    tensors = _read_tensors(checkpoint, manifest)
    expected = dict(tree.named_leaves(like))
    if missing := [name for name in expected if name not in tensors]:
        raise _mismatch(checkpoint, f"it has no tensor {missing[0]!r}")
    if extra := [name for name in tensors if name not in expected]:
        raise _mismatch(checkpoint, f"it has a tensor {extra[0]!r} that the model does not have")
    for name, leaf in expected.items():
        found = tensors[name]
        if found.shape != leaf.shape or found.dtype != leaf.dtype:
            have, want = f"{found.dtype}{list(found.shape)}", f"{leaf.dtype}{list(leaf.shape)}"
            raise _mismatch(checkpoint, f"tensor {name!r} is {have}, the model has {want}")
    leaves = iter([jnp.asarray(tensors[name]) for name in expected])
    restored = jax.tree.map(lambda _: next(leaves), like)
    return restored, dict(manifest["journal"])


def verify(checkpoint: Path) -> None:
    """Raise unless the checkpoint is whole."""
    _read_tensors(checkpoint, read_manifest(checkpoint))


def sweep(folder: Path) -> None:
    """Remove what an interrupted save left behind."""
    for torn in folder.glob(".tmp-*"):
        shutil.rmtree(torn, ignore_errors=True)


def prune(folder: Path, keep: set[int]) -> None:
    """Remove the checkpoints of all other steps."""
    for step in steps(folder):
        if step not in keep:
            # Renamed first, so that a half-removed checkpoint is never visible.
            doomed = folder / f".tmp-removed-{step:08d}-{os.getpid()}"
            path(folder, step).rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)


def _read_tensors(checkpoint: Path, manifest: Mapping[str, Any]) -> dict[str, np.ndarray]:
    try:
        contents = (checkpoint / _TENSORS).read_bytes()
    except OSError as error:
        raise _damaged(checkpoint, "its tensor file cannot be read") from error
    if hashlib.sha256(contents).hexdigest() != manifest.get("sha256"):
        raise _damaged(checkpoint, "the SHA-256 of its tensor file is not the one in the manifest")
    try:
        found = safetensors.deserialize(contents)
    except safetensors.SafetensorError as error:
        raise _damaged(checkpoint, f"its tensor file is not valid safetensors ({error})") from error
    return {
        name: np.frombuffer(entry["data"], dtype=_TYPES[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in found
    }


def _damaged(checkpoint: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"checkpoint {checkpoint.name} is damaged: {why}",
        remedy=f"go on from an older one: remove {checkpoint} and resume the run",
    )


def _mismatch(checkpoint: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"checkpoint {checkpoint.name} does not belong to this model: {why}",
        remedy="open the run with the settings in its config.yaml",
    )


__all__ = ["FORMAT", "load", "path", "prune", "read_manifest", "save", "steps", "sweep", "verify"]
