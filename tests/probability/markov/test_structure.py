"""Classes, periods and stationary distributions of small chains, against their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability import markov
from tests.probability.markov.chains import HIDDEN, TWO_ENDS, random_chain


def test_the_stationary_distribution_is_a_left_eigenvector_and_exact() -> None:
    np.testing.assert_allclose(markov.stationary(HIDDEN), np.array([6, 5, 4, 5, 4]) / 24, rtol=1e-15)
    chain = random_chain(0, 30)
    found = markov.stationary(chain)
    np.testing.assert_allclose(found @ chain, found, rtol=1e-13)
    assert not np.allclose(chain @ found, found)


def test_tiny_stationary_probabilities_keep_all_their_digits() -> None:
    eps = 1e-12
    chain = np.array([[1 - eps**2, eps**2], [eps, 1 - eps]])
    np.testing.assert_allclose(markov.stationary(chain)[1], eps / (1 + eps), rtol=1e-3)
    small = np.array([[1 - 1e-9, 1e-9, 0], [0.5, 0, 0.5], [0, 1 - 1e-9, 1e-9]])
    expected = np.array([0.5, 1e-9, 0.5e-9 / (1 - 1e-9)])
    np.testing.assert_allclose(markov.stationary(small), expected / expected.sum(), rtol=1e-14)


def test_several_closed_classes_have_a_basis_and_the_error_names_them() -> None:
    with pytest.raises(markov.NotUniqueError, match=r"2 closed classes") as caught:
        markov.stationary(TWO_ENDS)
    assert "class_=0: states {0, 1}; class_=1: states {3, 4}" in str(caught.value)
    np.testing.assert_allclose(caught.value.basis, [[1 / 3, 2 / 3, 0, 0, 0], [0, 0, 0, 0.5, 0.5]])
    np.testing.assert_allclose(markov.stationary(TWO_ENDS, class_=1), [0, 0, 0, 0.5, 0.5])
    np.testing.assert_allclose(markov.stationary_basis(TWO_ENDS), caught.value.basis)
    with pytest.raises(ArgumentError, match="numbered from 0"):
        markov.stationary(TWO_ENDS, class_=2)


def test_a_single_closed_class_is_found_among_transient_states() -> None:
    chain = np.array([[0.5, 0.5, 0], [0, 0, 1], [0, 1, 0]])
    np.testing.assert_allclose(markov.stationary(chain), [0, 0.5, 0.5])


def test_classes_and_periods() -> None:
    found = [(one.states, one.is_closed, one.period) for one in markov.classes(TWO_ENDS)]
    assert found == [((0, 1), True, 1), ((2,), False, 1), ((3, 4), True, 2)]
    assert markov.period(np.roll(np.eye(6), 1, axis=1)) == 6
    assert markov.period(HIDDEN) == 1
    assert markov.classes([[0, 1], [0, 1]])[0].period == 0
    with pytest.raises(ArgumentError, match="3 communicating classes"):
        markov.period(TWO_ENDS)


def test_the_derivative_of_the_stationary_distribution_matches_differences() -> None:
    chain = random_chain(1, 3)
    shift = np.array([[0.1, -0.1, 0], [0, 0.2, -0.2], [0.1, 0.1, -0.2]])
    with jax.enable_x64(True):
        slope = jax.jit(jax.jacfwd(lambda t: markov.stationary(jnp.asarray(chain) + t * shift)))(0.0)
        many = jax.vmap(markov.stationary)(jnp.stack([jnp.asarray(random_chain(k, 3)) for k in range(3)]))
    differences = (markov.stationary(chain + 1e-6 * shift) - markov.stationary(chain - 1e-6 * shift)) / 2e-6
    np.testing.assert_allclose(slope, differences, atol=1e-8)
    np.testing.assert_allclose(many, [markov.stationary(random_chain(k, 3)) for k in range(3)], rtol=1e-12)


def test_walks_on_a_line_are_reversible_and_a_drift_around_a_circle_is_not() -> None:
    line = np.array([[0.5, 0.5, 0], [0.3, 0.3, 0.4], [0, 0.9, 0.1]])
    assert markov.is_reversible(line)
    assert markov.is_reversible(line).witness is None
    circle = 0.8 * np.roll(np.eye(4), 1, axis=1) + 0.2 * np.roll(np.eye(4), -1, axis=1)
    found = markov.is_reversible(circle)
    assert not found.value
    i, j = found.witness
    pi = markov.stationary(circle)
    assert found.flows == pytest.approx((pi[i] * circle[i, j], pi[j] * circle[j, i]))
    assert found.flows[0] > found.flows[1]
