"""A stopped clock: how many colours are found within a budget of seconds must not depend on how busy the machine is."""

from types import SimpleNamespace

import pytest

from chainrule.derive.sparse.coloring import bidirectional, ejection, portfolio, tabu


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (bidirectional, ejection, portfolio, tabu):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: 0.0))
