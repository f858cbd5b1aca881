"""What the tests of promises share: one finished toy run to copy from, and a folder where syncing costs nothing."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from tests.cli.conftest import cli
from tests.trust.toys import train

__all__ = ["cli"]

_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="package", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The same few programs are trained again and again here: each is compiled once, also for child processes."""
    wanted = {
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("compiled")),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in wanted}
    for settings in (wanted, before):
        for name, value in settings.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        if settings is wanted:
            yield {name.upper(): str(value) for name, value in wanted.items()}


@pytest.fixture(scope="package")
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
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        yield Path(folder)
