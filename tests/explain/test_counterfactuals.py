"""Counterfactuals are the smallest change of linear decisions, keep to what may change, and differ from each other."""

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.explain.methods.counterfactuals import columns_of, counterfactuals

DRAW = np.random.default_rng(0)
ROWS = DRAW.normal(size=(300, 4)) * np.array([1.0, 5.0, 1.0, 0.2])
WEIGHTS = np.array([1.0, -2.0, 0.5, 3.0])


def linear(x: np.ndarray) -> np.ndarray:
    return x @ WEIGHTS > 1.5


def test_the_cheapest_change_of_a_linear_decision_moves_one_column_by_the_margin() -> None:
    cost = np.array([1.0, 4.0, 1.0, 20.0])
    origin = np.array([0.2, 0.1, -0.3, 0.0])
    margin = 1.5 - origin @ WEIGHTS
    found = counterfactuals(linear, origin, ROWS, columns_of(ROWS, weights=cost), count=4)
    assert found[0].changed == (int((np.abs(WEIGHTS) / cost).argmax()),)
    np.testing.assert_allclose(found[0].cost, margin / (np.abs(WEIGHTS) / cost).max(), rtol=2e-4)
    assert all(linear(one.x[None])[0] for one in found)
    assert [one.cost for one in found] == sorted(one.cost for one in found)
    assert len({one.changed for one in found}) == len(found)


def test_columns_that_must_not_change_do_not() -> None:
    origin = np.zeros(4)
    found = counterfactuals(linear, origin, ROWS, columns_of(ROWS, fixed=[0, 1]), count=3)
    assert found
    assert all((one.x[[0, 1]] == 0).all() for one in found)


def test_whole_numbers_stay_whole_and_are_as_near_as_can_be() -> None:
    rows = np.column_stack([DRAW.integers(0, 20, 200), DRAW.normal(size=200)]).astype(float)
    ways = columns_of(rows, fixed=[1])
    (found,) = counterfactuals(lambda x: x[:, 0] > 7.3, np.array([2.0, 0.0]), rows, ways, count=3)
    assert found.x[0] == 8.0
    (down,) = counterfactuals(lambda x: x[:, 0] < 7.3, np.array([12.0, 0.0]), rows, ways, count=3)
    assert down.x[0] == 7.0


def test_marks_of_one_word_change_together() -> None:
    words = np.eye(3)[DRAW.integers(0, 3, 200)]
    rows = np.column_stack([DRAW.normal(size=200), words])
    ways = columns_of(rows, group=[0, 1, 1, 1], fixed=[0], weights=np.ones(4))
    found = counterfactuals(lambda x: x[:, 3] > 0.5, np.array([0.0, 1, 0, 0]), rows, ways)
    assert [one.x.tolist() for one in found] == [[0, 0, 0, 1]]
    assert found[0].cost == 1.0


def test_decisions_that_take_two_columns_are_found() -> None:
    """Both above 1: no single column is enough."""
    rows = DRAW.normal(size=(400, 3))
    ways = columns_of(rows, weights=np.ones(3))
    found = counterfactuals(lambda x: (x[:, 0] > 1) & (x[:, 1] > 1), np.zeros(3), rows, ways)
    assert found[0].changed == (0, 1)
    np.testing.assert_allclose(found[0].x, [1, 1, 0], atol=2e-4)


def test_what_cannot_be_is_said() -> None:
    ways = columns_of(ROWS, fixed=[0, 1, 2, 3])
    with pytest.raises(CapabilityError, match="free some of the columns"):
        counterfactuals(linear, np.zeros(4), ROWS, ways)
    with pytest.raises(ArgumentError, match="wanted one already"):
        counterfactuals(linear, np.array([10.0, 0, 0, 0]), ROWS, ways)
    with pytest.raises(ArgumentError, match="4 numbers above 0"):
        columns_of(ROWS, weights=[1.0])
    with pytest.raises(ArgumentError, match=r"counterfactuals\(x\): .* not finite"):
        counterfactuals(linear, np.full(4, np.nan), ROWS, ways)
