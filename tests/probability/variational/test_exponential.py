"""The scalar model with an exponential code: its bound, optimum and evidence against numerical integration."""

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.special
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.explain import experiments
from chainrule.probability.variational import exponential


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(("x", "theta", "phi"), [(2.0, 1.0, 1.0), (0.7, 0.4, 3.0), (-1.0, 2.0, 0.5)])
def test_bound_and_evidence_are_their_integrals(x: float, theta: float, phi: float) -> None:
    def log_joint(z: float) -> float:
        return float(scipy.stats.expon.logpdf(z, scale=1 / theta) + scipy.stats.norm.logpdf(x, z, 1))

    def under_guide(z: float) -> float:
        log_q = math.log(phi) - phi * z
        return math.exp(log_q) * (log_joint(z) - log_q)

    bound, _ = scipy.integrate.quad(under_guide, 0, 60 / phi, limit=200)
    total, _ = scipy.integrate.quad(lambda z: math.exp(log_joint(z)), 0, 30, limit=200)
    assert float(exponential.bound(x, theta, phi)) == pytest.approx(bound, abs=1e-8)
    assert float(exponential.evidence(x, theta)) == pytest.approx(math.log(total), abs=1e-8)
    assert bound <= math.log(total)


def test_at_two_the_optimum_is_one_and_misses_the_likeliest_parameter() -> None:
    best = exponential.joint_optimum(2.0)
    assert best[:2] == (1.0, 1.0)
    assert best.bound == pytest.approx(-1.918939, abs=1e-6)
    assert float(exponential.bound(2.0, 1.0, 1.0)) == pytest.approx(best.bound, abs=1e-12)
    assert float(exponential.evidence(2.0, 1.0)) == pytest.approx(-1.672754, abs=1e-6)
    likeliest = scipy.optimize.minimize_scalar(
        lambda theta: -float(exponential.evidence(2.0, theta)), bounds=(0.1, 3), options={"xatol": 1e-9}
    )
    assert likeliest.x == pytest.approx(0.657774, abs=1e-5)


def test_at_one_the_optimum_is_two_with_a_small_gap() -> None:
    best = exponential.joint_optimum(1.0)
    assert best.theta == best.phi == 2.0
    assert float(exponential.evidence(1.0, 2.0)) - best.bound == pytest.approx(0.021064, abs=1e-6)


def test_the_evidence_keeps_its_digits_in_single_precision() -> None:
    """Far from x two large numbers would cancel."""
    for x, theta in ((0.1, 100.0), (2.0, 500.0), (2.0, 2.0), (20.0, 0.1)):
        if theta < x:
            expected = math.log(theta) + theta**2 / 2 - theta * x + scipy.special.log_ndtr(x - theta)
        else:
            expected = (
                math.log(theta) - x**2 / 2 + math.log(scipy.special.erfcx((theta - x) / math.sqrt(2)) / 2)
            )
        with jax.enable_x64(False):
            assert float(exponential.evidence(x, theta)) == pytest.approx(expected, rel=2e-6)
    slope = jax.jit(jax.vmap(jax.grad(exponential.evidence, 1), (None, 0)))(2.0, jnp.array([0.5, 3.0, 50.0]))
    excess = 2.0 - np.array([0.5, 3.0, 50.0])
    hazard = np.exp(scipy.stats.norm.logpdf(excess) - scipy.stats.norm.logcdf(excess))
    assert np.asarray(slope) == pytest.approx(1 / (2.0 - excess) - excess - hazard, abs=1e-9)


@pytest.mark.parametrize("x", [0.5, 1.0, 2.0, 5.0])
def test_the_gradient_vanishes_at_the_joint_optimum(x: float) -> None:
    best = exponential.joint_optimum(x)
    slopes = jax.grad(exponential.bound, (1, 2))(x, best.theta, best.phi)
    assert np.abs(slopes).max() < 1e-12


@pytest.mark.parametrize(("x", "theta"), [(2.0, 0.3), (-40.0, 1.0), (40.0, 1.0), (0.0, 2.0)])
def test_the_best_guide_of_a_given_model_is_the_root_of_its_equation(x: float, theta: float) -> None:
    phi = float(exponential.best_phi(x, theta))
    assert phi > 0
    assert phi**2 + (x - theta) * phi - 2 == pytest.approx(0, abs=1e-10)
    assert float(jax.grad(exponential.bound, 2)(x, theta, phi)) == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize("x", [0.0, -3.0])
def test_there_is_no_optimum_where_x_is_not_positive(x: float) -> None:
    with pytest.raises(ArgumentError, match="no maximum for x <= 0"):
        exponential.joint_optimum(x)
    thetas = [10.0, 100.0, 1000.0]
    bounds = [float(exponential.bound(x, t, exponential.best_phi(x, t))) for t in thetas]
    assert bounds == sorted(bounds)


def test_the_experiment_finds_both_maxima() -> None:
    numbers = experiments.run("evidence-bound").numbers
    assert numbers["likeliest_theta"] == pytest.approx(0.657774, abs=1e-6)
    assert numbers["best_theta"] == 1.0
    assert numbers["evidence"] - numbers["bound"] == pytest.approx(0.246185, abs=1e-5)
    other = experiments.run("evidence-bound", x=1.0, theta=0.5).numbers
    assert other["phi"] == pytest.approx(float(exponential.best_phi(1.0, 0.5)), abs=1e-6)
