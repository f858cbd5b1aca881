"""Distances between distributions against SciPy, closed forms and the inequalities between them."""

import itertools
import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.spatial
import scipy.special
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.probability import divergences as d

P, Q = [0.5, 0.5], [0.9, 0.1]


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def pairs() -> tuple[np.ndarray, np.ndarray]:
    """Random pairs of distributions, some with outcomes of probability zero."""
    random = np.random.default_rng(0)
    p, q = random.dirichlet(np.full(6, 0.5), 200), random.dirichlet(np.full(6, 0.5), 200)
    p[:50, 0] = 0
    return p / p.sum(axis=1, keepdims=True), q


@pytest.mark.parametrize(
    ("function", "arguments", "value"),
    [
        (d.total_variation, (P, Q), 0.4),
        (d.lp, (P, Q), 0.565685),
        (d.kl, (P, Q), 0.510826),
        (d.kl, (Q, P), 0.368064),
        (d.cross_entropy, (P, Q), 1.203973),
        (d.jensen_shannon, (P, Q), 0.101749),
        (d.jeffreys, (P, Q), 0.878890),
    ],
)
def test_two_coins(function, arguments, value) -> None:
    assert float(function(*arguments)) == pytest.approx(value, abs=1e-6)


def test_everything_agrees_with_scipy(pairs) -> None:
    p, q = pairs
    np.testing.assert_allclose(d.kl(p, q), scipy.special.rel_entr(p, q).sum(axis=1))
    np.testing.assert_allclose(d.entropy(p, base=2), scipy.stats.entropy(p, axis=1, base=2))
    np.testing.assert_allclose(d.cross_entropy(p, q), -scipy.special.xlogy(p, q).sum(axis=1))
    np.testing.assert_allclose(
        d.jensen_shannon(p, q, base=2), scipy.spatial.distance.jensenshannon(p, q, 2, axis=1) ** 2
    )
    points = np.array([0.0, 1.0, 1.5, 4.0, 4.1, 9.0])
    moved = [scipy.stats.wasserstein_distance(points, points, a, b) for a, b in zip(p, q, strict=True)]
    np.testing.assert_allclose(d.wasserstein(p, q, points), moved)
    np.testing.assert_allclose(d.hellinger(p, q), np.sqrt(1 - np.sqrt(p * q).sum(axis=1)), atol=1e-9)
    np.testing.assert_allclose(d.chi_square(p, q), (p**2 / q).sum(axis=1) - 1)
    np.testing.assert_allclose(d.lp(p, q, math.inf), np.abs(p - q).max(axis=1))


def test_witnesses_prove_what_they_are_for(pairs) -> None:
    p, q = pairs
    event = np.asarray(d.most_telling_event(p, q))
    np.testing.assert_allclose(((p - q) * event).sum(axis=1), d.total_variation(p, q))
    events = np.array(list(itertools.product([0.0, 1.0], repeat=6)))
    np.testing.assert_allclose(np.abs((p - q) @ events.T).max(axis=1), d.total_variation(p, q))
    points = np.array([0.0, 1.0, 1.5, 4.0, 4.1, 9.0])
    function = np.asarray(d.potential(p, q, points))
    assert (np.abs(np.diff(function, axis=1)) <= np.diff(points)[None] + 1e-12).all()
    np.testing.assert_allclose((function * (p - q)).sum(axis=1), d.wasserstein(p, q, points))


def test_inequalities_between_distances_hold(pairs) -> None:
    p, q = pairs
    variation, hellinger = np.asarray(d.total_variation(p, q)), np.asarray(d.hellinger(p, q))
    assert (variation <= np.sqrt(d.kl(p, q) / 2) + 1e-12).all()  # Pinsker
    assert (hellinger**2 <= variation + 1e-12).all()
    assert (variation <= math.sqrt(2) * hellinger + 1e-12).all()
    assert (d.kl(p, q) <= np.log1p(d.chi_square(p, q)) + 1e-12).all()
    middle = (p[:100] + p[100:]) / 2, (q[:100] + q[100:]) / 2
    assert (
        d.kl(*middle) <= (d.kl(p[:100], q[:100]) + d.kl(p[100:], q[100:])) / 2 + 1e-12
    ).all()  # joint convexity


def test_what_is_called_a_metric_obeys_the_triangle_inequality_and_nothing_else_does(pairs) -> None:
    p, q = pairs
    r = np.roll(q, 1, axis=0)
    coins = np.array([[[0.5, 0.5]], [[0.9, 0.1]], [[0.99, 0.01]]])
    for name in d.distances:
        one = d.distances[name]
        excess = np.asarray(one.function(p, r) - one.function(p, q) - one.function(q, r))
        on_coins = (
            one.function(coins[0], coins[2])
            - one.function(coins[0], coins[1])
            - one.function(coins[1], coins[2])
        )
        holds = excess.max() <= 1e-9 and float(on_coins[0]) <= 1e-9 and float(one.function(P, P)) < 1e-9
        assert holds == one.is_metric, name
        swapped = np.allclose(one.function(p, q), one.function(q, p), rtol=1e-9, equal_nan=True)
        assert swapped == one.is_symmetric, name


def test_impossible_outcomes_cost_nothing_or_everything() -> None:
    assert float(d.kl([0.0, 1.0], [0.5, 0.5])) == pytest.approx(math.log(2))
    for function in (d.kl, d.chi_square, d.cross_entropy):
        assert float(function([0.5, 0.5], [1.0, 0.0])) == math.inf
    assert float(d.jensen_shannon([1.0, 0.0], [0.0, 1.0])) == pytest.approx(math.log(2))


def test_logits_give_the_same_divergence_without_overflow() -> None:
    keys = jax.random.split(jax.random.key(0))
    a, b = 3 * jax.random.normal(keys[0], (5, 4)), 3 * jax.random.normal(keys[1], (5, 4))
    np.testing.assert_allclose(
        d.kl_from_logits(a, b, base=2), d.kl(jax.nn.softmax(a), jax.nn.softmax(b), base=2)
    )
    extreme = d.kl_from_logits([1000.0, 0.0], [0.0, 1000.0])
    assert float(extreme) == 1000.0
    gradient = jax.grad(lambda b: d.kl_from_logits(jnp.array([1000.0, 0.0]), b))(jnp.array([0.0, 1000.0]))
    np.testing.assert_allclose(gradient, [-1, 1])


def test_distances_can_be_differentiated_compiled_and_batched() -> None:
    p, q = jnp.array([0.2, 0.3, 0.5]), jnp.array([0.4, 0.4, 0.2])
    np.testing.assert_allclose(jax.grad(lambda q: d.kl(p, q, normalize=True))(q), 1 - p / q, atol=1e-12)
    np.testing.assert_allclose(jax.jit(d.kl)(p, q), d.kl(p, q))
    np.testing.assert_allclose(d.kl(jnp.stack([p, q]), q), [d.kl(p, q), 0], atol=1e-15)
    with pytest.raises(Exception, match="does not sum to one"):
        jax.block_until_ready(jax.jit(d.kl)(p, 2 * q))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: d.kl([0.5, 0.6], P), r"p sums to 1.1 instead of 1\n.*normalize=True"),
        (lambda: d.kl(P, [0.5, 0.5 + 2e-6]), "q sums to 1.000002"),
        (lambda: d.total_variation([1.5, -0.5], P), "p holds -0.5: a probability is not negative"),
        (lambda: d.hellinger([math.nan, 1.0], P), "not negative"),
        (lambda: d.lp(P, [0.2, 0.3, 0.5]), "2 outcomes and q has 3"),
        (lambda: d.lp(P, Q, 0.5), "triangle inequality"),
        (lambda: d.kl(P, Q, base=10), "nats .* or bits"),
        (lambda: d.kl(1.0, 1.0), "an axis of outcomes"),
        (lambda: d.kl([0.0, 0.0], P, normalize=True), "cannot be normalised"),
        (lambda: d.wasserstein(P, Q, [1.0, 0.0]), "increasing order"),
        (lambda: d.compare([P, P], Q), "one distribution"),
    ],
)
def test_what_is_no_distribution_is_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_normalising_is_done_on_request_and_rounding_is_forgiven() -> None:
    assert float(d.total_variation([5, 5], [9, 1], normalize=True)) == pytest.approx(0.4)
    assert float(d.total_variation(P, [0.5, 0.5 + 5e-7])) < 1e-6


def test_comparison_names_units_and_directions() -> None:
    found = {one.name: one for one in d.compare(P, Q, base=2)}
    assert found["KL"].unit == "bits"
    assert found["KL"].forward == pytest.approx(0.510826 / math.log(2), abs=1e-6)
    assert found["KL"].backward == pytest.approx(0.368064 / math.log(2), abs=1e-6)
    assert found["total variation"].unit == ""
