"""Checkpoints: a folder `step-00000800` with the tensors (safetensors) and a manifest that proves they are whole.

A checkpoint is written beside its final place, flushed to the disk, and renamed: it is either complete or not there.
The manifest holds the SHA-256 of the tensor file and the shape and type of every tensor, the small values the loop
needs to go on, and a digest of itself. Tensor names are keys, never paths; nothing in a checkpoint can name a file, a
class or a function, and nothing is read that does not lie in its folder.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from chainrule.core import tree
from chainrule.core.errors import ArgumentError, CheckpointError
from chainrule.core.types import Tree
from chainrule.train.files import disk_errors, read_own, remove, sync_folder
from chainrule.train.former import array

FORMAT = 1
_TENSORS = "state.safetensors"
_MANIFEST = "manifest.json"
_HEADER_BYTES = 100 << 20
"""More than the longest header the safetensors format allows."""
_MOST_TIMES_PART = 64
"""A state is larger than its model, but no optimiser keeps this much more."""
_TYPES = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
    "I16": np.dtype(np.int16),
    "I8": np.dtype(np.int8),
    "U64": np.dtype(np.uint64),
    "U32": np.dtype(np.uint32),
    "U16": np.dtype(np.uint16),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}


class DamagedError(CheckpointError):
    """A checkpoint is not what was written; an older one can take its place."""


def table(state: Tree) -> dict[str, dict[str, Any]]:
    """Name, shape and type of every tensor of a state; raises when a checkpoint could not hold it.

    >>> table({"w": np.zeros((2, 3), np.float32)})
    {'w': {'shape': [2, 3], 'dtype': 'float32'}}
    """
    found: dict[str, dict[str, Any]] = {}
    for name, leaf in tree.named_leaves(state):
        if name in found:
            raise ArgumentError(
                f"two tensors of the model are both called {name!r}",
                remedy="give one of them another name; a key with a dot in it reads like two keys",
            )
        if leaf.dtype not in _TYPES.values():
            raise ArgumentError(
                f"tensor {name!r} has type {leaf.dtype}, which a checkpoint cannot hold",
                remedy="keep complex numbers as two real arrays, and random keys out of the model",
            )
        found[name] = _describe(leaf)
    return found


def save(folder: Path, state: Tree, step: int, journal: Mapping[str, Any]) -> Path:
    """Write the checkpoint of a step; when this returns, it is on the disk."""
    final = path(folder, step)
    temporary = folder / f".tmp-{final.name}-{os.getpid()}"
    described = table(state)
    # C order, because safetensors writes the memory of an array as it lies.
    contents = safetensors.numpy.save({n: np.asarray(a, order="C") for n, a in tree.named_leaves(state)})
    manifest = {
        "format": FORMAT,
        "step": step,
        "sha256": hashlib.sha256(contents).hexdigest(),
        "bytes": len(contents),
        "tensors": described,
        "journal": dict(journal),
    }
    manifest["digest"] = _digest(manifest)
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
            remove(temporary)
            raise
    return final


def steps(folder: Path) -> list[int]:
    """Steps that have a checkpoint, oldest first."""
    _refuse_link(folder)
    found = [re.fullmatch(r"step-([0-9]{8,})", child.name) for child in folder.glob("step-*")]
    return sorted(int(match[1]) for match in found if match)


def path(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is."""
    return folder / f"step-{step:08d}"


def read_manifest(checkpoint: Path) -> dict[str, Any]:
    """The manifest, proved to be as it was written."""
    _refuse_link(checkpoint.parent)
    _refuse_link(checkpoint)
    try:
        manifest = json.loads(read_own(checkpoint / _MANIFEST))
        version, digest = manifest["format"], manifest.get("digest")
        intact = digest == _digest(manifest)
    except FileNotFoundError as error:
        if not checkpoint.is_dir():
            raise CheckpointError(
                f"checkpoint {checkpoint.name} is not there any more",
                remedy="open the run again: while it is training, it keeps only its newest checkpoints",
            ) from error
        raise _damaged(checkpoint, "it has no manifest") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(checkpoint, f"its manifest cannot be read ({type(error).__name__})") from error
    # Every format keeps the digest, so that a damaged number is not taken for a format of the future.
    if digest is not None and not intact:
        raise _damaged(checkpoint, "its manifest was changed after it was written")
    if version != FORMAT or isinstance(version, bool):
        raise CheckpointError(
            f"checkpoint {checkpoint.name} has format {version!r}; this version of Chainrule reads format {FORMAT}",
            remedy="install the version named in the run's env.json, or a newer one",
        )
    if not _complete(manifest) or checkpoint.name != path(checkpoint.parent, manifest["step"]).name:
        raise _damaged(checkpoint, "its manifest does not describe it")
    return dict(manifest)


def load(
    checkpoint: Path, like: Tree, *, part: str = "", former: Mapping[str, str] = MappingProxyType({})
) -> tuple[Tree, dict[str, Any]]:
    """The state and the journal of a checkpoint, verified; `like` gives the structure, shapes and types.

    With `part`, only the tensors under that name: a model can then be had without knowing how it was optimised.
    `former` are the former names of arrays (`Entry.former_arrays`) that the checkpoint may hold.
    """
    manifest = read_manifest(checkpoint)
    expected = table({part: like} if part else like)
    names = {array(name, former): name for name in manifest["tensors"]}
    if len(names) < len(manifest["tensors"]):
        twice = next(held for held in manifest["tensors"] if held not in names.values())
        raise _mismatch(checkpoint, twice, f"it holds {twice!r} under its present name too")
    stored = {
        name: manifest["tensors"][held]
        for name, held in names.items()
        if f"{name}.".startswith(f"{part}." if part else "")
    }
    if missing := [name for name in expected if name not in stored]:
        raise _mismatch(checkpoint, missing[0], f"it has no tensor {missing[0]!r}")
    if extra := [name for name in stored if name not in expected]:
        raise _mismatch(checkpoint, extra[0], f"it has a tensor {extra[0]!r} that the model does not have")
    for name, want in expected.items():
        if stored[name] != want:
            found, wanted = (f"{t['dtype']}{t['shape']}" for t in (stored[name], want))
            raise _mismatch(checkpoint, name, f"tensor {name!r} is {found}, the model has {wanted}")
    most = tree.nbytes(like) * (_MOST_TIMES_PART if part else 1) + _HEADER_BYTES
    tensors = _read_tensors(checkpoint, manifest, most=most)
    # Unlike `jnp.asarray`, this compiles nothing.
    leaves = iter(jax.device_put([tensors[names[name]] for name in expected], may_alias=False))
    return jax.tree.map(lambda _: next(leaves), like), dict(manifest["journal"])


def verify(checkpoint: Path) -> None:
    """Raise unless the checkpoint is whole."""
    manifest = read_manifest(checkpoint)
    _read_tensors(checkpoint, manifest, most=manifest["bytes"])


def sweep(folder: Path) -> None:
    """Remove what an interrupted save left behind."""
    _refuse_link(folder)
    for torn in folder.glob(".tmp-*"):
        remove(torn)


def prune(folder: Path, keep: set[int]) -> None:
    """Remove the checkpoints of all other steps."""
    with disk_errors(folder):
        for step in steps(folder):
            if step not in keep:
                # Renamed first, so that a half-removed checkpoint is never visible.
                doomed = folder / f".tmp-removed-{step:08d}-{os.getpid()}"
                path(folder, step).rename(doomed)
                remove(doomed)


def _digest(manifest: Mapping[str, Any]) -> str:
    """SHA-256 of everything in a manifest but the digest itself, independent of layout."""
    rest = {name: value for name, value in manifest.items() if name != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _complete(manifest: Mapping[str, Any]) -> bool:
    kinds = {"step": int, "sha256": str, "bytes": int, "tensors": dict, "journal": dict, "digest": str}
    return all(isinstance(manifest.get(name), kind) for name, kind in kinds.items()) and all(
        isinstance(tensor, dict) and tensor.keys() == {"shape", "dtype"}
        for tensor in manifest["tensors"].values()
    )


def _describe(tensor: Any) -> dict[str, Any]:
    return {"shape": list(tensor.shape), "dtype": tensor.dtype.name}


def _read_tensors(checkpoint: Path, manifest: Mapping[str, Any], *, most: int) -> dict[str, np.ndarray]:
    try:
        contents = read_own(checkpoint / _TENSORS, most=min(most, manifest["bytes"]))
    except OSError as error:
        raise _damaged(checkpoint, f"its tensor file cannot be read ({error.strerror})") from error
    if hashlib.sha256(contents).hexdigest() != manifest["sha256"]:
        raise _damaged(checkpoint, "the SHA-256 of its tensor file is not the one in the manifest")
    try:
        found = safetensors.deserialize(contents)
        tensors = {
            name: np.frombuffer(entry["data"], dtype=_TYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in found
        }
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise _damaged(checkpoint, f"its tensor file is not valid ({error})") from error
    if {name: _describe(tensor) for name, tensor in tensors.items()} != manifest["tensors"]:
        raise _damaged(checkpoint, "its tensor file does not hold the tensors in the manifest")
    return tensors


def _refuse_link(location: Path) -> None:
    if location.is_symlink():
        raise CheckpointError(
            f"{location} is a link: a checkpoint is read and written only where it really lies",
            remedy="put the folder itself in its place; to use another disk, choose it with runs=DIR",
        )


def _damaged(checkpoint: Path, why: str) -> DamagedError:
    return DamagedError(
        f"checkpoint {checkpoint.name} is damaged: {why}",
        remedy=f"go on from an older one: remove {checkpoint} and resume the run",
    )


def _mismatch(checkpoint: Path, name: str, why: str) -> CheckpointError:
    return CheckpointError(
        f"checkpoint {checkpoint.name} does not belong to this model: {why}",
        remedy="go on with the same optimiser, and with the version of Chainrule in the run's env.json"
        if name.startswith("optimizers.")
        else "open the run with the settings in its config.yaml",
    )


__all__ = [
    "FORMAT",
    "DamagedError",
    "load",
    "path",
    "prune",
    "read_manifest",
    "save",
    "steps",
    "sweep",
    "table",
    "verify",
]
