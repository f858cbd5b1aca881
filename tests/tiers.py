"""Parameters in two tiers: a few in every test run, the others only with `make test-all`."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def tiers(names: Iterable[str], *, slow: Collection[str]) -> list[Any]:
    """The names as parameters of a test or fixture; those among `slow` are left to `make test-all`."""
    names = list(names)
    if unknown := set(slow).difference(names):
        raise ValueError(f"slow={sorted(unknown)}: no such parameters; there are {', '.join(names)}")
    return [pytest.param(name, marks=pytest.mark.slow if name in slow else ()) for name in names]
