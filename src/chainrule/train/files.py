"""Atomic writing of files, plain errors for full disks, and careful reading.

A reader sees the old contents of a file or the new, never a mixture. A run folder may come from a stranger, so
what is read from it must be a plain file of a sensible size that really lies there.
"""

import contextlib
import errno
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chainrule.core.errors import DiskError, RunError

_DISK_ERRORS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
    errno.EFBIG: "the file is larger than this disk allows",
    errno.EIO: "the disk reports an error",
    errno.EACCES: "no permission to write",
    errno.EPERM: "no permission to write",
}


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's refusal to write into an error that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_ERRORS:
            raise DiskError(
                f"cannot write {path}: {_DISK_ERRORS[error.errno]}",
                remedy="free some space or write somewhere else; what was saved before is intact",
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


def read_own(path: Path, most: int = 64 << 20) -> bytes:
    """The contents of a plain file of at most that many bytes; a link, pipe or device raises `OSError` at once."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a plain file", str(path))
        if found.st_size > most:
            raise OSError(errno.EFBIG, f"more than {most:,} bytes", str(path))
        return file.read()


def remove(path: Path) -> None:
    """Remove a file, a link (not what it points to) or a whole folder; what cannot be removed stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def sweep(folder: Path) -> None:
    """Remove the temporary files that a killed `write_atomic` left in a folder."""
    for torn in folder.glob(".*.tmp"):
        remove(torn)


def sync_folder(folder: Path) -> None:
    """Make renames and removals inside a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """A folder and those it lies in, each durable as an entry of its parent."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    with disk_errors(folder):
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
            sync_folder(path.parent)


def free_bytes(folder: Path) -> int:
    """Space left where a folder is, or will be."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


@contextlib.contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Hold the run folder for one process; a second one is refused. The lock goes with the process, even if killed."""
    with disk_errors(folder):
        file = (folder / ".lock").open("a")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"{folder.name} is being written by another process",
                remedy="wait for it, stop it with Ctrl-C, or train under another name with run=NAME",
            ) from None
        yield


__all__ = [
    "disk_errors",
    "free_bytes",
    "make_folder",
    "read_own",
    "remove",
    "sole_writer",
    "sweep",
    "sync_folder",
    "write_atomic",
    "write_json",
]
