"""Closed forms of linear auto-encoders and denoisers, against each other and against least squares."""

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability.linear import (
    best_code,
    linear_denoiser,
    principal_components,
    projection_error,
    projector,
    reconstruction_error,
)

DRAW = np.random.default_rng(0)
VARIANCES = np.array([4.0, 2.0, 1.0, 0.5, 0.25, 0.1])
AXES = np.linalg.qr(DRAW.normal(size=(6, 6)))[0]
MOMENTS = (AXES * VARIANCES) @ AXES.T


def test_the_best_code_is_the_one_of_the_projection() -> None:
    w, x = DRAW.normal(size=(6, 2)), DRAW.normal(size=(6, 50))
    code = best_code(w, x)
    np.testing.assert_allclose(code, np.linalg.inv(w.T @ w) @ w.T @ x, atol=1e-10)
    p = projector(w)
    np.testing.assert_allclose(w @ code, p @ x, atol=1e-10)
    np.testing.assert_allclose(p @ p, p, atol=1e-12)
    np.testing.assert_allclose(p, p.T, atol=1e-12)
    squares = np.square(x - w @ code).sum(axis=0).mean()
    assert projection_error(w, x @ x.T / 50) == pytest.approx(squares)
    assert reconstruction_error(w, np.linalg.pinv(w), x @ x.T / 50) == pytest.approx(squares)


def test_the_principal_axes_are_best_however_they_are_mixed_and_halfway_to_their_negative_is_far_worse() -> (
    None
):
    u, q = AXES[:, :2], DRAW.normal(size=(2, 2))
    least = VARIANCES[2:].sum()
    for w, v in ((u, u.T), (u @ q, np.linalg.inv(q) @ u.T), (-u, -u.T)):
        assert reconstruction_error(w, v, MOMENTS) == pytest.approx(least)
    assert reconstruction_error(0 * u, 0 * u.T, MOMENTS) == pytest.approx(VARIANCES.sum())
    # Scaling the axes by their deviations, as in U Sigma U', is no optimum.
    assert reconstruction_error(u, np.diag(np.sqrt(VARIANCES[:2])) @ u.T, MOMENTS) > least + 0.5
    for _ in range(20):
        assert projection_error(DRAW.normal(size=(6, 2)), MOMENTS) > least
    x = DRAW.normal(size=(500, 6)) @ np.linalg.cholesky(MOMENTS).T
    x -= x.mean(axis=0)
    found = principal_components(x, 2)
    assert projection_error(found.axes.T, x.T @ x / 500) == pytest.approx(found.error)


def test_least_squares_on_noisy_data_finds_the_linear_denoiser() -> None:
    sigma, count = 0.7, 200_000
    x = DRAW.normal(size=(count, 6)) @ np.linalg.cholesky(MOMENTS).T
    y = x + sigma * DRAW.normal(size=x.shape)
    fitted = np.linalg.lstsq(y, x, rcond=None)[0].T
    exact = linear_denoiser(MOMENTS, sigma)
    np.testing.assert_allclose(exact, MOMENTS @ np.linalg.inv(MOMENTS + sigma**2 * np.eye(6)), atol=1e-12)
    # The error of a regression coefficient is about sigma / deviation(y) / sqrt(count), at most 1 / sqrt(count) here.
    np.testing.assert_allclose(fitted, exact, atol=6 / np.sqrt(count))
    np.testing.assert_allclose(
        np.linalg.eigvalsh(exact)[::-1], VARIANCES / (VARIANCES + sigma**2), rtol=1e-10
    )
    with pytest.raises(ArgumentError, match="sigma=0"):
        linear_denoiser(MOMENTS, 0)
