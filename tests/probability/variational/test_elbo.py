"""The evidence lower bound and its decompositions, where every quantity is known."""

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.probability import Beta, Categorical, Exponential, Independent, MultivariateNormal, Normal
from chainrule.probability.variational import ElboReport, elbo_report, exact_evidence, exponential

TABLE = np.random.default_rng(0).dirichlet(np.ones(12)).reshape(3, 4)
"""p(x, z) of three values of x and four of z."""
GUIDES = np.random.default_rng(1).dirichlet(np.ones(4), size=3)
"""q(z|x), a row for each x."""


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    return float((p * np.log(p / q)).sum())


def discrete(x: int, guide: np.ndarray) -> ElboReport:
    log_table = jnp.asarray(np.log(TABLE[x]))
    return elbo_report(
        lambda z: log_table[z.astype(int)], Categorical(guide), prior=Categorical(TABLE.sum(axis=0))
    )


def test_every_identity_holds_on_finitely_many_states() -> None:
    reports = [discrete(x, GUIDES[x]) for x in range(3)]
    prior = TABLE.sum(axis=0)
    for x, report in enumerate(reports):
        q, evidence = GUIDES[x], math.log(TABLE[x].sum())
        assert report.evidence is not None
        assert report.gap is not None
        assert report.reconstruction is not None
        assert report.rate is not None
        assert report.by_rate is not None
        assert report.samples == report.elbo.standard_error == 0
        assert report.evidence.value == pytest.approx(evidence, abs=1e-12)
        assert report.evidence.method == "enumeration"
        assert report.elbo.value == pytest.approx((q * np.log(TABLE[x] / q)).sum(), abs=1e-12)
        assert report.gap.value == pytest.approx(divergence(q, TABLE[x] / TABLE[x].sum()), abs=1e-12)
        assert report.rate.value == pytest.approx(divergence(q, prior), abs=1e-12)
        assert report.entropy.value == pytest.approx(-(q * np.log(q)).sum(), abs=1e-12)
        for total in (report.by_rate, report.by_entropy):
            assert total.value == pytest.approx(report.elbo.value, abs=1e-12)
        assert report.reconstruction.value - report.rate.value == pytest.approx(report.elbo.value, abs=1e-12)

    # The rate is the information of the code about x, and the divergence of all codes together from the prior.
    weights = np.array([0.2, 0.5, 0.3])
    together = weights @ GUIDES
    rate = sum(w * r.rate.value for w, r in zip(weights, reports, strict=True) if r.rate is not None)
    information = float((weights[:, None] * GUIDES * np.log(GUIDES / together)).sum())
    assert rate - information == pytest.approx(divergence(together, prior), abs=1e-12)
    distortion = -sum(
        w * r.reconstruction.value
        for w, r in zip(weights, reports, strict=True)
        if r.reconstruction is not None
    )
    assert -sum(w * r.elbo.value for w, r in zip(weights, reports, strict=True)) == pytest.approx(
        rate + distortion, abs=1e-12
    )
    assert rate + distortion >= information + distortion


def test_the_posterior_as_guide_closes_the_gap() -> None:
    report = discrete(1, TABLE[1] / TABLE[1].sum())
    assert report.gap is not None
    assert abs(report.gap.value) < 1e-12


def gaussian(z: jax.Array) -> jax.Array:
    """z ~ N(0, 1), x | z ~ N(z, 1), x = 2."""
    return Normal().log_prob(z) + Normal(z, 1.0).log_prob(2.0)


def test_a_gaussian_model_has_its_known_bound_evidence_and_gap() -> None:
    report = elbo_report(gaussian, Normal(), jax.random.key(0), prior=Normal(), samples=40_000)
    assert report.evidence is not None
    assert report.gap is not None
    assert report.rate is not None
    assert report.reconstruction is not None
    assert report.by_rate is not None
    assert report.evidence.value == pytest.approx(-2.265512, abs=1e-6)
    assert report.evidence.method == "linear-Gaussian"
    for found in (report.elbo, report.by_rate, report.by_entropy):
        assert found.value == pytest.approx(-3.418939, abs=4 * found.standard_error)
        assert 0 < found.standard_error < 0.02
    assert report.gap.value == pytest.approx(1.153426, abs=4 * report.gap.standard_error)
    assert (report.rate.value, report.rate.standard_error) == (0.0, 0.0)
    assert report.entropy.value == pytest.approx(0.5 * math.log(2 * math.pi * math.e))
    text = str(report)
    assert "ELBO" in text
    assert "40,000 draws" in text
    assert "by linear-Gaussian" in text
    assert "= KL(q || p(z|x))" in text


def test_a_guide_needs_no_more_than_draws_and_a_density() -> None:
    class Shifted:
        def sample(self, key: jax.Array, shape: int = 1) -> jax.Array:
            return 1 + jax.random.normal(key, (shape,))

        def log_prob(self, x: jax.Array) -> jax.Array:
            return jax.scipy.stats.norm.logpdf(x - 1)

    report = elbo_report(gaussian, Shifted(), jax.random.key(0), samples=2000)
    assert report.evidence is None
    assert report.gap is None
    assert report.rate is None
    assert report.entropy.standard_error > 0
    assert "log p(x)  not known" in str(report)


def test_the_free_energy_is_that_of_energy_and_entropy() -> None:
    energies, b = np.array([0.3, 1.0, -0.5, 2.0]), 1.7
    log_z = math.log(np.exp(-b * energies).sum())
    log_p = jnp.asarray(-b * energies - log_z)
    report = elbo_report(lambda z: log_p[z.astype(int)], Categorical(GUIDES[0]))
    entropy = -(GUIDES[0] * np.log(GUIDES[0])).sum()
    found = report.free_energy(b, log_z)
    assert found.value == pytest.approx(GUIDES[0] @ energies - entropy / b, abs=1e-12)
    with pytest.raises(ArgumentError, match=r"inverse_temperature=0\): it must be above zero"):
        report.free_energy(0)


def test_the_evidence_of_a_linear_gaussian_model_of_many_coordinates() -> None:
    random = np.random.default_rng(0)
    loadings, x = random.normal(size=(6, 5)), random.normal(size=6)
    prior = MultivariateNormal(np.zeros(5), np.eye(5))

    def log_joint(z: jax.Array) -> jax.Array:
        errors = jnp.asarray(x) - jnp.asarray(loadings) @ z
        return prior.log_prob(z) + jax.scipy.stats.norm.logpdf(errors, scale=0.5).sum()

    found = exact_evidence(log_joint, prior)
    covariance = loadings @ loadings.T + 0.25 * np.eye(6)
    expected = scipy.stats.multivariate_normal(np.zeros(6), covariance).logpdf(x)
    assert found is not None
    assert found.method == "linear-Gaussian"
    assert found.value == pytest.approx(expected, abs=1e-9)


def binary(z: jax.Array) -> jax.Array:
    """z ~ N(0, 1), and a one with log-odds 3 z - 1."""
    return Normal().log_prob(z) + jax.nn.log_sigmoid(3 * z - 1)


def test_the_evidence_of_a_model_that_is_not_gaussian_comes_from_a_grid() -> None:
    found = exact_evidence(binary, Normal(), Normal(0.5, 0.8))
    exact, _ = scipy.integrate.quad(
        lambda z: scipy.stats.norm.pdf(z) / (1 + math.exp(1 - 3 * z)), -12, 12, epsabs=1e-13
    )
    assert found is not None
    assert found.method == "quadrature"
    assert found.value == pytest.approx(math.log(exact), abs=1e-8)


def test_the_scalar_model_with_an_exponential_code_has_its_bound_and_its_evidence() -> None:
    prior = Exponential(1.0)
    report = elbo_report(
        lambda z: prior.log_prob(z) + Normal(z, 1.0).log_prob(2.0),
        Exponential(0.8),
        jax.random.key(0),
        prior=prior,
    )
    assert report.evidence is not None
    assert report.evidence.value == pytest.approx(float(exponential.evidence(2.0, 1.0)), abs=1e-9)
    for found in (report.elbo, report.by_rate, report.by_entropy):
        assert found is not None
        assert found.value == pytest.approx(
            float(exponential.bound(2.0, 1.0, 0.8)), abs=4 * found.standard_error
        )


def test_codes_on_an_interval_and_several_side_by_side_are_integrated_too() -> None:
    """A coin with a beta prior comes up heads; two exponential codes that are seen with noise."""
    coin = Beta(2.0, 3.0)
    heads = exact_evidence(lambda z: coin.log_prob(z) + jnp.log(z), coin)
    assert heads is not None
    assert heads.value == pytest.approx(math.log(0.4), abs=1e-9)
    prior = Independent(Exponential(np.array([1.0, 2.0])))
    two = exact_evidence(lambda z: prior.log_prob(z) + jax.scipy.stats.norm.logpdf(z - 1.0).sum(), prior)
    expected = sum(float(exponential.evidence(1.0, theta)) for theta in (1.0, 2.0))
    assert two is not None
    assert two.value == pytest.approx(expected, abs=1e-8)


def test_grids_reach_three_coordinates_and_no_further() -> None:
    def log_joint(z: jax.Array) -> jax.Array:
        return jax.scipy.stats.norm.logpdf(z).sum() + jax.nn.log_sigmoid(2 * z).sum()

    two = exact_evidence(log_joint, MultivariateNormal(np.zeros(2), np.eye(2)))
    assert two is not None
    assert two.value == pytest.approx(2 * math.log(0.5), abs=1e-8)  # by symmetry
    three = exact_evidence(log_joint, MultivariateNormal(np.zeros(3), np.eye(3)))
    assert three is not None
    assert three.value == pytest.approx(3 * math.log(0.5), abs=1e-6)
    assert exact_evidence(log_joint, MultivariateNormal(np.zeros(4), np.eye(4))) is None


def test_a_density_finer_than_the_grid_is_not_believed() -> None:
    def needle(z: jax.Array) -> jax.Array:
        return jax.scipy.stats.logistic.logpdf(z, 0.1234, 1e-5)

    assert exact_evidence(needle, Normal()) is None


def test_mistakes_are_named() -> None:
    with pytest.raises(ArgumentError, match="there is no key"):
        elbo_report(gaussian, Normal())
    with pytest.raises(ArgumentError, match="the guide is a batch of shape"):
        elbo_report(gaussian, Normal(np.zeros(3), 1.0), jax.random.key(0))
    with pytest.raises(ArgumentError, match=r"returned shape \(2,\) for one z"):
        elbo_report(lambda z: jnp.stack([z, z]), Normal(), jax.random.key(0))
