"""What the tests of promises share: one finished toy run to copy from, and a place where syncing costs nothing."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trust.toys import train

_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished toy run; not to be changed."""
    return train(tmp_path_factory.mktemp("finished") / "toy", keep=3).path


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run, to be damaged."""
    return Path(shutil.copytree(finished, tmp_path / "toy"))


@pytest.fixture
def quick() -> Iterator[Path]:
    """A folder in memory where there is one: thousands of files are synced there."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as place:
        yield Path(place)
