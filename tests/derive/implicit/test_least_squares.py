"""Nonlinear least squares and its derivatives, against normal equations and differences."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.derive import implicit

DRAW = np.random.default_rng(5)
X, Y = DRAW.normal(size=(12, 3)), DRAW.normal(size=12)
T = np.linspace(0.0, 2.0, 12)
NOISY = 1.5 * np.exp(-0.8 * T) + 0.1 * np.cos(7 * T)


def decay(w: Any, y: Any) -> Any:
    return w[0] * jnp.exp(-w[1] * T) - y


@pytest.mark.parametrize("solver", ["levenberg-marquardt", "gauss-newton", "lbfgs", "newton"])
def test_a_linear_fit_is_that_of_the_normal_equations(solver: str) -> None:
    fit = implicit.least_squares(lambda w, X, y: X @ w - y, solver=solver)

    @jax.jit
    def both(X: Any, y: Any) -> Any:
        return fit(jnp.zeros(3), X, y), jax.jacrev(fit, 2)(jnp.zeros(3), X, y)

    w, slopes = both(X, Y)
    np.testing.assert_allclose(w, np.linalg.lstsq(X, Y)[0], rtol=1e-10)
    np.testing.assert_allclose(slopes, np.linalg.pinv(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("solver", ["levenberg-marquardt", "gauss-newton"])
def test_a_fit_that_leaves_residuals_has_the_derivatives_of_its_whole_hessian(solver: str) -> None:
    fit = implicit.least_squares(decay, solver=solver)
    first = jnp.array([1.0, 1.0])

    @jax.jit
    def both(y: Any) -> Any:
        return fit(first, y), jax.jacfwd(lambda y: fit(first, y))(y)

    w, slopes = both(NOISY)
    assert np.linalg.norm(decay(w, NOISY)) > 0.1
    step = 1e-5
    for index in (0, 5):
        moved = step * np.eye(12)[index]
        difference = (both(NOISY + moved)[0] - both(NOISY - moved)[0]) / (2 * step)
        np.testing.assert_allclose(slopes[:, index], difference, rtol=1e-6, atol=1e-9)
    J = np.asarray(jax.jacfwd(decay)(w, NOISY))
    short = np.linalg.solve(J.T @ J, J.T)  # what the Gauss-Newton part alone would say
    assert np.abs(slopes - short).max() > 1e-3


def test_residuals_in_a_tree_sparse_hessians_and_details() -> None:
    def residuals(w: Any, y: Any) -> Any:
        return {"data": w - y, "smooth": 2.0 * jnp.diff(w), "cubic": 0.1 * w**3}

    y = np.linspace(0.0, 1.0, 8)
    dense, sparse = (
        implicit.least_squares(residuals, solver="newton", linear=how) for how in ("cholesky", "sparse")
    )
    slopes = [jax.jit(jax.jacrev(solve, 1))(jnp.zeros(8), y) for solve in (dense, sparse)]
    np.testing.assert_allclose(*slopes, rtol=1e-10, atol=1e-12)
    found = implicit.least_squares(decay).details(jnp.array([1.0, 1.0]), NOISY)
    assert found.stats.condition == "none"
    assert int(found.stats.steps) > 1


def test_residuals_that_determine_nothing_and_solvers_without_residuals_are_refused() -> None:
    with pytest.raises(ArgumentError, match="1 residuals do not determine the 3 unknowns"):
        implicit.least_squares(lambda w: jnp.sum(w)[None])(jnp.zeros(3))
    # A penalty counts, as the message says.
    ridge = implicit.least_squares(lambda w: {"fit": jnp.sum(w)[None] - 1.0, "penalty": 0.1 * w})
    np.testing.assert_allclose(ridge(jnp.zeros(3)), np.full(3, 1 / 3.01), rtol=1e-8)
    with pytest.raises(ArgumentError, match="use it with least_squares"):
        implicit.minimum(lambda w: jnp.sum(w**2), solver="gauss-newton")(jnp.zeros(3))
