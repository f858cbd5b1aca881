"""Programs in native code are tested for both widths of registers, whatever the processor has."""

import os
from collections.abc import Iterator
from typing import Any

import jax
import pytest

from chainrule.nn.native import availability


def native_reason() -> str:
    """Why there is no native code in this test run; empty if there is."""
    if os.environ.get(availability.SWITCH) == "0":
        return availability.availability().reason
    return availability._availability("16").reason


def _widths() -> Iterator[Any]:
    """The registers this processor has, and slowly those it does not have."""
    own = None if native_reason() else availability.registers()
    for width, registers in availability.WIDTHS.items():
        yield width if registers == own else pytest.param(width, marks=pytest.mark.slow)


@pytest.fixture(scope="module", params=_widths())
def lanes(request: pytest.FixtureRequest) -> Iterator[int]:
    """Native code for registers of so many numbers; the compiler splits those that the processor does not have."""
    if reason := native_reason():
        pytest.skip(f"native code: {reason}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(availability.SWITCH, request.param)
        jax.clear_caches()  # what is compiled on its own is kept by shapes only
        yield int(request.param)
    jax.clear_caches()
