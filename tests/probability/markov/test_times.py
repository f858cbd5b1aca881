"""Absorption, hitting and mixing, against first-step equations, closed forms and simulation."""

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability import markov
from tests.probability.markov.chains import TWO_ENDS, random_chain


def gambler(p: float, goal: int) -> np.ndarray:
    chain = np.eye(goal + 1)
    for k in range(1, goal):
        chain[k] = 0
        chain[k, k + 1], chain[k, k - 1] = p, 1 - p
    return chain


def test_the_gambler_is_ruined_as_the_closed_form_says() -> None:
    p, goal = 0.45, 10
    found = markov.absorption(gambler(p, goal))
    k, ratio = np.arange(1, goal), (1 - p) / p
    wins = (1 - ratio**k) / (1 - ratio**goal)
    assert found.closed == ((0,), (goal,))
    np.testing.assert_allclose(found.probabilities[:, 1], wins, rtol=1e-12)
    np.testing.assert_allclose(found.steps, (k - goal * wins) / (1 - 2 * p), rtol=1e-10)
    hit = markov.hitting(gambler(p, goal), [goal])
    np.testing.assert_allclose(hit.probabilities[1:goal], wins, rtol=1e-12)
    assert np.isinf(hit.steps[:goal]).all()


def test_hitting_times_satisfy_the_first_step_equations() -> None:
    chain = random_chain(0, 5)
    found = markov.hitting(chain, [2, 4])
    assert found.steps[[2, 4]].tolist() == [0, 0]
    others = [0, 1, 3]
    np.testing.assert_allclose(found.steps[others], 1 + chain[others] @ found.steps, rtol=1e-12)
    np.testing.assert_array_equal(found.probabilities, 1.0)


def test_a_class_that_is_never_left_is_left_with_probability_zero() -> None:
    found = markov.hitting(TWO_ENDS, [3])
    np.testing.assert_allclose(found.probabilities, [0, 0, 0.625, 1, 1])
    np.testing.assert_allclose(found.steps, [np.inf, np.inf, np.inf, 0, 1])


def test_a_chain_without_transient_states_is_absorbed_already() -> None:
    found = markov.absorption(random_chain(1, 3))
    assert found.transient == ()
    assert found.steps.shape == (0,)


def test_the_mixing_curve_falls_with_the_second_eigenvalue_and_a_period_keeps_it_up() -> None:
    curve = markov.mixing(0, [[0.9, 0.1], [0.3, 0.7]], 10)
    np.testing.assert_allclose(curve, 0.25 * 0.6 ** np.arange(11), rtol=1e-10)
    assert markov.mixing(0, np.array([[0.0, 1.0], [1.0, 0.0]]), 4).tolist() == [0.5] * 5
    assert markov.mixing(3, TWO_ENDS, 2, class_=1).tolist() == [0.5] * 3


def test_targets_are_checked() -> None:
    with pytest.raises(ArgumentError, match="numbered 0 to 4"):
        markov.hitting(TWO_ENDS, 9)
    with pytest.raises(ArgumentError, match="names no state"):
        markov.hitting(TWO_ENDS, [])
