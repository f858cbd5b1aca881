"""Information rate under a predictor: chains and processes whose rate is known, and intervals of dependent samples."""

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.information.sequence_rates import (
    block_bootstrap,
    sequence_information_rate,
    symbol_surprisal,
    value_surprisal,
)


def test_the_rate_of_a_chain_under_its_own_probabilities_is_the_known_one() -> None:
    matrix, pi = np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([5 / 6, 1 / 6])
    rng = np.random.default_rng(0)
    draws, states = rng.random(40_000), [0]
    for draw in draws:
        states.append(int(draw < matrix[states[-1], 1]))
    path = np.array(states)
    given = -np.log(matrix[path[:-1], path[1:]])
    found = sequence_information_rate(given, symbol_surprisal(path[1:], 1e9 * pi))
    assert found.value == pytest.approx(0.092526, abs=0.01)
    assert found.interval[0] < 0.092526 < found.interval[1]
    assert found.unordered - found.predictive == pytest.approx(found.value)
    assert found.profile.mean() == pytest.approx(found.value)
    assert not found.remarks


def test_the_rate_of_an_autoregression_is_the_known_one() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=20_000)
    path = np.zeros(20_000)
    for t in range(1, len(path)):
        path[t] = 0.8 * path[t - 1] + noise[t]
    given = 0.5 * np.square(path[1:] - 0.8 * path[:-1]) + 0.5 * np.log(2 * np.pi)
    half = len(given) // 2
    unordered = value_surprisal(path[1 + half :, None], path[1 : 1 + half, None])
    assert sequence_information_rate(given[half:], unordered).value == pytest.approx(0.736966, abs=0.05)


def test_the_density_of_rounded_values_is_that_of_their_gaps() -> None:
    draws = np.random.default_rng(0).normal(size=(2, 5000, 1))
    exact = value_surprisal(*draws).mean()
    rounded = value_surprisal(*np.round(draws, 1)).mean()
    assert rounded == pytest.approx(exact, abs=0.05)
    assert exact == pytest.approx(0.5 * np.log(2 * np.pi * np.e), abs=0.05)


def test_intervals_of_dependent_samples_are_wider_than_those_of_single_ones() -> None:
    rng = np.random.default_rng(0)
    held = []
    for seed in range(30):
        path = np.convolve(rng.normal(size=2000 + 50), np.ones(50) / 50, mode="valid")[:2000]
        held.append([block_bootstrap(path, block, 200, seed) for block in (1, 200)])
    ends = np.array(held)
    inside = ((ends[..., 0] < 0) & (ends[..., 1] > 0)).mean(axis=0)
    assert inside[0] < 0.5 < 0.8 < inside[1]


def test_a_predictor_that_makes_samples_less_likely_is_flagged() -> None:
    rng = np.random.default_rng(0)
    base = rng.random(400)
    worse = sequence_information_rate(base + 0.5 + 0.1 * rng.random(400), base)
    assert worse.value < 0
    assert "over-fitted" in worse.remarks[0]
    nothing = sequence_information_rate(base, base + 0.01 * (rng.random(400) - 0.48))
    assert "no use of the past" in nothing.remarks[0]
    few = sequence_information_rate(base[:40], base[:40] + 1, block=30)
    assert "cannot be trusted" in few.remarks[0]
    assert few.block == 8


def test_input_that_makes_no_sense_is_refused() -> None:
    for wrong, why in (
        (lambda: sequence_information_rate([1.0], [1.0, 2.0]), "one number for each sample"),
        (lambda: sequence_information_rate([np.inf], [1.0]), "not finite"),
        (lambda: sequence_information_rate([1.0], [1.0], unit="bytes"), "unit"),
        (lambda: sequence_information_rate([1.0], [1.0], block=0), "block"),
    ):
        with pytest.raises(ArgumentError, match=why):
            wrong()
