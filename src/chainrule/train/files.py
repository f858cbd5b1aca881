"""Writing files so that a reader sees the old contents or the new, never a mixture, and a full disk is told plainly."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chainrule.core.errors import DiskError, RunError

_DISK_ERRORS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
}


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's refusal to write into an error that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_ERRORS or error.errno == errno.EACCES:
            reason = _DISK_ERRORS.get(error.errno or 0, "no permission to write")
            raise DiskError(
                f"cannot write {path}: {reason}",
                remedy="free some space or choose another place with runs=DIR; what was saved before is intact",
            ) from error
        raise


def write_atomic(path: Path, contents: bytes | str, *, durable: bool = True) -> None:
    """Replace a file in one step; `durable` also waits until it is on the disk."""
    raw = contents.encode() if isinstance(contents, str) else contents
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with disk_errors(path):
        try:
            with temporary.open("wb") as file:
                file.write(raw)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        if durable:
            sync_folder(path.parent)


def write_json(path: Path, values: Any, *, durable: bool = True) -> None:
    """A JSON file, replaced in one step."""
    write_atomic(path, json.dumps(values, indent=1, allow_nan=False) + "\n", durable=durable)


def sync_folder(folder: Path) -> None:
    """Make renames and removals inside a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def free_bytes(folder: Path) -> int:
    """Space left where a folder is, or will be."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


@contextlib.contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Hold the run folder for one process; a second one is refused. The lock goes with the process, even if killed."""
    with disk_errors(folder), (folder / ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"{folder.name} is being written by another process",
                remedy="wait for it, stop it with Ctrl-C, or train under another name with run=NAME",
            ) from None
        yield


__all__ = ["disk_errors", "free_bytes", "sole_writer", "sync_folder", "write_atomic", "write_json"]
