"""Kernel ridge regression against scikit-learn, fits without each row in turn, and a Gaussian process' mean."""

import jax
import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge as Theirs

from chainrule.core.errors import ArgumentError, DataError
from chainrule.kernels import RBF, GaussianProcess, Linear, Matern, Polynomial, regression
from chainrule.kernels.regression import FittedFeatures, FittedRidge, KernelRidge, search_ridge

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(60, 3)), RNG.normal(size=(20, 3))
Y = np.stack([np.sin(X[:, 0]) + 0.1 * RNG.normal(size=60), X[:, 1] * X[:, 2]], axis=1)


@pytest.mark.parametrize(
    ("kernel", "theirs"),
    [
        (lambda: RBF(gamma=0.4), {"kernel": "rbf", "gamma": 0.4}),
        (lambda: Polynomial(3, 1.0), {"kernel": "polynomial", "degree": 3, "gamma": 1.0, "coef0": 1.0}),
        (Linear, {"kernel": "linear"}),
    ],
)
def test_predictions_are_those_of_scikit_learn(kernel, theirs) -> None:
    fitted = KernelRidge(kernel(), 0.1).fit(X, Y)
    expected = Theirs(alpha=0.1, **theirs).fit(X, Y)
    np.testing.assert_allclose(fitted.predict(NEW), expected.predict(NEW), atol=1e-8)
    np.testing.assert_allclose(fitted.coefficients, expected.dual_coef_, atol=1e-8)


def test_weights_are_those_of_scikit_learn_and_repeat_rows() -> None:
    weights = np.where(np.arange(60) < 20, 2.0, 1.0)
    fitted = KernelRidge(RBF(gamma=0.4), 0.1).fit(X, Y, weights)
    theirs = Theirs(alpha=0.1, kernel="rbf", gamma=0.4).fit(X, Y, weights)
    np.testing.assert_allclose(fitted.predict(NEW), theirs.predict(NEW), atol=1e-8)
    twice = KernelRidge(RBF(gamma=0.4), 0.1).fit(np.concatenate([X, X[:20]]), np.concatenate([Y, Y[:20]]))
    np.testing.assert_allclose(fitted.predict(NEW), twice.predict(NEW), atol=1e-7)


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 60)])
def test_residuals_are_those_of_fits_without_the_row(weights) -> None:
    fitted = KernelRidge(RBF(1.0), 0.3).fit(X, Y, weights)
    for i in (0, 17, 59):
        rest = np.arange(60) != i
        without = KernelRidge(RBF(1.0), 0.3).fit(X[rest], Y[rest], None if weights is None else weights[rest])
        np.testing.assert_allclose(fitted.residuals[i], Y[i] - without.predict(X[i : i + 1])[0], atol=1e-9)


def test_the_ridge_is_the_one_with_the_least_leave_one_out_error() -> None:
    fitted = KernelRidge(RBF(1.0)).fit(X, Y)
    assert isinstance(fitted, FittedRidge)
    assert fitted.searched is not None
    for ridge, error in list(zip(*fitted.searched, strict=True))[20::11]:
        own = KernelRidge(RBF(1.0), float(ridge)).fit(X, Y)
        np.testing.assert_allclose(np.square(own.residuals).mean(), error, rtol=1e-6)
    assert fitted.ridge == fitted.searched.ridges[fitted.searched.errors.argmin()]
    assert np.square(fitted.residuals).mean() <= fitted.searched.errors.min() * (1 + 1e-9)


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 60)])
def test_many_rows_are_solved_in_place_and_judge_few_ridges(weights, monkeypatch) -> None:
    direct = KernelRidge(RBF(1.0)).fit(X, Y, weights)
    monkeypatch.setattr(regression, "MANY", 40)
    found = KernelRidge(RBF(1.0)).fit(X, Y, weights)
    assert isinstance(direct, FittedRidge)
    assert isinstance(found, FittedRidge)
    assert found.ridge == pytest.approx(direct.ridge, rel=1e-12)
    np.testing.assert_allclose(found.coefficients, direct.coefficients, atol=1e-9)
    np.testing.assert_allclose(found.residuals, direct.residuals, atol=1e-9)
    assert found.searched is not None
    assert direct.searched is not None
    assert 3 <= len(found.searched.ridges) < 20
    all_errors = dict(zip(direct.searched.ridges.round(15), direct.searched.errors, strict=True))
    for ridge, error in zip(*found.searched, strict=True):
        assert error == pytest.approx(all_errors[ridge.round(15)], rel=1e-6)


def test_weighted_errors_choose_the_ridge() -> None:
    weights = np.linspace(0.5, 2.0, 60)
    found = search_ridge(RBF(1.0), X, Y, weights, ridges=[0.1, 1.0])
    own = KernelRidge(RBF(1.0), 0.1).fit(X, Y, weights)
    np.testing.assert_allclose(
        (weights[:, None] * np.square(own.residuals)).mean(), found.errors[0], rtol=1e-8
    )


def test_it_is_the_mean_of_a_gaussian_process_with_the_ridge_as_noise() -> None:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF as TheirRBF

    process = GaussianProcessRegressor(TheirRBF(1.3), alpha=0.2, optimizer=None).fit(X, Y)
    ours, _ = GaussianProcess(RBF(1.3), 0.2).fit(X, Y[:, 0]).predict(NEW)
    np.testing.assert_allclose(KernelRidge(RBF(1.3), 0.2).fit(X, Y[:, 0]).predict(NEW), ours, atol=1e-8)
    np.testing.assert_allclose(
        KernelRidge(RBF(1.3), 0.2).fit(X, Y).predict(NEW), process.predict(NEW), atol=1e-8
    )


def test_without_a_ridge_it_interpolates_with_the_least_norm() -> None:
    fitted = KernelRidge(Matern(1.5, 1.0), 0.0).fit(X, Y[:, 0])
    np.testing.assert_allclose(fitted.predict(X), Y[:, 0], atol=1e-8)
    more = KernelRidge(Matern(1.5, 1.0), 0.0).fit(np.concatenate([X, NEW[:1]]), np.append(Y[:, 0], 3.0))
    assert fitted.norm < more.norm  # also passes through all the values
    across = np.asarray(Matern(1.5, 1.0).gram(NEW, X))
    np.testing.assert_allclose(fitted.predict(gram=across), fitted.predict(NEW), atol=1e-6)
    smoother = KernelRidge(Matern(1.5, 1.0), 1.0).fit(X, Y[:, 0])
    assert smoother.norm < fitted.norm


def test_equal_points_with_other_values_cannot_be_interpolated_but_smoothed() -> None:
    x, y = np.array([0.0, 1.0, 1.0]), np.array([0.0, 1.0, 2.0])
    with pytest.raises(DataError, match="rows 1 and 2 are the same point"):
        KernelRidge(RBF(1.0), 0.0).fit(x, y)
    assert KernelRidge(RBF(1.0), 1e-6).fit(x, y).predict([1.0])[0] == pytest.approx(1.5, abs=1e-4)


def test_solving_is_in_double_precision_whatever_is_around() -> None:
    with jax.enable_x64(False):
        fitted = KernelRidge(RBF(gamma=0.5), 1e-9).fit(X, Y)
        assert fitted.predict(NEW).dtype == np.float64
    exact = Theirs(alpha=1e-9, kernel="rbf", gamma=0.5).fit(X, Y)
    np.testing.assert_allclose(fitted.predict(NEW), exact.predict(NEW), atol=1e-4)


@pytest.mark.parametrize(("method", "most"), [("rff", 0.2), ("nystrom", 1e-6)])
def test_features_stand_for_the_kernel(method, most) -> None:
    count = {"rff": 1000, "nystrom": 60}[method]
    near = KernelRidge(RBF(1.5), 0.1, approximate=method, count=count).fit(X, Y)
    exact = KernelRidge(RBF(1.5), 0.1).fit(X, Y)
    assert isinstance(near, FittedFeatures)
    np.testing.assert_allclose(near.predict(NEW), exact.predict(NEW), atol=most)
    np.testing.assert_allclose(near.residuals, exact.residuals, atol=3 * most)


def test_features_have_residuals_and_ridges_of_their_own() -> None:
    features = {"approximate": "nystrom", "count": 10}
    fitted = KernelRidge(RBF(1.5), **features).fit(X, Y[:, 0])
    assert fitted.searched is not None
    assert fitted.searched.best == fitted.ridge
    rows = np.asarray(fitted.features(X))
    weights = np.linalg.solve(rows.T @ rows + fitted.ridge * np.eye(10), rows.T @ Y[:, 0])
    np.testing.assert_allclose(fitted.weights, weights, rtol=1e-5)
    hat = rows @ np.linalg.solve(rows.T @ rows + fitted.ridge * np.eye(10), rows.T)
    expected = (Y[:, 0] - hat @ Y[:, 0]) / (1 - np.diag(hat))
    np.testing.assert_allclose(fitted.residuals, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: KernelRidge(RBF(1.0), -1.0), "ridge is -1; ridge must be at least 0"),
        (lambda: KernelRidge(RBF(1.0), approximate="fast"), 'approximate must be "none", "rff" or "nystrom"'),
        (lambda: KernelRidge(RBF(1.0)).fit([[0.0], [np.nan]], [0.0, 1.0]), "row 1, column 0 is nan"),
        (lambda: KernelRidge(RBF(1.0)).fit([0.0, 1.0], [0.0]), "1 targets for 2 points"),
        (lambda: KernelRidge(RBF(1.0)).fit([0.0], [0.0], [0.0]), "one positive number for each of 1 rows"),
        (lambda: KernelRidge(RBF(1.0), 1.0).fit(X, Y).predict(NEW.T), r"expected \(n, 3\), got \(3, 20\)"),
        (
            lambda: KernelRidge(RBF(1.0), 1.0, approximate="rff", count=4).fit(X, Y).predict(NEW.T),
            r"expected \(n, 3\), got \(3, 20\)",
        ),
        (
            lambda: KernelRidge(RBF(1.0), 1.0).fit(X, Y).predict(gram=np.zeros((60, 2))),
            r"expected \(n_test, 60\), got \(60, 2\): transpose it",
        ),
        (lambda: KernelRidge(RBF(1.0), 1.0).fit(X, Y).predict(), "give new points x, or gram"),
        (lambda: search_ridge(RBF(1.0), X, Y, ridges=[0.0]), "a list of positive numbers"),
    ],
)
def test_what_cannot_be_is_refused(call, words) -> None:
    with pytest.raises((ArgumentError, DataError), match=words):
        call()
