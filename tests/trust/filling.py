"""A program that trains on a disk of one megabyte, fills it, and then makes it read-only.

`unshare -rm python -m tests.trust.filling FOLDER` mounts the disk over FOLDER in a namespace of its own, so nobody else
sees it and it is gone with the process.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chainrule.core.errors import DiskError
from chainrule.train import Run, beginning, checkpoints
from tests.trust.toys import go_on, train


def refused(action: Callable[..., Any], *args: Any, **options: Any) -> str:
    """The message of the disk error that an action must end in."""
    with pytest.raises(DiskError) as error:
        action(*args, **options)
    assert error.value.exit_code == 5
    return str(error.value)


def fill(folder: Path) -> Path:
    """Write until nothing more fits, then give one page back: enough for a small file, not for a checkpoint."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1024))
        except OSError:
            file.truncate(ballast.stat().st_size // 4096 * 4096 - 4096)
    return ballast


def main(folder: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", str(folder)], check=True)
    path = folder / "toy"
    assert "MB free; the checkpoints of this run need about" in refused(train, path)
    assert not path.exists()

    beginning.free_bytes = lambda _: 1 << 40
    train(path, steps=8, keep=1)
    ballast = fill(folder)
    message = refused(go_on, path, steps=12)
    assert message.startswith("cannot write "), message
    assert ": the disk is full\n" in message, message
    assert checkpoints.steps(path / "checkpoints") == [8]
    checkpoints.verify(checkpoints.path(path / "checkpoints", 8))
    assert not list(path.glob("checkpoints/.tmp-*"))
    _ = Run.open(path).model

    ballast.unlink()
    assert go_on(path, steps=12).status["status"] == "done"

    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    assert "the disk is read-only" in refused(train, folder / "another")
    assert "the disk is read-only" in refused(go_on, path, steps=16)
    assert Run.open(path).step == 12
    _ = Run.open(path).model


if __name__ == "__main__":
    main(Path(sys.argv[1]))
