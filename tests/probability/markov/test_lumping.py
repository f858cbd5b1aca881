"""Functions of chains: the known example, brute force over histories, and chains lumpable from some starts only."""

import itertools

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability import markov
from tests.probability.markov.chains import HIDDEN, random_chain

CLASSES = [[0, 1, 2], [3, 4]]


def test_a_hidden_chain_remembers_more_than_its_last_symbol() -> None:
    seen = lambda *history: markov.next_symbol(HIDDEN, CLASSES, history)[0]  # noqa: E731
    assert seen(0, 0) == pytest.approx(19 / 24, abs=1e-15)
    assert seen(1, 0) == pytest.approx(5 / 6, abs=1e-15)
    assert seen(1, 1) == pytest.approx(1 / 2, abs=1e-15)
    assert seen(0, 1) == 0


def test_it_is_not_lumpable_and_the_witness_can_be_checked() -> None:
    found = markov.is_lumpable(HIDDEN, CLASSES)
    assert not found.value
    assert found.transition is None
    witness = found.witness
    first, second = witness.histories
    assert len(first) == len(second) == 2
    assert first[-1] == second[-1]
    for history, p in zip(witness.histories, witness.probabilities, strict=True):
        assert markov.next_symbol(HIDDEN, CLASSES, history)[witness.next] == pytest.approx(p, abs=1e-15)
    assert abs(witness.probabilities[0] - witness.probabilities[1]) == pytest.approx(0.5)


@pytest.mark.parametrize("seed", range(4))
def test_the_witness_agrees_with_a_sum_over_all_paths(seed) -> None:
    chain, labels = random_chain(seed, 4), np.array([0, 0, 1, 1])
    witness = markov.is_lumpable(chain, labels).witness
    for history, p in zip(witness.histories, witness.probabilities, strict=True):
        mass = np.zeros(2)
        for path in itertools.product(range(4), repeat=len(history) + 1):
            if [labels[state] for state in path[:-1]] == list(history):
                mass[labels[path[-1]]] += np.exp(markov.log_prob(path, witness.starts[0], chain))
        assert mass[witness.next] / mass.sum() == pytest.approx(p, abs=1e-13)


def test_a_lumpable_chain_has_the_distributions_of_its_lumped_one() -> None:
    chain = np.array([[0.5, 0.2, 0.3], [0.1, 0.4, 0.5], [0.1, 0.6, 0.3]])
    found = markov.is_lumpable(chain, ["rain", "sun", "sun"])
    assert found
    assert found.symbols == ("rain", "sun")
    full = markov.distributions([0.2, 0.5, 0.3], chain, 4)
    lumped = markov.distributions([0.2, 0.8], found.transition, 4)
    np.testing.assert_allclose(np.stack([full[:, 0], full[:, 1:].sum(axis=1)], axis=1), lumped, rtol=1e-14)


def test_single_precision_does_not_make_a_chain_unlumpable() -> None:
    thirds = np.array([[1 / 3, 1 / 3, 1 / 3], [1 / 3, 2 / 3, 0], [1 / 3, 1 / 6, 1 / 2]], np.float32)
    assert markov.is_lumpable(thirds, [0, 1, 1])


def test_a_start_from_which_nothing_can_be_told_apart_has_other_starts_as_witness() -> None:
    swapped = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    found = markov.is_lumpable(swapped, [0, 0, 1], start=[0.0, 0.0, 1.0])
    assert not found
    assert found.witness.starts[0].tolist() != found.witness.starts[1].tolist()
    for history, start, p in zip(
        found.witness.histories, found.witness.starts, found.witness.probabilities, strict=True
    ):
        assert markov.next_symbol(swapped, [0, 0, 1], history, start)[found.witness.next] == p


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([[0, 1], [1, 2, 3, 4]], "in one class, and in one only"),
        ([0, 1], "2 labels for 5 states"),
    ],
)
def test_classes_that_are_no_partition_are_named(classes, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        markov.is_lumpable(HIDDEN, classes)


def test_a_function_of_the_state_names_the_classes() -> None:
    assert markov.is_lumpable(HIDDEN, lambda state: state > 2).symbols == (False, True)


def test_a_history_that_cannot_happen_raises() -> None:
    with pytest.raises(ArgumentError, match="the first 3 symbols have probability 0"):
        markov.next_symbol(HIDDEN, range(5), (0, 2, 0))
    with pytest.raises(ArgumentError, match="is no class"):
        markov.next_symbol(HIDDEN, CLASSES, (7,))
