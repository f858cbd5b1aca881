"""Enlarged states keep every path and its probability."""

import itertools

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability import markov
from tests.probability.markov.chains import random_chain


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_chain_on_tuples_has_the_same_path_probabilities(order) -> None:
    table = np.random.default_rng(order).dirichlet(np.ones(2), size=(2,) * order)
    lifted = markov.lift(table)
    assert len(lifted.states) == 2**order
    start = np.random.default_rng(9).dirichlet(np.ones(2**order))
    total = 0.0
    for path in itertools.product(range(2), repeat=order + 3):
        expected = start[lifted.states.index(path[:order])]
        for t in range(order, len(path)):
            expected *= table[path[t - order : t]][path[t]]
        found = np.exp(markov.log_prob(lifted.lifted(path), start, lifted.transition))
        assert found == pytest.approx(expected, abs=1e-15)
        total += found
    assert total == pytest.approx(1, abs=1e-14)


def test_longer_tuples_than_needed_change_nothing() -> None:
    chain = random_chain(0, 3)
    lifted = markov.lift(chain, order=2)
    start = np.zeros(9)
    start[lifted.states.index((0, 1))] = 1
    found = markov.distributions(start, lifted.transition, 3)[-1]
    np.testing.assert_allclose(
        np.bincount(lifted.symbols(range(9)), found), markov.distributions(1, chain, 3)[-1], rtol=1e-13
    )


def test_a_process_that_remembers_everything_is_a_chain_on_histories() -> None:
    def polya(history: tuple[int, ...]) -> list[float]:
        ones = (1 + sum(history)) / (2 + len(history))
        return [1 - ones, ones]

    lifted = markov.lift(polya, symbols=2, steps=4)
    assert len(lifted.states) == 31
    for path in itertools.product(range(2), repeat=4):
        expected = np.prod([polya(path[:t])[path[t]] for t in range(4)])
        found = np.exp(markov.log_prob(lifted.lifted(path), 0, lifted.transition))
        assert found == pytest.approx(expected, abs=1e-15)
    last = markov.distributions(0, lifted.transition, 4)[-1]
    ones = np.array([sum(state) if len(state) == 4 else -1 for state in lifted.states])
    np.testing.assert_allclose([last[ones == k].sum() for k in range(5)], 0.2)  # of an urn: every count alike


def test_a_function_of_the_last_symbols_is_tabulated() -> None:
    table = np.random.default_rng(0).dirichlet(np.ones(2), size=(2, 2))
    found = markov.lift(lambda last: table[last], order=2, symbols=2)
    np.testing.assert_array_equal(found.transition, markov.lift(table).transition)
    assert found.symbols([0, 1, 2, 3]).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: markov.lift(np.ones((2, 3)) / 3), "one length each"),
        (lambda: markov.lift(np.eye(2) / 2), "sum to 0.5"),
        (lambda: markov.lift(np.ones((2, 2, 2)) / 2, order=1), "at least 2"),
        (lambda: markov.lift(np.eye(2), steps=3), "histories need a function"),
        (lambda: markov.lift(lambda h: [1.0]), "number of symbols"),
        (lambda: markov.lift(lambda h: [1.0], symbols=2, order=1), r"gives shape \(1,\)"),
        (lambda: markov.lift(lambda h: [1.0, 1.0], symbols=2, steps=1), r"after \(\)"),
        (lambda: markov.lift(np.eye(10), order=9), "lifted states"),
        (lambda: markov.lift(np.eye(2)).lifted([0, 5]), r"no state \(5,\)"),
    ],
)
def test_bad_input_is_named(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
