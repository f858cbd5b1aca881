"""Distances of domains: known values, other libraries, and what a classifier cannot tell apart."""

import numpy as np
import pytest
from scipy import stats

from chainrule.core.errors import ArgumentError
from chainrule.transfer import domain_distances, energy_distance, pair_divergence, proxy_distance
from chainrule.transfer.domain_classifier import judge_domains

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(400, 2)), RNG.normal(size=(400, 2))


def test_domains_that_are_one_have_no_distance_and_far_ones_the_largest() -> None:
    near, far = proxy_distance(X, Y), proxy_distance(X, Y + 8)
    assert near.value < 3 * near.uncertainty
    assert far.value == 2.0
    # N(0, 1) against N(1, 1): the best error is that of the threshold halfway.
    between = proxy_distance(X[:, :1], Y[:, :1] + 1.0)
    best = float(stats.norm.cdf(-0.5))
    assert abs(between.value - 2 * (1 - 2 * best)) < 3 * between.uncertainty


def test_domains_that_only_curved_boundaries_tell_apart_are_told_apart() -> None:
    rings = Y / np.linalg.norm(Y, axis=1, keepdims=True) * 3.0
    found = judge_domains(X, rings)
    assert found.basis == "fourier"
    assert found.error < 0.15
    assert judge_domains(X, rings, basis="linear").error > 0.4


def test_energy_distance_is_that_of_scipy() -> None:
    x, y = X[:, 0], Y[:, 0] + 0.5
    n = len(x)
    within = [np.abs(np.subtract.outer(one, one)).sum() / n**2 for one in (x, y)]
    # SciPy's is the root of the biased one; the unbiased one leaves pairs of a point with itself out.
    biased = float(stats.energy_distance(x, y)) ** 2
    assert abs(energy_distance(x, y) - (biased - sum(within) / (n - 1))) < 1e-4


def test_pairs_of_networks_find_what_single_ones_do_not() -> None:
    value, error = pair_divergence(X, Y, steps=100)
    assert value < 4 * error + 0.1
    assert pair_divergence(X, Y + 8, steps=100)[0] > 1.8
    with pytest.raises(ArgumentError, match="1 and 1 examples, and half of them are held out"):
        pair_divergence(X[:1], Y[:1])


def test_the_table_has_a_convention_for_every_number() -> None:
    found = {one.name: one for one in domain_distances(X[:100], Y[:100] + 1, permutations=50)}
    assert abs(found["MMD"].value ** 2 - found["squared MMD"].value) < 0.05
    assert all(one.convention for one in found.values())
    assert found["total variation, at least"].value <= float(2 * stats.norm.cdf(np.sqrt(2) / 2) - 1) + 0.15


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ArgumentError, match="need two"):
        energy_distance(X[:1], Y)
    with pytest.raises(ArgumentError, match="folds=1"):
        judge_domains(X, Y, folds=1)
    with pytest.raises(ArgumentError, match="not finite"):
        proxy_distance(X, np.full((3, 2), np.nan))
