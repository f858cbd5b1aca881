"""The sets underneath: tables, lazy layers, bits, against plain Python sets."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from chainrule.derive.sparse.detection import reach, tables
from chainrule.derive.sparse.detection.reach import Layer, Reach
from chainrule.derive.sparse.detection.tables import InputSets

_WIDTH = 9


def _sets(table: InputSets) -> list[set[int]]:
    rows = [table.indices[a:b].tolist() for a, b in zip(table.indptr[:-1], table.indptr[1:], strict=True)]
    assert all(row == sorted(set(row)) for row in rows)
    return [set(row) for row in rows]


def _table(sets: list[set[int]]) -> InputSets:
    rows = np.array([number for number, one in enumerate(sets) for _ in one], dtype=np.int64)
    columns = np.array([entry for one in sets for entry in one], dtype=np.int32)
    return tables.from_pairs(rows, columns, len(sets), _WIDTH)


@st.composite
def _rows(draw: st.DrawFn, height: int | None = None) -> list[set[int]]:
    count = height or draw(st.integers(1, 6))
    return draw(st.lists(st.sets(st.integers(0, _WIDTH - 1)), min_size=count, max_size=count))


@st.composite
def _layers(draw: st.DrawFn, size: int = 6) -> list[tuple[list[set[int]] | None, list[int]]]:
    """One to three layers: a table as sets, or none for the identity, and the row of every element."""
    made = []
    for _ in range(draw(st.integers(1, 3))):
        sets = draw(st.none() | _rows())
        top = _WIDTH if sets is None else len(sets)
        made.append((sets, draw(st.lists(st.integers(-1, top - 1), min_size=size, max_size=size))))
    return made


def _reach(layers: list[tuple[list[set[int]] | None, list[int]]], shape: tuple[int, ...]) -> Reach:
    return Reach(
        _WIDTH,
        shape,
        [
            Layer(np.array(rows, dtype=np.int32).reshape(shape), None if sets is None else _table(sets))
            for sets, rows in layers
        ],
    )


def _truth(layers: list[tuple[list[set[int]] | None, list[int]]], shape: tuple[int, ...]) -> np.ndarray:
    array = np.empty(len(layers[0][1]), dtype=object)
    array[:] = [set() for _ in layers[0][1]]
    for sets, rows in layers:
        for element, row in enumerate(rows):
            if row >= 0:
                array[element] = array[element] | ({row} if sets is None else sets[row])
    return array.reshape(shape)


def _read(found: Reach | None, size: int) -> list[set[int]]:
    return [set() for _ in range(size)] if found is None else _sets(found.table())


@pytest.mark.parametrize("count", range(1, 20))
def test_padded_rows_become_sorted_sets(count: int) -> None:
    columns = np.random.default_rng(count).integers(-1, _WIDTH, (count, 30)).astype(np.int32)
    found = _sets(tables.from_padded(columns, _WIDTH))
    assert found == [set(column.tolist()) - {-1} for column in columns.T]


@hypothesis.given(_rows(), st.data())
def test_rows_are_taken_followed_and_united(sets: list[set[int]], data: st.DataObject) -> None:
    table = _table(sets)
    assert _sets(table) == sets
    chosen = np.array(data.draw(st.lists(st.integers(-1, len(sets) - 1), min_size=1)))
    assert _sets(table.take(chosen)) == [sets[row] if row >= 0 else set() for row in chosen]
    others = data.draw(_rows(height=_WIDTH))
    assert _sets(table.through(_table(others), _WIDTH)) == [
        set().union(*(others[e] for e in one)) for one in sets
    ]
    more = data.draw(_rows(height=len(sets)))
    assert _sets(tables.unite([table, _table(more)], _WIDTH)) == [
        a | b for a, b in zip(sets, more, strict=True)
    ]
    assert _sets(tables.from_bits(tables.to_bits(table, _WIDTH), _WIDTH)) == sets


def test_products_of_large_sparse_tables_agree_with_bits() -> None:
    draws = np.random.default_rng(0)
    width = 4000
    left = tables.from_pairs(draws.integers(0, 50, 200), draws.integers(0, width, 200), 50, width)
    right = tables.from_pairs(draws.integers(0, width, 900), draws.integers(0, width, 900), width, width)
    bits = tables.united_bits(left, tables.to_bits(right, width))
    assert _sets(left.through(right, width)) == _sets(tables.from_bits(bits, width))


@hypothesis.given(_layers(), _layers())
def test_reaches_are_united_element_by_element(one: list, other: list) -> None:
    shape = (2, 3)
    found = reach.union(shape, [_reach(one, shape), None, _reach(other, shape)])
    assert _read(found, 6) == list((_truth(one, shape) | _truth(other, shape)).reshape(-1))


@hypothesis.given(_layers(), st.sampled_from([(0,), (1,), (0, 1)]))
def test_reaches_are_united_along_axes(one: list, axes: tuple[int, ...]) -> None:
    truth = np.bitwise_or.reduce(_truth(one, (2, 3)), axis=axes)
    expected = [truth] if isinstance(truth, set) else list(truth)
    assert _read(_reach(one, (2, 3)).reduce(axes), len(expected)) == expected


@hypothesis.given(_layers(), st.data())
def test_elements_are_taken_sent_and_connected(one: list, data: st.DataObject) -> None:
    flat, mine = list(_truth(one, (6,))), _reach(one, (2, 3))
    positions = data.draw(st.lists(st.integers(-1, 5), min_size=1, max_size=12))
    taken = mine.take(np.array(positions))
    assert _read(taken, len(positions)) == [
        flat[position] if position >= 0 else set() for position in positions
    ]
    targets = data.draw(st.lists(st.integers(-1, 2), min_size=6, max_size=6))
    expected: list[set[int]] = [set(), set(), set()]
    for position, target in enumerate(targets):
        if target >= 0:
            expected[target] = expected[target] | flat[position]
    assert _read(mine.collect(np.array(targets), (3,)), 3) == expected


@hypothesis.given(_layers(size=4), st.data())
def test_what_inputs_depend_on_in_turn_is_followed(layers: list, data: st.DataObject) -> None:
    inner = _truth(layers, (4,))
    index = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=3, max_size=3)), dtype=np.int32)
    sets = data.draw(st.lists(st.sets(st.integers(0, 3)), min_size=3, max_size=3))
    pairs = [(row, entry) for row, one in enumerate(sets) for entry in one]
    rows, columns = (np.array([p[k] for p in pairs], dtype=np.int64) for k in (0, 1))
    table = tables.from_pairs(rows, columns, 3, 4)
    outer = Reach(4, (3,), [Layer(index, None), Layer(np.arange(3, dtype=np.int32), table)])
    truth = [
        (inner[position] if position >= 0 else set()).union(*(inner[entry] for entry in sets[number]))
        for number, position in enumerate(index)
    ]
    assert _read(outer.through(_reach(layers, (4,))), 3) == truth


def test_layers_that_agree_are_merged() -> None:
    line = reach.seed(8, (8,), 0)
    assert line is not None
    shifted = line.take(np.array([1, 2, 3, 4, 5, 6, 7, -1]))
    back = None if shifted is None else shifted.take(np.array([-1, 0, 1, 2, 3, 4, 5, 6]))
    found = reach.union((8,), [line, shifted, back, line])
    assert found is not None
    assert len(found.layers) == 2


def test_many_layers_become_one_table() -> None:
    line = reach.seed(40, (40,), 0)
    assert line is not None
    order = np.arange(40)
    found = reach.union((40,), [line.take((order + shift) % 40) for shift in range(20)])
    assert found is not None
    assert len(found.layers) == 1
    assert found.table().nnz == 800
