"""Measures and capacities beside dit, an independent implementation."""

import itertools
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

from chainrule import information as I


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.full(24, 0.4)).reshape(2, 3, 4)


def test_measures_of_tables_are_those_of_dit(table, oracle: Callable[[str], ModuleType]) -> None:
    dit = oracle("dit")
    outcomes = ["".join(map(str, index)) for index in itertools.product(range(2), range(3), range(4))]
    distribution = dit.Distribution(outcomes, table.ravel())
    assert I.entropy(table) == pytest.approx(dit.shannon.entropy(distribution))
    assert I.conditional_entropy(table, (0, 1), 2) == pytest.approx(
        dit.shannon.conditional_entropy(distribution, [0, 1], [2])
    )
    assert I.mutual_information(table, 0, (1, 2)) == pytest.approx(
        dit.shannon.mutual_information(distribution, [0], [1, 2])
    )
    assert I.mutual_information(table, 0, 1, given=2) == pytest.approx(
        dit.multivariate.coinformation(distribution, [[0], [1]], [2])
    )
    assert I.interaction_information(table) == pytest.approx(
        dit.multivariate.interaction_information(distribution, [[0], [1], [2]])
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_capacities_are_those_of_dit(seed, oracle: Callable[[str], ModuleType]) -> None:
    oracle("dit")
    from dit.algorithms import channel_capacity

    channel = np.random.default_rng(seed).dirichlet(np.full(4, 0.5), 5)
    found = I.capacity(channel)
    theirs, _ = channel_capacity(channel, rtol=1e-12, atol=1e-12)
    assert found.value == pytest.approx(theirs, abs=1e-5)
