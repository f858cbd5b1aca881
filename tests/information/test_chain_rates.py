"""Rates of Markov chains: known values, the joint of three steps, sequences that are fitted, and profiles."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule import information as I
from chainrule.core.errors import ArgumentError
from chainrule.probability import markov

TWO = np.array([[0.9, 0.1], [0.5, 0.5]])


def test_two_states_have_their_known_rates() -> None:
    found = I.chain_information(TWO)
    np.testing.assert_allclose(found.stationary, [5 / 6, 1 / 6])
    values = (
        found.entropy,
        found.entropy_rate,
        found.information_rate,
        found.predictive_information_rate,
        found.erasure_entropy,
    )
    assert values == pytest.approx((0.650022, 0.557496, 0.092526, 0.076251, 0.481245), abs=1e-6)
    assert I.entropy_rate(TWO, unit="nats") == pytest.approx(0.557496 * np.log(2), abs=1e-6)


@given(st.integers(0, 10_000))
def test_rates_are_those_of_three_steps_together(seed: int) -> None:
    chain = np.random.default_rng(seed).dirichlet(np.full(4, 0.4), 4) + 1e-9
    chain /= chain.sum(axis=1, keepdims=True)
    found = I.chain_information(chain)
    joint = found.stationary[:, None, None] * chain[:, :, None] * chain[None]
    assert found.information_rate == pytest.approx(I.mutual_information(joint, 1, 0), abs=1e-9)
    assert found.predictive_information_rate == pytest.approx(
        I.mutual_information(joint, 1, 2, given=0), abs=1e-9
    )
    assert found.erasure_entropy == pytest.approx(I.conditional_entropy(joint, 1, (0, 2)), abs=1e-9)
    parts = found.information_rate + found.predictive_information_rate + found.erasure_entropy
    assert parts == pytest.approx(found.entropy, abs=1e-9)


def test_both_definitions_of_the_entropy_rate_agree() -> None:
    pi = np.asarray(markov.stationary(TWO))
    joint, before = pi, I.entropy(pi)
    for _ in range(2, 13):
        joint = joint[..., None] * TWO.reshape((1,) * (joint.ndim - 1) + (2, 2))
        now = I.entropy(joint)
        assert now - before == pytest.approx(I.entropy_rate(TWO))
        before = now
    assert now / joint.ndim == pytest.approx(I.entropy_rate(TWO), abs=0.01)


def test_clockwork_noise_and_what_lies_between() -> None:
    cycle, noise = I.chain_information(I.noisy_cycle(8, 0.0)), I.chain_information(I.noisy_cycle(8, 1.0))
    assert (cycle.information_rate, cycle.predictive_information_rate) == pytest.approx((3, 0), abs=1e-9)
    assert (noise.information_rate, noise.predictive_information_rate) == pytest.approx((0, 0), abs=1e-9)
    half = I.chain_information(I.noisy_cycle(8, 0.5))
    values = (half.entropy_rate, half.information_rate, half.predictive_information_rate)
    assert values == pytest.approx((2.216917, 0.783083, 0.553772), abs=1e-6)
    shares = np.linspace(0, 1, 1001)
    curve = [I.predictive_information_rate(I.noisy_cycle(8, share)) for share in shares]
    assert shares[int(np.argmax(curve))] == pytest.approx(0.307, abs=0.001)
    assert max(curve) == pytest.approx(0.6772, abs=1e-4)


def test_a_sequence_gives_its_chain_and_profiles_average_to_the_rates() -> None:
    path = np.asarray(markov.sample(jax.random.key(0), [5 / 6, 1 / 6], TWO, 40_000))
    chain, symbols = I.chain_of(["ab"[state] for state in path])
    assert symbols == ["a", "b"]
    np.testing.assert_allclose(chain.transition, TWO, atol=0.02)
    profile = I.information_profile(TWO, path)
    found = I.chain_information(TWO)
    assert profile.surprisal.mean() == pytest.approx(found.entropy_rate, abs=0.01)
    assert profile.information.mean() == pytest.approx(found.information_rate, abs=0.01)
    assert profile.predictive.mean() == pytest.approx(found.predictive_information_rate, abs=0.01)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: I.entropy_rate(np.eye(2)), "not unique|closed classes"),
        (lambda: I.entropy_rate(TWO.T), "transpose"),
        (lambda: I.noisy_cycle(4, 1.5), "between 0 and 1"),
        (lambda: I.information_profile(TWO, [0, 2]), "numbered from 0"),
        (lambda: I.information_profile(TWO, [0.5]), "needs numbers of states"),
        (lambda: I.chain_of("abc"), "no move out of state 2"),
        (lambda: I.chain_of(np.zeros((2, 2), int)), "needs a sequence of symbols"),
    ],
)
def test_chains_without_an_answer_are_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
