"""Advantages and returns against numbers worked out by hand and sums written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.learning.advantages import (
    discounted_sums,
    explained_variance,
    generalised_advantages,
    normalised,
    temporal_differences,
)

REWARDS = jnp.float32([1, 0, 2])
VALUES = jnp.float32([0.5, 0.4, 0.3])
AFTER = jnp.float32([0.4, 0.3, 0.2])


@jax.jit
def advantages(terminated: jax.Array, over: jax.Array) -> tuple[jax.Array, jax.Array]:
    delta = temporal_differences(REWARDS, VALUES, AFTER, terminated, 0.9)
    return delta, generalised_advantages(delta, over, 0.9, 0.8)


def test_advantages_by_hand() -> None:
    nothing = jnp.zeros(3, bool)
    delta, found = advantages(nothing, nothing)
    np.testing.assert_allclose(delta, [0.86, -0.13, 1.88], atol=1e-6)
    np.testing.assert_allclose(found, [1.74099, 1.2236, 1.88], atol=1e-5)


def test_a_true_end_is_worth_nothing_more() -> None:
    end = jnp.array([False, False, True])
    np.testing.assert_allclose(advantages(end, end)[1], [1.64768, 1.094, 1.7], atol=1e-5)


def test_an_episode_that_was_cut_off_keeps_its_value_and_hands_nothing_back() -> None:
    cut = jnp.array([False, True, False])
    delta, found = advantages(jnp.zeros(3, bool), cut)
    np.testing.assert_allclose(delta, [0.86, -0.13, 1.88], atol=1e-6)
    np.testing.assert_allclose(found, [0.86 - 0.72 * 0.13, -0.13, 1.88], atol=1e-5)


@pytest.mark.parametrize("factor", [0.0, 0.9, 1.0])
def test_sums_against_double_loops(factor: float) -> None:
    rng = np.random.default_rng(0)
    terms, over = rng.normal(size=(37, 3)), rng.random((37, 3)) < 0.15
    expected = np.zeros_like(terms)
    for t in range(37):
        for w in range(3):
            k, weight = t, 1.0
            while k < 37:
                expected[t, w] += weight * terms[k, w]
                if over[k, w]:
                    break
                k, weight = k + 1, weight * factor
    found = jax.jit(discounted_sums)(jnp.float32(terms), jnp.asarray(over), factor)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_without_decay_advantages_are_returns_less_values() -> None:
    rng = np.random.default_rng(1)
    rewards, values = jnp.float32(rng.normal(size=(2, 20)))
    after = jnp.append(values[1:], jnp.float32(0.7))
    nothing = jnp.zeros(20, bool)
    delta = temporal_differences(rewards, values, after, nothing, 0.95)
    rewards_and_rest = jnp.append(rewards[:-1], rewards[-1] + jnp.float32(0.95 * 0.7))
    found = generalised_advantages(delta, nothing, 0.95, 1.0)
    np.testing.assert_allclose(
        found + values, discounted_sums(rewards_and_rest, nothing, 0.95), rtol=1e-4, atol=1e-5
    )


def test_explained_variance_and_normal_form() -> None:
    x = jnp.float32([1, 2, 3, 4])
    assert float(explained_variance(x, x)) == 1
    assert float(explained_variance(jnp.zeros(4), x)) == 0
    assert float(explained_variance(-x, x)) == pytest.approx(-3)
    assert np.isnan(explained_variance(x, jnp.ones(4)))
    padded = [jnp.append(part, jnp.zeros(4)) for part in (105 - x, 100 + x)]
    among = jnp.arange(8) < 4
    alone = explained_variance(padded[0][:4], padded[1][:4])
    assert float(explained_variance(*padded, among)) == pytest.approx(float(alone))
    assert float(alone) < 0 < float(explained_variance(*padded))  # zeros beyond an end explain themselves
    found = np.asarray(normalised(x))
    assert found.mean() == pytest.approx(0, abs=1e-6)
    assert found.std() == pytest.approx(1, abs=1e-5)
