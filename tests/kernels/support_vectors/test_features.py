"""Support vector machines on features in place of a kernel: scikit-learn's linear ones, and the exact machines."""

import warnings

import jax
import numpy as np
import pytest
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM

from chainrule.core.errors import ArgumentError
from chainrule.kernels import RBF
from chainrule.kernels.support_vectors import (
    OneClassSupportVectors,
    SupportVectorClassifier,
    SupportVectorRegressor,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
Y = np.where(X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=90) > 0, "yes", "no")
VALUES = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
NEW = RNG.normal(size=(40, 3))
WEIGHTS = RNG.uniform(0.5, 2.0, size=90)
KERNEL = RBF(1.5)
KEY = jax.random.key(0)
THEIRS = {"kernel": "linear", "tol": 1e-8}


def psi(machine) -> tuple[np.ndarray, np.ndarray]:
    """The features that a machine stands on, of the examples and of the new points."""
    with jax.enable_x64(True):
        return np.asarray(machine.kernel.map(X)), np.asarray(machine.kernel.map(NEW))


@pytest.mark.parametrize(("method", "count"), [("nystrom", 20), ("rff", 200)])  # fewer and more than rows
@pytest.mark.parametrize("price", [0.5, 100.0])
def test_borders_are_those_of_a_linear_machine(method: str, count: int, price: float) -> None:
    ours = SupportVectorClassifier(KERNEL, C=price, approximate=method, count=count, key=KEY).fit(
        X, Y, WEIGHTS
    )
    seen, new = psi(ours)
    theirs = SVC(C=price, **THEIRS).fit(seen, Y, WEIGHTS)
    np.testing.assert_allclose(ours.decision(NEW), theirs.decision_function(new), atol=1e-3)
    assert abs(len(ours.support) - len(theirs.support_)) <= 2
    assert ours.optima[0].converged
    # The dual of scikit-learn's coefficients is the objective that was reached.
    b = np.zeros(len(X))
    b[theirs.support_] = theirs.dual_coef_[0]
    dual = 0.5 * np.square(seen.T @ b).sum() - np.abs(b).sum()
    assert ours.optima[0].objective == pytest.approx(dual, rel=1e-4)


def test_nu_values_and_regions_are_those_of_linear_machines() -> None:
    features = {"approximate": "nystrom", "count": 25}
    nu = SupportVectorClassifier(KERNEL, nu=0.3, **features).fit(X, Y)
    seen, new = psi(nu)
    theirs = NuSVC(nu=0.3, **THEIRS).fit(seen, Y)
    np.testing.assert_allclose(nu.decision(NEW), theirs.decision_function(new), atol=5e-3)
    values = SupportVectorRegressor(KERNEL, C=5.0, epsilon=0.05, **features).fit(X, VALUES)
    expected = SVR(C=5.0, epsilon=0.05, **THEIRS).fit(seen, VALUES).predict(new)
    np.testing.assert_allclose(values.predict(NEW), expected, atol=2e-3)
    region = OneClassSupportVectors(KERNEL, nu=0.2, **features).fit(X)
    inside = OneClassSVM(nu=0.2, **THEIRS).fit(seen).decision_function(new)
    np.testing.assert_allclose(region.decision(NEW), inside, atol=2e-3)


def test_a_tube_without_width_and_one_that_holds_everything_are_solved() -> None:
    features = {"approximate": "nystrom", "count": 25}
    narrow = SupportVectorRegressor(KERNEL, C=1.0, epsilon=0.0, **features).fit(X, VALUES)
    seen, new = psi(narrow)
    expected = SVR(C=1.0, epsilon=0.0, **THEIRS).fit(seen, VALUES).predict(new)
    np.testing.assert_allclose(narrow.predict(NEW), expected, atol=5e-3)
    wide = SupportVectorRegressor(KERNEL, epsilon=10.0, **features).fit(X, VALUES)
    assert len(wide.support) == 0
    assert np.ptp(wide.predict(NEW)) < 1e-4


def test_with_more_features_the_machine_comes_close_to_the_exact_one() -> None:
    exact = SupportVectorClassifier(KERNEL, tolerance=1e-6).fit(X, Y).decision(NEW)

    def error(method: str, count: int) -> float:
        near = SupportVectorClassifier(KERNEL, approximate=method, count=count, key=KEY).fit(X, Y)
        return float(np.abs(near.decision(NEW) - exact).mean())

    few, many = error("rff", 64), error("rff", 4096)
    assert many < 0.4 * few
    assert error("nystrom", 30) < 0.1
    assert error("nystrom", 90) < 1e-3  # landmarks are all of the examples


def test_several_classes_have_probabilities_by_features() -> None:
    y = np.digitize(X[:, 0], (-0.4, 0.4))
    found = SupportVectorClassifier(KERNEL, approximate="nystrom", count=20, probabilities=True).fit(X, y)
    odds = found.probabilities(X)
    np.testing.assert_allclose(odds.sum(axis=1), 1)
    assert (odds.argmax(axis=1) == y).mean() > 0.9


def test_a_price_without_bounds_ends_within_the_steps_or_says_so() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = SupportVectorClassifier(KERNEL, C=1e4, approximate="nystrom", count=40).fit(X, Y)
    assert found.optima[0].converged
    with pytest.warns(UserWarning, match="after 3 steps the duality gap is"):
        SupportVectorClassifier(KERNEL, C=1e4, approximate="nystrom", count=40, steps=3).fit(X, Y)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: SupportVectorClassifier(approximate="fast"), 'must be "none", "rff" or "nystrom"'),
        (lambda: SupportVectorRegressor(approximate="rff", count=0), "count=0"),
        (lambda: OneClassSupportVectors(approximate="nystrom", count=91).fit(X), "there are only 90 points"),
    ],
)
def test_what_cannot_be_is_refused(call, words) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()
