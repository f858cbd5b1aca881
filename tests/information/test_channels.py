"""Capacity: textbook channels, certificates that hold for any channel, and another way to the same number."""

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from chainrule import information as I
from chainrule.core.errors import ArgumentError


@pytest.mark.parametrize(
    ("channel", "bits", "inputs"),
    [
        (I.binary_symmetric(0.1), 0.531004, (0.5, 0.5)),
        (I.z_channel(0.5), 0.321928, (0.6, 0.4)),
        (I.erasure(0.3), 0.7, (0.5, 0.5)),
        (I.erasure(0.3, 4), 1.4, (0.25,) * 4),
        (I.noisy_typewriter(26, 1, include_self=True), np.log2(26 / 3), None),
        (np.ones((3, 1)), 0.0, None),
    ],
    ids=["symmetric", "z", "erasure", "four letters", "typewriter", "nothing"],
)
def test_textbook_channels_have_their_capacity(channel, bits, inputs) -> None:
    found = I.capacity(channel)
    assert found.converged
    assert found.gap <= 1e-9
    assert found.value == pytest.approx(bits, abs=1e-6)
    if inputs is not None:
        np.testing.assert_allclose(found.input, inputs, atol=1e-4)
    assert I.capacity(channel, unit="nats").value == pytest.approx(bits * np.log(2), abs=1e-6)


@given(st.integers(0, 10_000))
def test_inputs_reach_the_lower_bound_and_no_bound_is_ever_crossed(seed: int) -> None:
    channel = np.random.default_rng(seed).dirichlet(np.full(5, 0.5), 4)
    found = I.capacity(channel, tol=1e-6)
    passed = I.mutual_information(found.input[:, None] * channel)
    assert found.value - 1e-9 <= passed <= found.value + found.gap + 1e-9
    assert (np.diff(found.bounds[:, 0]) >= -1e-12).all()
    assert (np.diff(found.bounds[:, 1]) <= 1e-12).all()
    for inputs in np.random.default_rng(seed).dirichlet(np.ones(4), 20):
        assert I.mutual_information(inputs[:, None] * channel) <= found.value + found.gap + 1e-12


def test_a_general_optimiser_finds_no_more() -> None:
    channel = np.random.default_rng(3).dirichlet(np.ones(6), 5)

    def lost(weights: np.ndarray) -> float:
        weights = np.maximum(weights, 0)
        return -I.mutual_information((weights / weights.sum())[:, None] * channel)

    best = scipy.optimize.minimize(
        lost, np.full(5, 0.2), method="SLSQP", bounds=[(0, 1)] * 5, options={"ftol": 1e-12}
    )
    found = I.capacity(channel)
    assert -best.fun <= found.value + found.gap
    assert found.value == pytest.approx(-best.fun, abs=1e-4)


def test_inputs_that_are_copies_of_others_do_not_keep_bounds_apart() -> None:
    channel = np.array([[0.9, 0.1], [0.9, 0.1], [0.5, 0.5], [0.1, 0.9]])
    found = I.capacity(channel)
    assert found.converged
    assert found.value == pytest.approx(0.531004, abs=1e-6)
    assert found.input[2] < 1e-6
    assert not I.capacity(I.z_channel(0.5), most=2).converged


def test_the_noisy_typewriter_comes_in_all_forms() -> None:
    bits = {
        (16, False): 1.0,
        (16, True): 0.955606,
        (8, False): 2.0,
    }
    for (width, itself), wanted in bits.items():
        joint = I.noisy_typewriter(64, width, itself) / 64
        assert I.mutual_information(joint) == pytest.approx(wanted, abs=1e-6)
    line = I.noisy_typewriter(5, 2, circle=False)
    np.testing.assert_allclose(line[0], [0, 0.5, 0.5, 0, 0])
    np.testing.assert_allclose(line.sum(axis=1), 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: I.capacity([[0.5, 0.5], [0.5, 0.6]]), "row 1 sums to 1.1, which is 0.1 above 1"),
        (lambda: I.capacity([[0.5, 1.0], [0.5, 0.0]]), "pass the transpose"),
        (lambda: I.capacity([0.5, 0.5]), "needs a matrix"),
        (lambda: I.capacity(np.eye(2), tol=0), "positive number"),
        (lambda: I.noisy_typewriter(8, 4), "at most 3"),
        (lambda: I.binary_symmetric(1.1), "between 0 and 1"),
    ],
)
def test_what_is_no_channel_is_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
