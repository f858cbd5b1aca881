"""The Kullback-Leibler divergence of distributions: closed forms, enumeration, estimates."""

import math
from collections.abc import Iterator

import jax
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.probability import (
    Bernoulli,
    Beta,
    Binomial,
    Categorical,
    Diagonal,
    Dirichlet,
    Exponential,
    Gamma,
    Laplace,
    LowRank,
    Mixture,
    MultivariateNormal,
    Normal,
    Poisson,
    Uniform,
    estimate_kl,
    kl,
)

KEY = jax.random.key(0)
with jax.enable_x64(True):
    TILTED = MultivariateNormal([1.0, -1.0], [[2.0, 0.5], [0.5, 1.0]])
    STANDARD = MultivariateNormal([0.0, 0.0], np.eye(2))
P, Q = [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(
    ("p", "q", "value"),
    [
        (P, Q, math.log(2)),
        (Q, P, math.inf),
        (Categorical(P), Categorical(Q), math.log(2)),
        (Categorical(Q), Categorical(P), math.inf),
        ([0.36, 0.48, 0.16], [1 / 3] * 3, 0.0852996),
        ([1 / 3] * 3, [0.36, 0.48, 0.16], 0.0974550),
        (Bernoulli(0.5), Bernoulli(0.1), 0.510826),
        (Bernoulli(0.5), Bernoulli(0.0), math.inf),
        (Bernoulli(0.0), Bernoulli(0.5), math.log(2)),
        (Normal(1.0, 0.5), Normal(0.0, 1.0), 0.818147),
        (Normal(0.0, 1.0), Normal(3.0, 1.0), 4.5),
        (Normal(0.0, 0.5), Normal(2.0, 0.5), 8.0),
        (TILTED, STANDARD, 1.220192),
        (STANDARD, TILTED, 1.279808),
        (Bernoulli(0.5), Normal(0.0, 1.0), math.inf),
        (
            Mixture([0.5, 0.5], Bernoulli([0.0, 1.0])),
            Bernoulli(0.25),
            0.5 * math.log(2) + 0.5 * math.log(2 / 3),
        ),
    ],
)
def test_known_values(p, q, value: float) -> None:
    assert float(kl(p, q)) == pytest.approx(value, abs=1e-6)
    assert float(kl(p, q, base=2)) == pytest.approx(value / math.log(2), abs=1e-6)


def test_the_triangle_inequality_fails() -> None:
    one, two, three = (Bernoulli(p) for p in (0.5, 0.25, 0.1))
    assert float(kl(one, two) + kl(two, three)) == pytest.approx(0.236173, abs=1e-6)
    assert float(kl(one, three)) > 0.236174


def test_all_structures_of_a_covariance_give_the_same() -> None:
    factor, variances, mean = np.array([[1.0], [-0.5]]), np.array([0.5, 2.0]), np.array([0.3, -1.0])
    low = MultivariateNormal(mean, LowRank(factor, variances))
    full = MultivariateNormal(mean, factor @ factor.T + np.diag(variances))
    diagonal = MultivariateNormal(mean, Diagonal(variances))
    plain = MultivariateNormal(mean, np.diag(variances))
    for q, same in ((low, full), (diagonal, plain)):
        for p in (TILTED, low, diagonal):
            assert float(kl(p, q)) == pytest.approx(float(kl(p, same)), rel=1e-12)
            assert float(kl(q, p)) == pytest.approx(float(kl(same, p)), rel=1e-12)


def test_singular_normals_compare_on_their_subspace_only() -> None:
    along = np.array([[1.0, 1.0], [1.0, 1.0]])
    line, wider = MultivariateNormal([0.0, 0.0], along), MultivariateNormal([1.0, 1.0], 4 * along)
    # Along the diagonal these are N(0, 2) and N(sqrt 2, 8).
    wanted = kl(Normal(0.0, math.sqrt(2)), Normal(math.sqrt(2), math.sqrt(8)))
    assert float(kl(line, wider)) == pytest.approx(float(wanted), rel=1e-9)
    aside = MultivariateNormal([1.0, 0.0], along)
    assert [float(kl(p, q)) for p, q in ((line, aside), (line, STANDARD), (STANDARD, line))] == [math.inf] * 3


def test_unknown_pairs_are_estimated_with_a_warning_that_names_both() -> None:
    mixture = Mixture([0.5, 0.5], Normal([-1.0, 1.0], 1.0))
    with pytest.warns(ChainruleWarning, match=r"KL\(Mixture \|\| Normal\).*standard error"):
        found = kl(mixture, Normal(0.0, 1.5), key=KEY)
    estimate = estimate_kl(mixture, Normal(0.0, 1.5), KEY)
    assert float(found) == float(estimate.value)
    assert 0 < float(estimate.standard_error) < 0.02


def test_two_batches_are_compared_side_by_side() -> None:
    found = kl(Normal(np.zeros((3, 1)), 1.0), Normal(np.arange(2.0), 1.0))
    np.testing.assert_allclose(found, np.broadcast_to([0.0, 0.5], (3, 2)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kl(Normal(), [0.5, 0.5]), "distribution"),
        (lambda: kl(Normal(), STANDARD), "events of shape"),
        (lambda: kl(Normal(np.zeros(2)), Normal(np.zeros(3))), "do not broadcast"),
        (lambda: kl(Normal(), Normal(), base=10), "base=10"),
        (lambda: kl(Categorical(P), Categorical([0.5, 0.5])), "3 classes and q has 2"),
        (lambda: estimate_kl(Normal(), Normal(), KEY, form="best"), 'form must be "plain" or "nonneg"'),
        (lambda: estimate_kl(Normal(), Normal(), KEY, samples=1), "samples must be"),
    ],
)
def test_what_cannot_be_compared_is_refused(call, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_both_estimators_agree_with_the_closed_form_and_the_positive_one_is_less_noisy() -> None:
    random = np.random.default_rng(0)
    p = Normal(np.zeros(200), np.ones(200))
    q = Normal(random.uniform(-0.3, 0.3, 200), random.uniform(0.8, 1.2, 200))
    exact = np.asarray(kl(p, q))
    plain, nonneg = (estimate_kl(p, q, KEY, 4000, form) for form in ("plain", "nonneg"))
    for found in (plain, nonneg):
        assert (abs(np.asarray(found.value) - exact) < 4 * np.asarray(found.standard_error)).all()
    assert (np.asarray(nonneg.value) >= 0).all()
    assert np.median(nonneg.standard_error) < np.median(plain.standard_error) / 2


def test_a_form_that_cannot_be_trusted_says_so() -> None:
    with pytest.warns(ChainruleWarning, match="outside the support of p with probability 0.5.*plain"):
        estimate_kl(Uniform(0.0, 1.0), Uniform(0.0, 2.0), KEY, form="nonneg")
    with pytest.warns(ChainruleWarning, match="Pareto k"):
        estimate_kl(Normal(0.0, 1.0), Normal(0.0, 3.0), KEY, form="nonneg")


A, B, C, D = 0.4, 2.0, 1.5, 0.7
PAIRS = {
    "normal": (Normal, scipy.stats.norm),
    "laplace": (Laplace, scipy.stats.laplace),
    "gamma": (Gamma, lambda a, b: scipy.stats.gamma(a, scale=1 / b)),
    "beta": (Beta, scipy.stats.beta),
    "exponential": (lambda a, b: Exponential(a * b), lambda a, b: scipy.stats.expon(scale=1 / (a * b))),
}


@pytest.mark.parametrize("name", PAIRS)
def test_closed_forms_are_the_integral(name: str) -> None:
    make, oracle = PAIRS[name]
    p, q = oracle(A, B), oracle(C, D)

    def surplus(rank: float) -> float:
        x = p.ppf(rank)
        return p.logpdf(x) - q.logpdf(x)

    wanted, _ = scipy.integrate.quad(surplus, 0, 1, limit=500)
    assert float(kl(make(A, B), make(C, D))) == pytest.approx(wanted, rel=1e-6)


def test_closed_forms_of_other_families() -> None:
    counts = np.arange(100)
    p, q = scipy.stats.poisson(A * 10), scipy.stats.poisson(B * 10)
    wanted = (p.pmf(counts) * (p.logpmf(counts) - q.logpmf(counts))).sum()
    assert float(kl(Poisson(A * 10), Poisson(B * 10))) == pytest.approx(wanted, rel=1e-10)
    # Two probabilities that add up to one are a Beta and its rest; five coins, five times one coin.
    assert float(kl(Dirichlet([A, B]), Dirichlet([C, D]))) == pytest.approx(
        float(kl(Beta(A, B), Beta(C, D))), rel=1e-10
    )
    assert float(kl(Binomial(5, 0.3), Binomial(5, 0.6))) == pytest.approx(
        5 * float(kl(Bernoulli(0.3), Bernoulli(0.6))), rel=1e-10
    )
    assert float(kl(Uniform(0.0, 1.0), Uniform(-1.0, 2.0))) == pytest.approx(math.log(3))
    assert float(kl(Uniform(-1.0, 2.0), Uniform(0.0, 1.0))) == math.inf


def test_it_is_jointly_convex_and_obeys_the_chain_rule() -> None:
    random = np.random.default_rng(0)
    p, q, p2, q2 = random.dirichlet(np.ones(12), (4, 500))
    share = random.uniform(size=(500, 1))
    mixed = np.asarray(kl(share * p + (1 - share) * p2, share * q + (1 - share) * q2))
    apart = share[:, 0] * np.asarray(kl(p, q)) + (1 - share[:, 0]) * np.asarray(kl(p2, q2))
    assert (mixed <= apart + 1e-12).all()
    joint_p, joint_q = p.reshape(500, 3, 4), q.reshape(500, 3, 4)
    rows_p, rows_q = joint_p.sum(axis=2), joint_q.sum(axis=2)
    given = np.asarray(kl(joint_p / rows_p[:, :, None], joint_q / rows_q[:, :, None]))
    np.testing.assert_allclose(
        kl(p, q), np.asarray(kl(rows_p, rows_q)) + (rows_p * given).sum(axis=1), atol=1e-12
    )
