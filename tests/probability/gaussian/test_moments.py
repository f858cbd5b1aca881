"""Moments of normal variables: pairings against derivatives of the generating function, recursion and draws."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.probability import gaussian as g

RHO = np.array([[1.0, 0.6], [0.6, 1.0]])
MEAN = np.array([0.5, -1.0, 0.25])
COVARIANCE = np.array([[2.0, 0.6, 0.3], [0.6, 1.0, 0.2], [0.3, 0.2, 1.5]])


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def recursion(mean: np.ndarray, covariance: np.ndarray, indices: tuple[int, ...]) -> float:
    """Integration by parts: E[X_i g] = m_i E[g] + sum over the factors of g of their covariance with X_i."""
    if not indices:
        return 1.0
    first, rest = indices[0], indices[1:]
    total = mean[first] * recursion(mean, covariance, rest)
    for at, other in enumerate(rest):
        total += covariance[first, other] * recursion(mean, covariance, rest[:at] + rest[at + 1 :])
    return total


@pytest.mark.parametrize(
    ("indices", "value"), [((0, 0, 1, 1), 1.72), ((0, 0, 0, 1), 1.8), ((0,) * 3 + (1,) * 3, 6.696)]
)
def test_moments_of_two_correlated_variables(indices, value) -> None:
    assert float(g.moment(RHO, indices)) == pytest.approx(value, abs=1e-12)
    derived = g.derivative_at_zero(lambda a: g.moment_generating_function(a, np.zeros(2), RHO), indices, 2)
    assert float(derived) == pytest.approx(value, abs=1e-10)


def test_pairings_are_as_many_as_double_factorials() -> None:
    assert [g.pairing_count(n) for n in (0, 1, 2, 4, 6, 8, 12)] == [1, 0, 1, 3, 15, 105, 10_395]
    for n in (0, 3, 4, 6, 8):
        found = list(g.pairings(n))
        assert len(set(found)) == len(found) == g.pairing_count(n)
        assert all(sorted(i for pair in one for i in pair) == list(range(n)) for one in found)


@pytest.mark.parametrize("indices", [(), (2,), (0, 1), (0, 1, 2), (2, 0, 2, 1, 0), (0, 1, 2) * 2])
def test_a_mean_is_expanded_around(indices) -> None:
    wanted = recursion(MEAN, COVARIANCE, indices)
    assert float(g.moment(COVARIANCE, indices, mean=MEAN)) == pytest.approx(wanted, abs=1e-12)
    derived = g.derivative_at_zero(lambda a: g.moment_generating_function(a, MEAN, COVARIANCE), indices, 3)
    assert float(derived) == pytest.approx(wanted, abs=1e-10)
    centred = recursion(np.zeros(3), COVARIANCE, indices)
    assert float(g.moment(COVARIANCE, indices)) == pytest.approx(centred, abs=1e-12)


def test_long_products_come_from_derivatives_and_say_so() -> None:
    with pytest.warns(ChainruleWarning, match="14 factors have 135,135 pairings"):
        assert float(g.moment([[1.0]], [0] * 14)) == pytest.approx(135_135)
    with pytest.warns(ChainruleWarning):
        mixed = float(g.moment(COVARIANCE[:2, :2], [0] * 7 + [1] * 6, mean=MEAN[:2]))
    # E[X⁷Y⁶] by Gauss-Hermite quadrature, exact for polynomials of this degree
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    factor = np.linalg.cholesky(COVARIANCE[:2, :2])
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1) @ factor.T + MEAN[:2]
    weight = np.outer(weights, weights) / weights.sum() ** 2
    assert mixed == pytest.approx((grid[..., 0] ** 7 * grid[..., 1] ** 6 * weight).sum(), rel=1e-10)
    assert float(g.moment(COVARIANCE, [0] * 13)) == 0  # odd and centred: nothing to compute


def test_twelve_factors_are_still_enumerated() -> None:
    assert float(g.moment([[1.0]], [0] * 12)) == 10_395
    assert float(g.moment([[1.0]], [0] * 12, mean=[0.0])) == 10_395


def test_moments_are_differentiable_in_their_parameters() -> None:
    slope = jax.jit(jax.grad(lambda rho: g.moment(jnp.array([[1.0, rho], [rho, 1.0]]), [0, 0, 1, 1])))(0.6)
    assert float(slope) == pytest.approx(4 * 0.6)


def test_cumulants_above_the_second_are_zero() -> None:
    assert float(g.cumulant(MEAN, COVARIANCE, [2])) == 0.25
    assert float(g.cumulant(MEAN, COVARIANCE, [0, 2])) == pytest.approx(0.3)
    assert float(g.cumulant(MEAN, COVARIANCE, [0, 1, 2])) == 0


def test_the_generating_function_keeps_the_mean() -> None:
    x = np.random.default_rng(0).multivariate_normal(MEAN, COVARIANCE, 200_000)
    a = np.array([0.3, -0.2, 0.1])
    assert float(g.moment_generating_function(a, MEAN, COVARIANCE)) == pytest.approx(
        np.exp(x @ a).mean(), rel=0.01
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: g.moment(RHO, [0, 2]), "no variable 2 among 2"),
        (lambda: g.moment(RHO, [0.5]), "whole number"),
        (lambda: g.moment(RHO, [0], mean=[0.0]), r"mean\): shape \(1,\)"),
        (lambda: g.cumulant(MEAN, COVARIANCE, []), "at least one variable"),
        (lambda: g.moment_generating_function([0.0], MEAN, COVARIANCE), "jax.vmap over a"),
    ],
)
def test_what_has_no_moment_is_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
    with pytest.warns(ChainruleWarning), pytest.raises(ArgumentError, match="8,388,608 derivatives"):
        g.moment(np.eye(23), list(range(23)), mean=np.zeros(23))
