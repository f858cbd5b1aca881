"""Checks of data for machines on kernels: what is refused, and what is warned of."""

import warnings

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, ChainruleWarning, DataError
from chainrule.kernels.data_checks import (
    checked_cross_gram,
    checked_points,
    checked_targets,
    refuse_contradictions,
    warn_of_columns,
)

RNG = np.random.default_rng(0)


def test_the_first_number_that_is_not_finite_is_named_and_the_others_are_counted() -> None:
    x = np.zeros((5, 3))
    x[3, 1], x[4, 2] = np.inf, np.nan
    with pytest.raises(DataError, match=r"fit\(x\): row 3, column 1 is inf \(and 1 more\)"):
        checked_points("fit", "x", x)
    with pytest.raises(DataError, match=r"fit\(y\): row 2 is nan;"):
        checked_targets("fit", "y", [0.0, 1.0, np.nan], 3)


def test_shapes_that_were_turned_around_are_seen() -> None:
    with pytest.raises(ArgumentError, match=r"expected \(n_test, 412\), got \(412, 5\): transpose it"):
        checked_cross_gram("predict", "K", np.zeros((412, 5)), 412)
    with pytest.raises(ArgumentError, match=r"expected \(n_test, 412\), got \(3, 5\)$"):
        checked_cross_gram("predict", "K", np.zeros((3, 5)), 412)
    with pytest.raises(ArgumentError, match=r"transpose it: y\.T"):
        checked_targets("fit", "y", np.zeros((2, 9)), 9)
    assert checked_cross_gram("predict", "K", np.zeros((5, 412)), 412).shape == (5, 412)


def test_numbers_of_any_type_become_double_precision() -> None:
    assert checked_points("fit", "x", np.arange(3, dtype=np.int8)).dtype == np.float64
    assert checked_points("fit", "x", [[True], [False]]).shape == (2, 1)


def test_equal_points_with_equal_targets_are_no_contradiction() -> None:
    x = RNG.normal(size=(6, 2))[[0, 1, 2, 0, 1, 5]]
    refuse_contradictions("fit", x, np.array([1.0, 2.0, 3.0, 1.0, 2.0, 4.0]))
    with pytest.raises(DataError, match=r"rows 1 and 4 are the same point with targets 2 and 2\.5"):
        refuse_contradictions("fit", x, np.array([1.0, 2.0, 3.0, 1.0, 2.5, 4.0]))
    with pytest.raises(DataError, match="rows 0 and 3"):
        refuse_contradictions("fit", x, np.stack([np.zeros(6), np.arange(6.0)], axis=1))


def test_columns_are_called_by_their_names_in_warnings() -> None:
    x = np.stack([RNG.normal(size=9), np.full(9, 2.0), 5000 * RNG.normal(size=9)], axis=1)
    with pytest.warns(ChainruleWarning, match="column 'b' never changes"):
        warn_of_columns("gp", x, scales=3, columns=["a", "b", "c"])
    with pytest.warns(ChainruleWarning, match=r"column 'c' ranges over .* and column 'a' over"):
        warn_of_columns("gp", x, columns=["a", "b", "c"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_columns("gp", (x / x.std(axis=0).clip(1e-3)[None])[:, [0, 2]])
        warn_of_columns("gp", x[:, [0, 2]], scales=2)  # units do not matter to scales of their own
