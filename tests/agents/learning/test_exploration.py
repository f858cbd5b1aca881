"""Exploration: probabilities to the digit, draws that follow them, schedules, and what is not legal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.learning import exploration

VALUES = jnp.array([[1.0, 3.0, 3.0, 0.0], [2.0, 1.0, 0.0, -1.0]])
LEGAL = jnp.array([[True, False, True, True], [False, False, True, True]])


def test_epsilon_greedy_splits_ties_and_spreads_epsilon_over_all() -> None:
    found = exploration.epsilon_greedy_probabilities(VALUES, 0.2)
    np.testing.assert_allclose(found, [[0.05, 0.45, 0.45, 0.05], [0.85, 0.05, 0.05, 0.05]], rtol=1e-6)
    legal = exploration.epsilon_greedy_probabilities(VALUES, 0.3, LEGAL)
    np.testing.assert_allclose(legal, [[0.1, 0, 0.8, 0.1], [0, 0, 0.85, 0.15]], rtol=1e-6)


def test_softmax_leaves_out_what_is_not_legal() -> None:
    found = np.asarray(exploration.softmax_probabilities(VALUES, 0.5, LEGAL))
    weights = np.exp(np.asarray(VALUES) / 0.5) * np.asarray(LEGAL)
    np.testing.assert_allclose(found, weights / weights.sum(-1, keepdims=True), rtol=1e-5)


def test_draws_follow_the_probabilities_and_never_the_impossible() -> None:
    wanted = jnp.array([0.0, 0.5, 0.0, 0.3, 0.2, 0.0])
    drawn = np.asarray(jax.jit(exploration.draw)(jax.random.key(0), jnp.tile(wanted, (20_000, 1))))
    share = np.bincount(drawn, minlength=6) / len(drawn)
    np.testing.assert_allclose(share, wanted, atol=0.02)
    assert share[0] == share[2] == share[5] == 0


@pytest.mark.parametrize("uniform", [0.0, np.nextafter(np.float32(1), np.float32(0))])
def test_the_ends_of_the_unit_interval_draw_something_possible(uniform) -> None:
    # A third in single precision does not add up to one.
    thirds = jnp.array([0.0, 1 / 3, 1 / 3, 1 / 3, 0.0])
    assert int(exploration.draw_by(jnp.asarray(uniform, jnp.float32), thirds)) in (1, 3)


def test_rates_may_be_traced() -> None:
    steps = jnp.arange(4)
    both = jax.jit(
        lambda end: (exploration.linear(steps, 1.0, end, 2), exploration.exponential(steps, 1.0, end, 2))
    )
    straight, bent = both(0.25)
    np.testing.assert_allclose(straight, [1, 0.625, 0.25, 0.25], rtol=1e-6)
    np.testing.assert_allclose(bent, [1, 0.5, 0.25, 0.25], rtol=1e-6)
