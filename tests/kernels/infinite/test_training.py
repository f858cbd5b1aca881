"""Training without training: published numbers, matrix exponentials, steps written out, other losses and momentum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.kernels import RBF
from chainrule.kernels.infinite import (
    NTK,
    Dense,
    cross_entropy,
    gradient_descent,
    max_learning_rate,
    train_by_loss,
)
from chainrule.kernels.regression import KernelRidge

NETWORK = Dense(1, "relu")
X, Y, NEW = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), np.array([1.0, -1.0, 0.5]), np.array([[0.8, 0.6]])


@pytest.fixture(scope="module")
def matrices() -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(NETWORK.ntk(X)), np.asarray(NETWORK.ntk(NEW, X))


def squared(f: jax.Array, y: jax.Array) -> jax.Array:
    return 0.5 * jnp.square(f - y).sum()


def test_means_and_variances_are_the_published_ones() -> None:
    mean, covariance = gradient_descent(NETWORK.ntk, NETWORK.nngp, X, Y, [1, 10, np.inf])(NEW)
    np.testing.assert_allclose(mean[:, 0], [-0.053263, -0.576042, -0.610963], atol=5e-7)
    np.testing.assert_allclose(covariance[:, 0, 0], [0.035364, 0.011794, 0.011209], atol=5e-7)
    bayes = gradient_descent(NETWORK.ntk, NETWORK.nngp, X, Y, get="nngp")(NEW)
    assert bayes.mean[0] == pytest.approx(-0.821421, abs=5e-7)
    assert bayes.variance[0] == pytest.approx(0.009370, abs=5e-7)
    assert max_learning_rate(NETWORK.ntk(X)) == pytest.approx(0.501003, abs=5e-7)


def test_time_zero_is_the_prior_and_outputs_of_training_points_follow_the_exponential() -> None:
    x_new = np.random.default_rng(0).normal(size=(4, 2))
    start = gradient_descent(NETWORK.ntk, NETWORK.nngp, X, Y, 0.0)(x_new)
    np.testing.assert_allclose(start.mean, 0, atol=1e-14)
    np.testing.assert_allclose(start.covariance, NETWORK.nngp(x_new), rtol=1e-6)
    two = np.stack([Y, 2 * Y], axis=1)
    trained = gradient_descent(NETWORK.ntk, NETWORK.nngp, X, two, 0.7, learning_rate=0.3)
    theta = (
        np.asarray(trained.descent.vectors * trained.descent.values) @ np.asarray(trained.descent.vectors).T
    )
    decay = scipy.linalg.expm(-0.3 * 0.7 * theta)
    np.testing.assert_allclose(trained.training_outputs(), two - decay @ two, rtol=1e-9)
    np.testing.assert_allclose(trained(X).mean, two - decay @ two, rtol=1e-6)
    np.testing.assert_allclose(trained(X).covariance, decay @ trained.covariance @ decay, atol=1e-6)


def test_discrete_steps_are_those_of_gradient_descent(matrices: tuple[np.ndarray, np.ndarray]) -> None:
    theta, cross = matrices
    rate, f, new = 0.3, np.zeros(3), np.zeros(1)
    for _ in range(7):
        slope = f - Y
        f, new = f - rate * theta @ slope, new - rate * cross @ slope
    found = gradient_descent(NETWORK.ntk, NETWORK.nngp, X, Y, 7, learning_rate=rate, discrete=True)
    np.testing.assert_allclose(found(NEW).mean, new, rtol=1e-6)
    end = gradient_descent(NETWORK.ntk, NETWORK.nngp, X, Y, np.inf, learning_rate=rate, discrete=True)
    assert end(NEW).mean[0] == pytest.approx(-0.610963, abs=5e-7)
    with pytest.raises(ArgumentError, match="diverge") as refused:
        gradient_descent(NETWORK.ntk, NETWORK.nngp, X, Y, 7, learning_rate=0.502, discrete=True)
    remedy = float(str(refused.value).rpartition("learning_rate=")[2])
    gradient_descent(NETWORK.ntk, NETWORK.nngp, X, Y, 7, learning_rate=remedy, discrete=True)


def test_at_the_end_with_a_ridge_it_is_kernel_ridge_regression() -> None:
    mean = gradient_descent(NETWORK.ntk, NETWORK.nngp, X, Y, ridge=0.1)(NEW).mean
    np.testing.assert_allclose(mean, KernelRidge(NTK(NETWORK), ridge=0.1).fit(X, Y).predict(NEW), rtol=1e-6)
    by_kernels = gradient_descent(RBF(1.0), RBF(1.0), X, Y, ridge=0.1)(NEW).mean
    np.testing.assert_allclose(
        by_kernels, KernelRidge(RBF(1.0), ridge=0.1).fit(X, Y).predict(NEW), rtol=1e-10
    )


def test_a_singular_kernel_is_warned_of_with_its_smallest_eigenvalue() -> None:
    twice = np.concatenate([X, X[:1]])
    with pytest.warns(ChainruleWarning, match="smallest eigenvalue is .* beside"):
        found = gradient_descent(NETWORK.ntk, NETWORK.nngp, twice, [1.0, -1.0, 0.5, 1.0])
    assert found(NEW).mean[0] == pytest.approx(-0.610963, abs=1e-5)


def test_any_loss_is_integrated_and_agrees_where_the_solution_is_known(
    matrices: tuple[np.ndarray, np.ndarray],
) -> None:
    theta, cross = matrices
    gathered = train_by_loss(theta, squared, Y[:, None], [1.0, 10.0])
    exact = gradient_descent(NETWORK.ntk, NETWORK.nngp, X, Y, [1.0, 10.0])(NEW).mean
    np.testing.assert_allclose(gathered.outputs(cross, 0.0)[..., 0], exact, rtol=1e-6)


def test_cross_entropy_follows_small_steps(matrices: tuple[np.ndarray, np.ndarray]) -> None:
    theta, _ = matrices
    classes, rate, steps = np.array([0, 1, 0]), 1e-3, 2000
    gathered = train_by_loss(theta, cross_entropy, classes, steps * rate, outputs=2)
    f = np.zeros((3, 2))
    for _ in range(steps):
        p = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
        f = f - rate * theta @ (p - np.eye(2)[classes])
    np.testing.assert_allclose(gathered.outputs(theta, np.zeros((3, 2))), f, atol=2e-3)


def test_momentum_is_the_limit_of_heavy_ball_steps(matrices: tuple[np.ndarray, np.ndarray]) -> None:
    theta, _ = matrices
    rate, momentum, steps = 1e-5, 0.99, 1000
    gathered = train_by_loss(theta, squared, Y[:, None], float(steps), learning_rate=rate, momentum=momentum)
    f, moved = np.zeros(3), np.zeros(3)
    for _ in range(steps):
        moved = momentum * moved - rate * theta @ (f - Y)
        f = f + moved
    np.testing.assert_allclose(gathered.outputs(theta, np.zeros((3, 1)))[:, 0], f, rtol=0.02)
    assert max_learning_rate(theta, momentum=0.5) == pytest.approx(1.5 * max_learning_rate(theta))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"t": -1.0}, "at least 0"),
        ({"t": [[1.0]]}, "a row of them"),
        ({"t": 1.5, "discrete": True}, "whole numbers"),
        ({"learning_rate": 0.0}, "must be positive"),
        ({"ridge": -1.0}, "at least 0"),
        ({"get": "gp"}, "get must be"),
        ({"y": [1.0, 2.0]}, "3 points and y has 2"),
        ({"y": [1.0, np.nan, 2.0]}, "must be finite"),
        ({"x": [1.0, 2.0, 3.0]}, r"use x\[:, None\]"),
    ],
)
def test_what_cannot_be_trained_is_named(settings: dict[str, object], message: str) -> None:
    given = {"x": X, "y": Y, "t": 1.0, **settings}
    with pytest.raises(ArgumentError, match=message):
        gradient_descent(NETWORK.ntk, NETWORK.nngp, given.pop("x"), given.pop("y"), given.pop("t"), **given)  # type: ignore[arg-type]


def test_times_and_momentum_of_other_losses_are_checked() -> None:
    for settings, message in (
        ({"t": [2.0, 1.0]}, "in order"),
        ({"t": np.inf}, "finite"),
        ({"t": 1.0, "momentum": 1.0}, "momentum"),
        ({"t": 1.0, "start": np.zeros(3)}, "outputs"),
        ({"t": 1.0, "learning_rate": -1.0}, "learning_rate must be positive"),
        ({"t": 1.0, "outputs": 0}, "outputs"),
    ):
        with pytest.raises(ArgumentError, match=message):
            train_by_loss(np.eye(3), squared, Y[:, None], settings.pop("t"), **settings)  # type: ignore[arg-type]


def test_losses_that_are_no_number_or_compare_all_targets_with_all_outputs_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"\(3, 1\) with targets of shape \(3,\)(.|\n)*y\[:, None\]"):
        train_by_loss(np.eye(3), squared, Y, 1.0)
    with pytest.raises(ArgumentError, match=r"gives \(3, 1\) in place of one number"):
        train_by_loss(np.eye(3), lambda f, y: (f - y) ** 2, Y[:, None], 1.0)
    with pytest.raises(ArgumentError, match=r"expected \(points, 3\), got \(3, 1\): transpose it"):
        train_by_loss(np.eye(3), squared, Y[:, None], 1.0).outputs(np.ones((3, 1)), 0.0)
    by_hand = train_by_loss(np.eye(3), lambda f, y: 0.5 * ((f[:, 0] - y) ** 2).sum(), Y, 1.0)
    expected = train_by_loss(np.eye(3), squared, Y[:, None], 1.0)
    np.testing.assert_array_equal(by_hand.slopes, expected.slopes)


def test_a_direction_that_one_step_learns_whole_is_not_learnt_before_it() -> None:
    point, target = [[0.0]], [3.0]
    steps = [0, 1, 2, np.inf]
    found = gradient_descent(RBF(1.0), RBF(1.0), point, target, steps, discrete=True)(point).mean
    np.testing.assert_array_equal(found[:, 0], [0.0, 3.0, 3.0, 3.0])
