"""Entropies and mutual information: known values, identities on random tables, and what is said of bad ones."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from chainrule import information as I
from chainrule.core.errors import ArgumentError
from chainrule.probability import Exponential, MultivariateNormal, Normal

PARITY = np.zeros((2, 2, 2))
PARITY[[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]] = 0.25


def drawn(seed: int, *shape: int) -> np.ndarray:
    weights = np.random.default_rng(seed).gamma(0.5, size=shape)
    return weights / weights.sum()


def test_known_entropies() -> None:
    assert I.entropy([0.9, 0.1]) == pytest.approx(0.468996, abs=1e-6)
    assert I.entropy([1.0, 0.0]) == 0
    assert I.entropy(np.full((4, 8), 1 / 32)) == pytest.approx(5)
    assert I.entropy([0.5, 0.5], unit="nats") == pytest.approx(np.log(2))


@given(st.integers(0, 10_000))
def test_all_ways_to_mutual_information_agree_on_random_tables(seed: int) -> None:
    joint = drawn(seed, 3, 4)
    joint[0, 1] = 0
    joint /= joint.sum()
    x, y = joint.sum(axis=1), joint.sum(axis=0)
    found = I.mutual_information(joint)
    assert found == pytest.approx(I.entropy(x) - I.conditional_entropy(joint), abs=1e-12)
    assert found == pytest.approx(I.entropy(x) + I.entropy(y) - I.entropy(joint), abs=1e-12)
    divergence = scipy.stats.entropy(joint.ravel(), np.outer(x, y).ravel(), base=2)
    assert found == pytest.approx(divergence, abs=1e-12)


@given(st.integers(0, 10_000))
def test_the_chain_rule_and_the_symmetry_of_interactions_hold_on_random_tables(seed: int) -> None:
    joint = drawn(seed, 2, 3, 4)
    terms = I.chain_rule(joint)
    assert terms.sum() == pytest.approx(I.entropy(joint))
    assert terms[2] == pytest.approx(I.conditional_entropy(joint, 2, (0, 1)))
    both = I.mutual_information(joint, (0, 1), 2)
    assert both == pytest.approx(
        I.mutual_information(joint, 0, 2) + I.mutual_information(joint, 1, 2, given=0)
    )
    orders = [I.interaction_information(joint, *axes) for axes in ((0, 1, 2), (2, 0, 1), (1, 2, 0))]
    assert orders == pytest.approx([orders[0]] * 3, abs=1e-12)


def test_parity_is_known_only_together() -> None:
    assert I.mutual_information(PARITY) == 0
    assert I.mutual_information(PARITY, 0, 1, given=2) == 1
    assert I.interaction_information(PARITY) == 1


def test_cross_entropy_is_entropy_and_divergence_and_infinite_off_the_support() -> None:
    p, q = [0.5, 0.25, 0.25], [0.25, 0.5, 0.25]
    assert I.cross_entropy(p, q) == pytest.approx(I.entropy(p) + scipy.stats.entropy(p, q, base=2))
    assert I.cross_entropy([0.5, 0.5], [1.0, 0.0]) == np.inf
    assert str(I.cross_entropy([0, 1], [0, 1])) == "0.0"


def test_axes_may_be_numbers_of_numpy() -> None:
    joint = np.array([[0.45, 0.05], [0.05, 0.45]])
    first, second = np.arange(2)
    assert I.conditional_entropy(joint, first, second) == I.conditional_entropy(joint, 0, 1)
    assert I.mutual_information(joint, (first,), second) == I.mutual_information(joint)


def test_differential_entropy_may_be_negative_and_follows_the_scale() -> None:
    wide, narrow = I.entropy(Normal(0.0, 1.0)), I.entropy(Normal(0.0, 0.01))
    assert wide == pytest.approx(0.5 * np.log2(2 * np.pi * np.e), abs=1e-5)
    assert narrow < 0
    assert wide - narrow == pytest.approx(np.log2(100), abs=1e-5)
    assert I.entropy(Exponential(2.0), unit="nats") == pytest.approx(1 - np.log(2), abs=1e-6)
    with pytest.raises(ArgumentError, match="one distribution at a time"):
        I.entropy(Normal(np.zeros(2), 1.0))


def test_information_of_normal_variables_has_its_closed_form_and_no_scale() -> None:
    rho = 0.8
    assert I.gaussian_mutual_information([[1, rho], [rho, 1]]) == pytest.approx(-0.5 * np.log2(1 - rho**2))
    root = np.random.default_rng(0).normal(size=(5, 5))
    covariance = root @ root.T
    scales = np.diag([1.0, 10.0, 0.1, 3.0, 1.0])
    found = I.gaussian_mutual_information(covariance, (0, 1), (2, 3, 4), unit="nats")
    assert found == pytest.approx(
        I.gaussian_mutual_information(scales @ covariance @ scales, (0, 1), (2, 3, 4), unit="nats")
    )
    parts = [covariance[:2, :2], covariance[2:, 2:], covariance]
    entropies = [I.entropy(MultivariateNormal(np.zeros(len(one)), one), unit="nats") for one in parts]
    assert found == pytest.approx(entropies[0] + entropies[1] - entropies[2], abs=1e-4)
    product = np.linalg.solve(parts[0], covariance[:2, 2:]) @ np.linalg.solve(parts[1], covariance[2:, :2])
    assert found == pytest.approx(-0.5 * np.linalg.slogdet(np.eye(2) - product)[1])
    chained = I.gaussian_mutual_information(covariance, 0, 2) + I.gaussian_mutual_information(
        covariance, 1, 2, given=0
    )
    assert chained == pytest.approx(I.gaussian_mutual_information(covariance, (0, 1), 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: I.entropy([0.5, 0.4]), r"sums to 0.9, which is 0.1 below 1"),
        (lambda: I.entropy([1.5, -0.5]), r"entry 1 is -0.5; a probability is never negative"),
        (lambda: I.entropy([[0.5, np.nan], [0.2, 0.3]]), r"entry \(0, 1\) is nan"),
        (lambda: I.entropy([]), "has no entries"),
        (lambda: I.entropy("abc"), "needs numbers"),
        (lambda: I.entropy([0.5, 0.5], unit="bytes"), r'unit must be "bits" or "nats"'),
        (lambda: I.mutual_information([0.5, 0.5]), "variables are numbered 0 to 0"),
        (lambda: I.mutual_information(PARITY, 0, 0), "variable 0 is named twice"),
        (lambda: I.mutual_information(PARITY, (), 1), "name at least one variable"),
        (lambda: I.cross_entropy([0.5, 0.5], [1.0]), "the same outcomes"),
        (lambda: I.gaussian_mutual_information([[1, 1], [1, 1]]), "smallest eigenvalue"),
        (lambda: I.gaussian_mutual_information([[1, 0.5], [0.2, 1]]), "symmetric"),
    ],
)
def test_bad_tables_are_named_with_how_bad_they_are(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
