"""Finite chains over time, against matrix powers and brute force."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability import markov
from tests.probability.markov.chains import HIDDEN, random_chain


def test_distributions_are_powers_of_the_matrix_in_double_precision() -> None:
    chain, start = random_chain(0, 4), np.array([0.1, 0.2, 0.3, 0.4])
    found = markov.distributions(start, chain, 5)
    assert found.dtype == np.float64
    expected = [start @ np.linalg.matrix_power(chain, n) for n in range(6)]
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_transitions_that_change_with_time_are_taken_one_after_the_other() -> None:
    chains = np.stack([random_chain(seed, 3) for seed in range(4)])
    found = markov.distributions(0, chains)
    assert found.shape == (5, 3)
    np.testing.assert_allclose(
        found[4], np.eye(3)[0] @ chains[0] @ chains[1] @ chains[2] @ chains[3], rtol=1e-14
    )
    np.testing.assert_allclose(markov.distributions(0, chains, 2), found[:3], rtol=1e-14)


def test_derivatives_of_a_distribution_flow_through_compiled_code() -> None:
    chain = jnp.asarray(random_chain(1, 3), jnp.float32)

    @jax.jit
    @jax.grad
    def slope(p):
        moved = chain.at[0].set(jnp.array([0.0, 0.0, 1.0]) + p * jnp.array([1.0, 0.0, -1.0]))
        return markov.distributions(jnp.array([1.0, 0.0, 0.0]), moved, 4)[4, 1]

    def value(p: float) -> float:
        moved = np.array(chain, np.float64)
        moved[0] = [p, 0, 1 - p]
        return (np.eye(3)[0] @ np.linalg.matrix_power(moved, 4))[1]

    assert float(slope(0.3)) == pytest.approx((value(0.3 + 1e-5) - value(0.3 - 1e-5)) / 2e-5, rel=1e-3)


def test_paths_have_the_frequencies_of_the_chain() -> None:
    chain, start = random_chain(2, 3), np.array([0.2, 0.3, 0.5])
    paths = np.asarray(markov.sample(jax.random.key(0), start, chain, 3, shape=(20_000,)))
    assert paths.shape == (20_000, 4)
    expected = markov.distributions(start, chain, 3)
    seen = np.stack([np.bincount(paths[:, t], minlength=3) / len(paths) for t in range(4)])
    assert np.abs(seen - expected).max() < 4 * 0.5 / np.sqrt(len(paths))
    counts = markov.fit(paths, pseudo_count=0)
    np.testing.assert_allclose(counts.transition, chain, atol=0.02)
    np.testing.assert_allclose(counts.start, start, atol=0.02)


def test_a_path_of_a_changing_chain_follows_its_time() -> None:
    swap, stay = np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(2)
    path = markov.sample(jax.random.key(0), 0, np.stack([swap, stay, swap, stay]))
    assert path.tolist() == [0, 1, 1, 0, 0]


def test_log_probabilities_of_all_paths_sum_to_one_and_an_impossible_path_has_none() -> None:
    paths = np.array(list(itertools.product(range(5), repeat=4)))
    found = np.exp(markov.log_prob(paths, np.full(5, 0.2), HIDDEN))
    assert found.sum() == pytest.approx(1, abs=1e-14)
    assert found[paths.tolist().index([0, 0, 0, 0])] == 0


def test_the_reversed_chain_gives_every_path_its_former_probability() -> None:
    chains, start = np.stack([random_chain(seed, 3) for seed in (3, 4)]), np.array([0.5, 0.5, 0.0])
    back = markov.reverse(start, chains)
    last = markov.distributions(start, chains)[-1]
    assert back.possible.all()
    for path in itertools.product(range(3), repeat=3):
        forward = np.exp(markov.log_prob(path, start, chains))
        backward = last[path[2]] * back.transition[1, path[2], path[1]] * back.transition[0, path[1], path[0]]
        assert backward == pytest.approx(forward, abs=1e-15)


def test_a_state_without_mass_has_no_reversed_transition() -> None:
    back = markov.reverse(0, HIDDEN, 2)
    assert back.possible.tolist() == [[False, False, True, False, True], [False, True, False, True, False]]
    assert np.all(back.transition[~back.possible] == 0)


def test_paths_of_different_lengths_are_counted_together() -> None:
    found = markov.fit([[0, 1, 1], [1, 0], [0]], states=2)
    assert found.counts.tolist() == [[0, 1], [1, 1]]
    np.testing.assert_allclose(found.start, [2 / 3, 1 / 3])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: markov.distributions(0, HIDDEN.T, 2), "pass the transpose, transition.T"),
        (lambda: markov.distributions(0, [[0.5, 0.4], [0.5, 0.5]], 2), "row 0 sums to 0.9"),
        (lambda: markov.distributions(0, [[1.5, -0.5], [0.5, 0.5]], 2), "holds -0.5 at position 1"),
        (lambda: markov.distributions(0, np.ones((2, 3)), 2), "needs a square matrix"),
        (lambda: markov.distributions(0, [[1.0], [0.5, 0.5]], 2), "rows of equal length"),
        (lambda: markov.distributions(0, HIDDEN), "how many steps"),
        (lambda: markov.distributions(5, HIDDEN, 1), "numbered 0 to 4"),
        (lambda: markov.distributions([0.5, 0.5], HIDDEN, 1), r"shape \(2,\) for 5 states"),
        (lambda: markov.distributions([0.5, 0.4], np.eye(2), 1), "sums to 0.9"),
        (lambda: markov.distributions(0, np.stack([HIDDEN]), 3), "only 1 transition matrices"),
        (lambda: markov.log_prob([0, 7], 0, HIDDEN), "no state 7"),
        (lambda: markov.log_prob([0.5], 0, HIDDEN), "whole numbers"),
        (lambda: markov.fit([0, 1]), "no move out of state 1"),
        (lambda: markov.fit([0, 0], pseudo_count=-1), "at least 0"),
        (lambda: markov.fit([[0, 1], []]), "at least one state"),
    ],
)
def test_bad_input_is_named(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
