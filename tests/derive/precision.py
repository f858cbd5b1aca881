"""Fixtures of the tests of derivatives: double precision, and programs compiled quickly because they run once.

A folder whose tests are about single precision too leaves them out of its `conftest.py`.
"""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def double_precision() -> Iterator[None]:
    """Numbers of 64 bits."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module", autouse=True)
def quick_compilation() -> Iterator[None]:
    """Programs here run once or twice: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
