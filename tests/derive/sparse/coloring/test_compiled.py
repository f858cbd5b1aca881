"""Compiled or not, colours are the same."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule.derive.sparse import ORDERS, color
from chainrule.derive.sparse.coloring import compiled
from tests.derive.sparse.coloring.graphs import arrow, band_with_hubs, brusselator


def both_ways(monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> tuple[Any, Any]:
    """The colouring by compiled loops, and by plain Python."""
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "SMALL_WORK", 0)
        fast = color(*arguments)
        patch.setattr(compiled, "compiler", lambda: None)
        return fast, color(*arguments)


@pytest.mark.parametrize("method", ["column", "star", "acyclic", "distance-1"])
def test_plain_python_gives_the_same_colours(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for pattern in (brusselator(6), band_with_hubs(60)):
        for order in ORDERS:
            fast, plain = both_ways(monkeypatch, pattern, method, order)
            assert np.array_equal(fast.colors, plain.colors), order


def test_more_colours_than_fit_a_block_come_in_further_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 2500  # sixteen words of 63 colours are 1008
    fast, plain = both_ways(monkeypatch, arrow(n), "column", "natural")
    assert fast.num_colors == plain.num_colors == n
    assert sorted(fast.colors.tolist()) == list(range(n))


def test_star_colouring_with_more_than_a_word_of_colours_is_valid() -> None:
    found = color(band_with_hubs(150, width=40, hubs=3), "star", "natural")
    assert found.num_colors > 63
    found.check()


def test_without_numba_everything_is_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "compiler", lambda: None)
    monkeypatch.setattr(compiled, "SMALL_WORK", 0)
    found = color(brusselator(6), "star", "smallest-last")
    found.check()


def test_a_small_graph_does_not_load_the_compiler() -> None:
    code = (
        "import sys, scipy.sparse as s; from chainrule.derive.sparse import color; "
        "assert color(s.eye_array(50)).num_colors == 1; assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_work_adds_up_within_a_task_and_not_over_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    monkeypatch.setattr(compiled, "compiler", lambda: loaded.append(1))  # asked for, and not there
    monkeypatch.setattr(compiled, "SMALL_WORK", 10)
    kernel = compiled.Kernel(lambda values: len(values))
    for _ in range(5):
        kernel(6.0, np.arange(2))
    assert not loaded
    with compiled.one_task():
        kernel(6.0, np.arange(2))
        assert not loaded
        with compiled.one_task():
            kernel(6.0, np.arange(2))
    assert loaded == [1]
    kernel(6.0, np.arange(2))
    assert loaded == [1]


def test_tasks_in_two_threads_do_not_see_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    monkeypatch.setattr(compiled, "compiler", lambda: loaded.append(1))
    monkeypatch.setattr(compiled, "SMALL_WORK", 10)
    kernel = compiled.Kernel(lambda values: len(values))
    with compiled.one_task():
        kernel(6.0, np.arange(2))
        other = threading.Thread(target=kernel, args=(6.0, np.arange(2)))
        other.start()
        other.join()
    assert not loaded


def test_once_the_compiler_is_there_less_work_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(compiled, "compiler", lambda: asked.append(1))
    kernel = compiled.Kernel(lambda values: len(values))
    for loaded in (False, True):
        if loaded:
            monkeypatch.setitem(sys.modules, "numba", compiled)
        else:
            monkeypatch.delitem(sys.modules, "numba", raising=False)
        kernel(compiled.LOADED_WORK + 1.0, np.arange(2))
        assert len(asked) == int(loaded)


def test_a_folder_that_cannot_be_written_costs_only_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    numba = pytest.importorskip("numba")
    asked: list[dict[str, Any]] = []

    class Refusing:
        @staticmethod
        def njit(**options: Any) -> Any:
            asked.append(options)
            if options.get("cache"):
                raise RuntimeError("cannot cache function: no locator available for file")
            return numba.njit(**options)

    monkeypatch.setattr(compiled, "compiler", lambda: Refusing)
    monkeypatch.setattr(compiled, "SMALL_WORK", 0)

    def double(values: Any) -> int:
        for i in range(len(values)):
            values[i] *= 2
        return len(values)

    values = np.arange(3)
    assert compiled.Kernel(double)(1.0, values) == 3
    assert values.tolist() == [0, 2, 4]
    assert [options.get("cache", False) for options in asked] == [True, False]
