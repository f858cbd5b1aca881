"""Compiled or not, colours are the same, and compiling is for where it pays."""

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from chainrule.derive.sparse import ORDERS, color
from chainrule.derive.sparse.coloring import compiled
from tests.derive.sparse.coloring.graphs import arrow, band_with_hubs, brusselator


def both_ways(monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> tuple[Any, Any]:
    """The colouring by machine code, and by plain Python."""
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "SMALL_WORK", 0)
        fast = color(*arguments)
        patch.setattr(compiled.CompiledLoop, "_pays", lambda *_: False)
        return fast, color(*arguments)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was translated; translating is all that is done with it."""
    translated: list[str] = []

    class Nothing:
        def __init__(self, plain: Any, _: Any) -> None:
            translated.append(plain.__name__)

        def __call__(self, _: Any) -> int:
            return 0

    monkeypatch.setattr(compiled, "_Compiled", Nothing)
    return translated


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


def test_a_small_graph_does_not_load_the_compiler() -> None:
    code = (
        "import sys, scipy.sparse as s; from chainrule.derive.sparse import color; "
        "assert color(s.eye_array(50)).num_colors == 1; assert 'llvmlite.binding' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def counted() -> compiled.CompiledLoop:
    def count(values: Any) -> int:
        return len(values)

    return compiled.CompiledLoop(count)


def test_work_adds_up_within_a_task_and_not_over_the_process(
    monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    monkeypatch.setattr(compiled, "SMALL_WORK", 10)
    kernel = counted()
    for _ in range(5):
        kernel(6.0, np.arange(2))
    assert not asked
    with compiled.one_task():
        kernel(6.0, np.arange(2))
        assert not asked
        with compiled.one_task():
            kernel(6.0, np.arange(2))
    assert asked == ["count"]


def test_what_is_compiled_stays_so_for_arguments_of_the_same_kinds(
    monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    monkeypatch.setattr(compiled, "SMALL_WORK", 10)
    kernel = counted()
    kernel(11.0, np.arange(2))
    kernel(1.0, np.arange(3))
    assert asked == ["count"]
    kernel(1.0, np.arange(3, dtype=np.int32))
    assert asked == ["count", "count"]


def test_tasks_in_two_threads_do_not_see_each_other(
    monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    monkeypatch.setattr(compiled, "SMALL_WORK", 10)
    kernel = counted()
    with compiled.one_task():
        kernel(6.0, np.arange(2))
        other = threading.Thread(target=kernel, args=(6.0, np.arange(2)))
        other.start()
        other.join()
    assert not asked


def test_once_the_compiler_is_there_less_work_is_worth_it(
    monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    for loaded in (False, True):
        if loaded:
            monkeypatch.setitem(sys.modules, "llvmlite.binding", compiled)
        else:
            monkeypatch.delitem(sys.modules, "llvmlite.binding", raising=False)
        counted()(compiled.LOADED_WORK + 1.0, np.arange(2))
        assert len(asked) == int(loaded)


@pytest.mark.parametrize(
    "values",
    [np.arange(6)[::2], np.arange(3, dtype=np.int16), np.arange(3, dtype=np.int32)],
    ids=["with gaps", "short", "int32"],
)
def test_arrays_of_any_layout_are_changed_in_place(
    values: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "SMALL_WORK", 0)

    def double(values: Any) -> int:
        for i in range(len(values)):
            values[i] *= 2
        return len(values)

    expected = (2 * values).tolist()
    assert compiled.CompiledLoop(double)(1.0, values) == 3
    assert values.tolist() == expected
