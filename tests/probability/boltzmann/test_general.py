"""Boltzmann machines against sums over all states in NumPy, Gibbs chains, and free energies of other distributions."""

import itertools
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability import boltzmann

NOISE = np.random.default_rng(0)
HALF = np.triu(NOISE.normal(size=(5, 5)), 1)
J, BIAS = HALF + HALF.T, NOISE.normal(size=5)
STATES = np.array(list(itertools.product((0.0, 1.0), repeat=5)))


def energies() -> np.ndarray:
    return np.array([-0.5 * x @ J @ x - BIAS @ x for x in STATES])


def shares() -> np.ndarray:
    weights = np.exp(-energies())
    return weights / weights.sum()


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def machine(_double_precision: None) -> boltzmann.BoltzmannMachine:
    return boltzmann.BoltzmannMachine(J, BIAS)


def test_probabilities_are_those_of_all_states(machine: boltzmann.BoltzmannMachine) -> None:
    np.testing.assert_array_equal(boltzmann.binary_states(5), STATES)
    assert float(machine.log_partition()) == pytest.approx(np.log(np.exp(-energies()).sum()), rel=1e-13)
    np.testing.assert_allclose(machine.log_prob(STATES), np.log(shares()), rtol=1e-12)


def test_moments_and_the_gradient_are_sums_over_states_and_the_derivative(
    machine: boltzmann.BoltzmannMachine,
) -> None:
    data = STATES[NOISE.integers(0, 32, 40)]
    expected = np.einsum("s,si,sj->ij", shares(), STATES, STATES)
    np.testing.assert_allclose(machine.moments().together, expected, rtol=1e-12)
    np.testing.assert_allclose(machine.moments().mean, np.diag(expected), rtol=1e-12)
    found = machine.log_likelihood_gradient(data)
    slope = eqx.filter_jit(eqx.filter_grad(lambda m: m.log_prob(data).mean()))(machine)
    # J_ij and J_ji are one number: its slope is the sum of both.
    both = (slope.couplings + slope.couplings.T) * (1 - np.eye(5))
    np.testing.assert_allclose(found.together, both, atol=1e-12)
    np.testing.assert_allclose(found.mean, slope.bias, atol=1e-12)


def test_chains_visit_states_as_often_as_they_are_likely(machine: boltzmann.BoltzmannMachine) -> None:
    found = machine.sample(jax.random.key(0), draws=1500)
    expected = shares() @ STATES
    assert (np.abs(found.mean - expected) < 5 * np.asarray(found.standard_error)).all()
    assert float(np.max(found.standard_error)) < 0.02


def test_the_free_energy_is_lowest_for_the_boltzmann_distribution_and_is_the_bound_in_other_units() -> None:
    beta = 1.7
    log_z = np.log(np.exp(-beta * energies()).sum())
    best = np.exp(-beta * energies() - log_z)
    assert float(boltzmann.free_energy(energies(), best, beta)) == pytest.approx(-log_z / beta, rel=1e-12)
    other = NOISE.dirichlet(np.ones(32))
    found = float(boltzmann.free_energy(energies(), other, beta))
    assert found > -log_z / beta
    elbo = (other * (-beta * energies() - log_z - np.log(other))).sum()  # of log p = -beta E - log Z
    assert found == pytest.approx(-(elbo + log_z) / beta, rel=1e-12)
    divergence = (other * np.log(other / best)).sum()
    assert found + log_z / beta == pytest.approx(divergence / beta, rel=1e-10)


def test_mean_field_is_a_stationary_product_above_the_free_energy(
    machine: boltzmann.BoltzmannMachine,
) -> None:
    means = np.asarray(eqx.filter_jit(boltzmann.mean_field)(machine))
    found = float(boltzmann.mean_field_free_energy(machine, jnp.asarray(means)))
    each = np.where(STATES == 1, means, 1 - means).prod(axis=1)
    assert found == pytest.approx(float(boltzmann.free_energy(energies(), each)), rel=1e-12)
    assert found > -float(machine.log_partition())
    slope = eqx.filter_jit(jax.grad(lambda m: boltzmann.mean_field_free_energy(machine, m)))(means)
    np.testing.assert_allclose(slope, 0, atol=1e-8)


def test_sums_over_more_states_than_fit_at_once_are_the_same() -> None:
    weights = NOISE.normal(size=14)  # 2^14 states in four pieces
    found = jax.jit(
        jax.value_and_grad(lambda w: boltzmann.log_sum_over_states(lambda x: x @ w, 14, w.dtype))
    )(weights)
    assert float(found[0]) == pytest.approx(np.log1p(np.exp(weights)).sum(), rel=1e-12)
    np.testing.assert_allclose(found[1], 1 / (1 + np.exp(-weights)), rtol=1e-12)


@pytest.mark.parametrize(
    ("couplings", "bias", "said"),
    [
        (
            np.array([[0.0, 1.0], [2.0, 0.0]]),
            np.zeros(2),
            r"not symmetric: entry \(0, 1\) is 1, \(1, 0\) is 2",
        ),
        (np.array([[0.0, 1.0], [1.0, 3.0]]), np.zeros(2), "unit 1 has the coupling 3 with itself"),
        (np.zeros((2, 2)), np.zeros(3), r"couplings of shape \(2, 2\) and bias of shape \(3,\)"),
    ],
)
def test_couplings_that_make_no_machine_are_named(couplings: np.ndarray, bias: np.ndarray, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        boltzmann.BoltzmannMachine(couplings, bias)


def test_what_cannot_be_computed_is_named(machine: boltzmann.BoltzmannMachine) -> None:
    with pytest.raises(ArgumentError, match=r"x holds 0\.5; its entries are zeros and ones"):
        machine.log_prob(np.full((1, 5), 0.5))
    with pytest.raises(ArgumentError, match=r"30 units have 2\^30 states"):
        boltzmann.BoltzmannMachine(np.zeros((30, 30)), np.zeros(30)).log_partition()
    with pytest.raises(ArgumentError, match="beta=0"):
        boltzmann.free_energy(np.zeros(2), np.full(2, 0.5), 0.0)
