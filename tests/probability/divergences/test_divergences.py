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

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.probability import (
    Bernoulli,
    Categorical,
    Exponential,
    Gamma,
    Mixture,
    MultivariateNormal,
    Normal,
    StudentT,
)
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


# ---------------------------------------------------------------------- for arrays and for distributions


HALVES, QUARTERS, UNEVEN = [0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [0.36, 0.48, 0.16]
THIRDS = [1 / 3, 1 / 3, 1 / 3]


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (lambda p, q: d.kl(p, q), math.log(2)),
        (lambda p, q: d.kl(q, p), math.inf),
        (lambda p, q: d.js(p, q), 0.215762),
        (lambda p, q: d.tv(p, q), 0.5),
        (lambda p, q: d.hellinger(p, q), 0.541196),
        (lambda p, q: d.chi2(p, q), 1.0),
        (lambda p, q: d.lp(p, q), 0.612372),
        (lambda p, q: d.lp(p, q, math.inf), 0.5),
        (lambda p, q: d.cross_entropy(p, q), 1.386294),
        (lambda p, q: d.kl(p, q, unit="bits"), 1.0),
        (lambda p, q: d.tv(p, q, convention="full"), 1.0),
        (lambda p, q: d.hellinger(p, q, convention="full"), 0.765367),
        (lambda p, q: d.jeffreys(p, q), math.inf),
        (lambda p, q: d.bhattacharyya(p, q), -math.log(math.sqrt(0.5))),
        (lambda p, q: d.renyi(p, q, 0.5), math.log(2)),
        (lambda p, q: d.renyi(p, q, 2), math.log(2)),
        (lambda p, q: d.renyi(q, p, 2), math.inf),
        (lambda p, q: d.renyi(p, q, 0), math.log(2)),
        (lambda p, q: d.renyi(p, q, math.inf), math.log(2)),
    ],
)
def test_arrays_and_distributions_have_the_worked_values(call, value) -> None:
    for make in (np.asarray, Categorical):
        assert float(call(make(HALVES), make(QUARTERS))) == pytest.approx(value, abs=1e-6)


def test_against_the_uniform_distribution() -> None:
    found = [
        d.kl(UNEVEN, THIRDS),
        d.kl(THIRDS, UNEVEN),
        d.js(UNEVEN, THIRDS),
        d.hellinger(UNEVEN, THIRDS) ** 2,
    ]
    np.testing.assert_allclose(
        [*found, d.chi2(UNEVEN, THIRDS)], [0.0852996, 0.0974550, 0.0224599, 0.0226497, 0.1568], atol=1e-6
    )


def test_kl_obeys_no_triangle_inequality() -> None:
    half, tenth, quarter = (Bernoulli(p) for p in (0.5, 0.1, 0.25))
    assert float(d.kl(half, tenth)) == pytest.approx(0.510826, abs=1e-6)
    assert float(d.kl(half, quarter) + d.kl(quarter, tenth)) == pytest.approx(0.236173, abs=1e-6)


def test_inequalities_hold_for_ten_thousand_pairs() -> None:
    random = np.random.default_rng(1)
    p, q = (random.dirichlet(np.full(5, size), 10_000) for size in (0.7, 0.9))
    functions = (d.kl, d.tv, d.hellinger, d.chi2, d.js)
    kl, tv, hellinger, chi2, js = np.asarray(
        jax.jit(lambda p, q: jnp.stack([f(p, q) for f in functions]))(p, q)
    )
    assert (tv**2 <= kl / 2 + 1e-12).all()
    assert (hellinger**2 <= tv + 1e-12).all()
    assert (tv <= math.sqrt(2) * hellinger + 1e-12).all()
    assert (kl <= np.log1p(chi2) * (1 + 1e-9) + 1e-12).all()
    assert (js <= math.log(2)).all()


def test_divergence_of_a_joint_is_that_of_a_marginal_and_of_the_conditionals() -> None:
    p, q = np.random.default_rng(2).dirichlet(np.ones(12), 2).reshape(2, 3, 4)
    marginals = p.sum(axis=1), q.sum(axis=1)
    conditionals = d.kl(p / marginals[0][:, None], q / marginals[1][:, None])
    parts = float(d.kl(*marginals)) + float(marginals[0] @ np.asarray(conditionals))
    assert float(d.kl(p.ravel(), q.ravel())) == pytest.approx(parts, abs=1e-12)


@pytest.mark.parametrize("function", [d.kl, d.js, d.tv, d.hellinger, d.chi2, lambda p, q: d.renyi(p, q, 0.3)])
def test_gradients_through_logits_are_exact(function) -> None:
    """Against those through probabilities, and finite where probabilities round to zero."""

    @jax.jit
    def gradients(a: np.ndarray, b: np.ndarray) -> tuple[jax.Array, jax.Array]:
        through_logits = jax.grad(lambda b: function(Categorical(logits=a), Categorical(logits=b)))(b)
        through_probabilities = jax.grad(lambda b: function(jax.nn.softmax(a), jax.nn.softmax(b)))(b)
        return through_logits, through_probabilities

    np.testing.assert_allclose(*gradients(np.array([0.5, -1.0, 2.0]), np.array([1.0, 0.0, -0.5])), atol=1e-12)
    extreme, _ = gradients(np.array([400.0, 0.0, 0.0]), np.array([380.0, 0.0, 0.0]))
    assert np.isfinite(extreme).all()
    equal, _ = gradients(np.array([0.5, -1.0, 2.0]), np.array([0.5, -1.0, 2.0]))
    np.testing.assert_allclose(equal, 0, atol=1e-7)


@pytest.mark.parametrize(("function", "at_most"), [(d.hellinger, 0), (d.lp, 0), (d.tv, 0.6)])
def test_metrics_have_a_gradient_where_they_are_zero(function, at_most) -> None:
    gradient = jax.grad(function)(jnp.array([0.2, 0.3, 0.5]), jnp.array([0.2, 0.3, 0.5]))
    assert (np.abs(gradient) <= at_most).all()


def test_densities_are_integrated() -> None:
    p, q = Normal(0.0, 1.0), Normal(3.0, 1.0)
    assert float(d.kl(p, q)) == 4.5
    assert float(d.tv(p, q)) == pytest.approx(0.866386, abs=1e-6)
    near, far = Normal(np.array([0.0, 0.0]), 1.0), Normal(np.array([0.5, 1000.0]), 0.01)
    np.testing.assert_allclose(d.js(near, far)[1], math.log(2), atol=1e-12)
    x = np.linspace(-9, 9, 400_001)
    densities = scipy.stats.norm.pdf(x), scipy.stats.norm.pdf(x, 0.5, 0.01)
    for function, oracle in (
        (
            d.js,
            lambda a, b: (
                (scipy.special.rel_entr(a, (a + b) / 2) + scipy.special.rel_entr(b, (a + b) / 2)) / 2
            ),
        ),
        (d.tv, lambda a, b: np.abs(a - b) / 2),
    ):
        wanted = np.trapezoid(oracle(*densities), x)
        assert float(function(near, far)[0]) == pytest.approx(wanted, abs=1e-6)


def test_normals_have_closed_forms_and_quadrature_agrees() -> None:
    p, q = Normal(0.0, 1.0), Normal(0.5, 1.5)
    mixtures = [
        Mixture([1.0], Normal(np.array([mean]), np.array([scale])))
        for mean, scale in ((0.0, 1.0), (0.5, 1.5))
    ]
    for function in (d.hellinger, d.chi2, d.bhattacharyya, lambda p, q: d.renyi(p, q, 0.3)):
        assert float(function(p, q)) == pytest.approx(float(function(*mixtures)), abs=1e-9)
    one = MultivariateNormal([1.0, -1.0], [[2.0, 0.5], [0.5, 1.0]]), MultivariateNormal([0.0, 0.0], np.eye(2))
    assert float(d.kl(*one)) == pytest.approx(1.220192, abs=1e-6)
    assert float(d.kl(*one[::-1])) == pytest.approx(1.279808, abs=1e-6)
    assert float(d.cross_entropy(*one)) == pytest.approx(1.220192 + 3.117685, abs=1e-6)


def test_what_cannot_be_integrated_is_estimated_and_says_so() -> None:
    p, q = (MultivariateNormal([mean, 0.0], np.eye(2)) for mean in (0.0, 3.0))
    with pytest.warns(ChainruleWarning, match=r"tv: no closed form for MultivariateNormal .*standard error"):
        assert float(d.tv(p, q, samples=20_000)) == pytest.approx(0.866386, abs=0.02)
    with pytest.warns(ChainruleWarning, match="key="):
        other = d.tv(p, q, key=jax.random.key(1), samples=20_000)
    assert 0 < abs(float(other) - 0.866386) < 0.02


def test_what_has_no_mean_is_estimated_from_draws() -> None:
    cauchy, shifted = StudentT(1.0), StudentT(1.0, 1.0)
    with pytest.warns(ChainruleWarning, match="tv: no closed form for StudentT and StudentT"):
        found = d.tv(cauchy, shifted)
    assert float(found) == pytest.approx(2 / math.pi * math.atan(0.5), abs=0.02)


def test_an_integral_that_does_not_settle_says_so() -> None:
    with pytest.warns(ChainruleWarning, match="Exponential and Gamma does not settle .* infinite"):
        d.chi2(Exponential(1.0), Gamma(2.0, 1.0))  # (p - q)²/q grows like 1/x at zero


def test_a_density_and_probabilities_of_points_have_nothing_in_common() -> None:
    p, q = Normal(0.0, 1.0), Bernoulli(0.5)
    assert float(d.tv(p, q)) == 1
    assert float(d.js(p, q)) == pytest.approx(math.log(2))
    assert float(d.hellinger(p, q)) == 1
    assert float(d.kl(p, q)) == float(d.renyi(p, q, 2)) == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: d.js([P, P, P, [0.5, 0.47]], Q),
            r"p: row 3 sums to 0.97; rows must sum to 1 within 1e-06\n.*normalize=True to rescale",
        ),
        (lambda: d.js(Normal(0.0, 1.0), P), r"js\(q\): a distribution .*array\n.*Categorical"),
        (
            lambda: d.js(Normal(0.0, 1.0), MultivariateNormal([0.0], [[1.0]])),
            r"events of shape \(\), q of shape \(1,\)",
        ),
        (lambda: d.js(Normal(np.zeros(2), 1.0), Normal(np.zeros(3), 1.0)), "do not broadcast"),
        (lambda: d.tv(P, Q, convention="third"), '"half" or "full"'),
        (lambda: d.kl(P, Q, unit="dits"), '"nats" or "bits"'),
        (lambda: d.kl(P, Q, base=2, unit="nats"), "contradict"),
        (lambda: d.renyi(P, Q, -1), "must not be negative"),
        (lambda: d.renyi(Bernoulli(0.5), Bernoulli(0.1), -1), "must not be negative"),
        (lambda: d.lp(Normal(0.0, 1.0), Normal(1.0, 1.0)), "tv and hellinger"),
        (lambda: d.compare(Normal(0.0, 1.0), Normal(1.0, 1.0)), "profile"),
    ],
)
def test_what_cannot_be_compared_is_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_comparisons_state_their_conventions_and_take_distributions() -> None:
    lines = [str(one) for one in d.compare(Categorical(P), Categorical(Q), unit="bits")]
    assert lines == [str(one) for one in d.compare(P, Q, base=2)]
    assert (
        "KL: 0.736966, back 0.531004 bits (sum p log(p/q); 0 log 0 = 0; infinite where q = 0 < p; no metric)"
        in lines
    )


# ---------------------------------------------------------------------- the table of f-divergences


@pytest.mark.parametrize("name", list(d.f_divergences))
def test_a_critic_reaches_the_divergence_and_none_exceeds_it(name, pairs) -> None:
    one = d.f_divergences[name]
    noise = 0.1 * np.random.default_rng(0).normal(size=(50, 6))
    ratio, u = np.linspace(0.07, 6.0, 120), np.geomspace(1e-6, 1e4, 20_001)

    @jax.jit
    def found(p: np.ndarray, q: np.ndarray) -> tuple[jax.Array, ...]:
        def bound(critic: jax.Array) -> jax.Array:
            return (p * critic).sum(axis=1) - (q * one.conjugate(critic)).sum(axis=1)

        best = one.critic(jnp.log(p), jnp.log(q))
        at = one.slope(jnp.array([0.2, 0.7, 1.5, 4.0]))
        return (
            one.term(jnp.log(p), jnp.log(q)).sum(axis=1),
            bound(best),
            bound(jnp.minimum(best + noise, one.below - 1e-9)),
            best.max(),
            one.f(jnp.ones(())),
            one.slope(jnp.asarray(ratio)) - jax.vmap(jax.grad(one.f))(ratio),
            one.conjugate(at) - (at[:, None] * u[None] - one.f(u)[None]).max(axis=1),
            jax.vmap(jax.grad(one.conjugate))(at) - jnp.array([0.2, 0.7, 1.5, 4.0]),
        )

    p, q = (two[100:150] for two in pairs)
    exact, reached, worse, largest, at_one, slopes, conjugates, inverses = map(np.asarray, found(p, q))
    np.testing.assert_allclose(reached, exact, rtol=1e-9, atol=1e-12)
    assert (worse <= exact + 1e-12).all()
    assert largest <= one.below
    assert at_one == pytest.approx(one.at_one, abs=1e-15)
    np.testing.assert_allclose(slopes, 0, atol=1e-9)
    np.testing.assert_allclose(conjugates, 0, atol=1e-4)  # the largest of t u - f(u) on a grid
    if name != "total variation":  # whose f has a corner; elsewhere f*' is the inverse of f'
        np.testing.assert_allclose(inverses, 0, atol=1e-9)


def test_f_divergences_are_the_divergences_of_arrays(pairs) -> None:
    p, q = pairs
    log_p, log_q = (np.log(one, where=one > 0, out=np.full_like(one, -np.inf)) for one in pairs)
    for name, function in {
        "KL": d.kl,
        "reverse KL": lambda p, q: d.kl(q, p),
        "Jeffreys": d.jeffreys,
        "Jensen-Shannon": d.jensen_shannon,
        "total variation": d.total_variation,
        "squared Hellinger": lambda p, q: d.hellinger(p, q) ** 2,
        "Pearson chi-square": d.chi_square,
        "Neyman chi-square": lambda p, q: d.chi_square(q, p),
    }.items():
        found = jax.jit(d.f_divergences[name].term)(log_p, log_q).sum(axis=1)
        np.testing.assert_allclose(found, function(p, q), rtol=1e-9, atol=1e-12)
