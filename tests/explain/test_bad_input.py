"""Rows, columns and names that do not fit each other are refused where they are given, by name and with a way out."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import explain
from chainrule.core.errors import ArgumentError

ROWS = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
CLASSES = (ROWS[:, 0] > 0).astype(np.int32)


def scores(x: Any) -> Any:
    return jnp.stack([x[:, 0], -x[:, 0]], axis=1)


def squares(w: Any, rows: Any) -> Any:
    return (rows[0] @ w - rows[1]) ** 2


def rules(**change: Any) -> Callable[[], object]:
    return lambda: explain.extract_rules(scores, ROWS, **{"classes": ["a", "b"], **change})


def searched(decides: Any, columns: Any) -> Callable[[], object]:
    return lambda: explain.counterfactuals(decides, ROWS[0], ROWS, columns)


def influences(train: Any, test: Any) -> Callable[[], object]:
    return lambda: explain.influence(squares, jnp.zeros(3), train, test)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (rules(y=CLASSES[:5]), r"extract_rules\(y\): 5 targets for 40 rows"),
        (rules(y=CLASSES + 5), "extract_rules: y holds"),
        (rules(y=np.array(["a"] * 40)), "give the number of its class"),
        (rules(names=["x"]), "1 names for 3 columns"),
        (lambda: explain.columns_of(ROWS, fixed=[7]), r"columns_of\(fixed\): there is no column 7"),
        (lambda: explain.columns_of(ROWS, whole_numbers=[-1]), "there is no column -1"),
        (lambda: explain.columns_of(ROWS, group=[0, 1]), r"group\): shape \(2,\)"),
        (lambda: explain.columns_of(ROWS * np.nan), "not finite"),
        (searched(scores, explain.columns_of(ROWS)), r"decides\): it gives an array of shape \(1, 2\)"),
        (searched(lambda x: x[:, 0] > 9, explain.columns_of(ROWS[:, :2])), "they are 2, the row has 3"),
        (
            lambda: explain.permutation_importance(lambda x: x[:, 0], ROWS, ROWS[:, 0], names=["age"]),
            "1 names for 3 features",
        ),
        (influences((ROWS, CLASSES[:3]), (ROWS[:2], CLASSES[:2])), r"\(train\): arrays of 40 and 3 rows"),
        (influences((ROWS, CLASSES), (ROWS[:2, :2], CLASSES[:2])), "rows of train have the shapes"),
        (lambda: explain.superpixels(np.zeros((8, 8)), 4), r"shape \(8, 8\); expected"),
        (lambda: explain.deletion_curves(scores, ROWS, ROWS * np.nan, output=0), "which have no order"),
    ],
)
def test_what_does_not_fit_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
