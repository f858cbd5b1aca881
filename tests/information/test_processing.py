"""Data processing: information of tables never rises along a chain."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule import information as I
from chainrule.core.errors import ArgumentError


@given(st.integers(0, 10_000))
def test_information_never_rises_along_a_chain(seed: int) -> None:
    draws = np.random.default_rng(seed)
    joint = draws.dirichlet(np.full(15, 0.3)).reshape(5, 3)
    found = I.data_processing(joint, [draws.dirichlet(np.full(4, 0.2), 5), draws.integers(3, size=4)])
    assert found.holds
    assert found.about_input[0] == pytest.approx(I.entropy(joint.sum(axis=1)))
    assert found.about_answer[0] == pytest.approx(I.mutual_information(joint))
    assert (np.diff(found.about_answer) <= 1e-12).all()


def test_a_stage_that_forgets_nothing_loses_nothing() -> None:
    joint = np.diag([0.5, 0.25, 0.25])
    found = I.data_processing(joint, [[2, 0, 1]], unit="nats")
    np.testing.assert_allclose(found.about_answer, [I.entropy([0.5, 0.25, 0.25], unit="nats")] * 2)


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ([0, 1], "whole number of at least 0 for each of 3"),
        ([[1.0]], "has 1 rows"),
        ([[0.5]] * 3, "sums to 0.5"),
    ],
)
def test_stages_that_do_not_fit_are_named(stage, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        I.data_processing(np.eye(3) / 3, [stage])
