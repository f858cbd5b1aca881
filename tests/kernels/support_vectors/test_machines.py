"""Support vector machines against scikit-learn: objectives, decision values, votes, probabilities, bad arguments."""

import itertools
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM

from chainrule.core.errors import ArgumentError, CapabilityError, ChainruleWarning, DataError
from chainrule.kernels import RBF, Linear, Polynomial, Precomputed
from chainrule.kernels.support_vectors import (
    OneClassSupportVectors,
    SupportVectorClassifier,
    SupportVectorRegressor,
)

RNG = np.random.default_rng(0)
ROWS, FEATURES = 120, 6
X = RNG.normal(size=(ROWS, FEATURES))
NEW = RNG.normal(size=(40, FEATURES))
HIDDEN = np.tanh(X @ RNG.normal(size=(FEATURES, 3)))
Y = np.where(HIDDEN[:, 0] + 0.4 * RNG.normal(size=ROWS) > 0, "yes", "no")
VALUES = HIDDEN.sum(axis=1) + 0.1 * RNG.normal(size=ROWS)
WEIGHTS = RNG.uniform(0.5, 2.0, ROWS)
FINE: dict[str, Any] = {"tolerance": 1e-8}
THEIRS: dict[str, Any] = {"tol": 1e-9, "gamma": "scale"}


def dual(coefficients: np.ndarray, support: np.ndarray, linear: np.ndarray, width: float = 0.0) -> float:
    """The objective of coefficients, by a second route: the Gram matrix of the support vectors in NumPy."""
    points = X[support]
    squares = np.square(points[:, None] - points[None]).sum(axis=2)
    gram = np.exp(-squares / (FEATURES * X.var()))
    quadratic = 0.5 * coefficients @ gram @ coefficients
    return float(quadratic + linear[support] @ coefficients + width * np.abs(coefficients).sum())


@pytest.mark.parametrize("price", [0.1, 1.0, 100.0])
def test_classes_with_c_are_those_of_scikit_learn(price: float) -> None:
    ours = SupportVectorClassifier(C=price, **FINE).fit(X, Y)
    theirs = SVC(C=price, **THEIRS).fit(X, Y)
    np.testing.assert_allclose(ours.decision(NEW), theirs.decision_function(NEW), atol=1e-5 * max(1, price))
    assert ours.support.tolist() == sorted(theirs.support_)
    expected = dual(theirs.dual_coef_[0], theirs.support_, np.where(Y == "yes", -1.0, 1.0))
    assert ours.optima[0].objective == pytest.approx(expected, rel=1e-6)
    assert (ours.predict(NEW) == theirs.predict(NEW)).all()


def test_at_the_usual_tolerance_objective_and_decision_values_are_within_reach_of_the_exact_ones() -> None:
    ours = SupportVectorClassifier().fit(X, Y)
    exact = SVC(**THEIRS).fit(X, Y)
    np.testing.assert_allclose(ours.decision(NEW), exact.decision_function(NEW), atol=1e-3)
    expected = dual(exact.dual_coef_[0], exact.support_, np.where(Y == "yes", -1.0, 1.0))
    assert ours.optima[0].objective == pytest.approx(expected, rel=1e-4)
    assert ours.optima[0].objective - expected <= ours.optima[0].gap + 1e-9


def test_weights_of_rows_and_classes_multiply_c() -> None:
    ours = SupportVectorClassifier(class_weights={"yes": 3.0}, **FINE).fit(X, Y, WEIGHTS)
    theirs = SVC(class_weight={"yes": 3.0}, **THEIRS).fit(X, Y, WEIGHTS)
    np.testing.assert_allclose(ours.decision(NEW), theirs.decision_function(NEW), atol=1e-5)
    few = np.flatnonzero((Y == "yes") | (np.arange(ROWS) % 3 == 0))
    ours = SupportVectorClassifier(class_weights="balanced", **FINE).fit(X[few], Y[few])
    theirs = SVC(class_weight="balanced", **THEIRS).fit(X[few], Y[few])
    np.testing.assert_allclose(ours.decision(NEW), theirs.decision_function(NEW), atol=1e-5)


@pytest.mark.parametrize("nu", [0.2, 0.6])
def test_classes_with_nu_are_those_of_scikit_learn(nu: float) -> None:
    ours = SupportVectorClassifier(nu=nu, **FINE).fit(X, Y)
    theirs = NuSVC(nu=nu, **THEIRS).fit(X, Y)
    np.testing.assert_allclose(ours.decision(NEW), theirs.decision_function(NEW), atol=1e-4)
    inside = np.where(Y == "yes", 1, -1) * ours.decision(X) < 1 - 1e-6
    assert inside.mean() <= nu <= len(ours.support) / ROWS


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_values_are_those_of_scikit_learn(epsilon: float) -> None:
    ours = SupportVectorRegressor(epsilon=epsilon, C=2.0, **FINE).fit(X, VALUES, WEIGHTS)
    theirs = SVR(epsilon=epsilon, C=2.0, **THEIRS).fit(X, VALUES, WEIGHTS)
    np.testing.assert_allclose(ours.predict(NEW), theirs.predict(NEW), atol=1e-5)
    expected = dual(theirs.dual_coef_[0], theirs.support_, -VALUES, epsilon)
    assert ours.optimum.objective == pytest.approx(expected, rel=1e-6)


def test_units_of_values_change_nothing_but_units() -> None:
    plain = SupportVectorRegressor().fit(X, VALUES)
    large = SupportVectorRegressor(C=1e5, epsilon=1e4).fit(X, 1e5 * VALUES)
    np.testing.assert_allclose(large.predict(NEW), 1e5 * plain.predict(NEW), atol=1e2)
    assert large.optimum.steps == plain.optimum.steps


@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_one_class_is_that_of_scikit_learn(nu: float) -> None:
    ours = OneClassSupportVectors(nu=nu, **FINE).fit(X)
    theirs = OneClassSVM(nu=nu, **THEIRS).fit(X)
    expected = theirs.decision_function(NEW)
    np.testing.assert_allclose(ours.decision(NEW), expected, atol=1e-4)
    assert (ours.predict(NEW) == (expected >= 0)).all()
    assert ours.optimum.objective == pytest.approx(
        dual(theirs.dual_coef_[0], theirs.support_, np.zeros(ROWS))
    )
    assert (ours.decision(X) < -1e-6).mean() <= nu <= len(ours.support) / ROWS


def test_with_nu_one_every_example_is_a_support_vector_of_the_same_weight() -> None:
    ours = OneClassSupportVectors(nu=1.0).fit(X)
    np.testing.assert_array_equal(ours.coefficients, np.ones(ROWS))
    assert ours.decision(X).max() == pytest.approx(0, abs=1e-9)


@pytest.fixture(scope="module")
def three() -> tuple[np.ndarray, np.ndarray]:
    y = RNG.integers(0, 3, ROWS)
    return X + 1.5 * np.eye(3, FEATURES)[y], 10 * y


def test_several_classes_are_told_apart_in_pairs_that_vote(three: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = three
    ours = SupportVectorClassifier(**FINE).fit(x, y)
    theirs = SVC(decision_function_shape="ovo", **THEIRS).fit(x, y)
    np.testing.assert_allclose(ours.decision(NEW), -theirs.decision_function(NEW), atol=1e-5)
    assert (ours.predict(NEW) == theirs.predict(NEW)).all()
    assert ours.classes.tolist() == [0, 10, 20]


def test_probabilities_are_calibrated_and_near_those_of_the_machine_that_drew_the_data(
    three: tuple[np.ndarray, np.ndarray],
) -> None:
    x, y = three
    ours = SupportVectorClassifier(probabilities=True).fit(x, y)
    found = ours.probabilities(x)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (found >= 0).all()
    distance = np.square(x[:, None] - 1.5 * np.eye(3, FEATURES)[None]).sum(axis=2)
    exact = np.exp(-0.5 * distance)
    exact /= exact.sum(axis=1, keepdims=True)
    own = np.log(found[np.arange(ROWS), y // 10]).mean(), np.log(exact[np.arange(ROWS), y // 10]).mean()
    assert own[0] > own[1] - 0.15
    again = SupportVectorClassifier(probabilities=True).fit(x, y)
    np.testing.assert_array_equal(again.probabilities(x), found)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Linear(), SVC(kernel="linear", tol=1e-9)),
        (Polynomial(2, 1.0), SVC(kernel="poly", degree=2, coef0=1.0, gamma=1.0, tol=1e-9)),
    ],
)
def test_other_kernels_are_those_of_scikit_learn(ours: Any, theirs: Any) -> None:
    found = SupportVectorClassifier(ours, **FINE).fit(X, Y)
    np.testing.assert_allclose(found.decision(NEW), theirs.fit(X, Y).decision_function(NEW), atol=1e-4)


def test_a_gram_matrix_takes_the_place_of_points() -> None:
    kernel = RBF(gamma=0.2)
    whole = np.concatenate([X, NEW])
    items = Precomputed(np.asarray(kernel.gram(whole)))
    found = SupportVectorClassifier(items).fit(np.arange(ROWS), Y)
    direct = SupportVectorClassifier(kernel).fit(X, Y)
    np.testing.assert_allclose(found.decision(np.arange(ROWS, len(whole))), direct.decision(NEW), atol=1e-3)
    # Of points that the table does not hold, kernels with the training points are enough.
    across = np.asarray(kernel.gram(NEW, X))
    np.testing.assert_allclose(found.decision(gram=across), direct.decision(NEW), atol=1e-3)
    assert (found.predict(gram=across) == direct.predict(NEW)).all()
    region = OneClassSupportVectors(kernel).fit(X)
    np.testing.assert_allclose(region.decision(gram=across), region.decision(NEW), atol=1e-9)
    tube = SupportVectorRegressor(kernel).fit(X, X[:, 0])
    np.testing.assert_allclose(tube.predict(gram=across), tube.predict(NEW), atol=1e-9)
    with pytest.raises(ArgumentError, match=rf"expected \(n_test, {ROWS}\), got .*: transpose it"):
        found.predict(gram=across.T)
    with pytest.raises(ArgumentError, match="give new points x, or gram"):
        found.predict(NEW, gram=across)
    features = SupportVectorClassifier(kernel, approximate="nystrom", count=10).fit(X, Y)
    with pytest.raises(ArgumentError, match="stands on features in place of the kernel"):
        features.predict(gram=across)


def test_equal_points_of_different_classes_and_points_that_are_alone_are_no_obstacle() -> None:
    x = np.repeat(X[:10], 12, axis=0)
    found = SupportVectorClassifier(**FINE).fit(x, np.arange(ROWS) % 2)
    theirs = SVC(**THEIRS).fit(x, np.arange(ROWS) % 2)
    np.testing.assert_allclose(found.decision(NEW), theirs.decision_function(NEW), atol=1e-5)
    assert len(SupportVectorClassifier().fit([[0.0], [1.0]], [0, 1]).support) == 2


BAD = [
    (lambda: SupportVectorClassifier(C=0), ArgumentError, r"C=0\): C must be positive"),
    (lambda: SupportVectorClassifier(C=float("nan")), ArgumentError, "C must be positive"),
    (lambda: SupportVectorClassifier(nu=1.5), ArgumentError, r"nu must lie in \(0, 1\]"),
    (lambda: SupportVectorClassifier(C=2.0, nu=0.5), ArgumentError, "one of the two decides"),
    (lambda: SupportVectorClassifier(tolerance=0), ArgumentError, "tolerance=0: it must lie between 0 and 1"),
    (lambda: SupportVectorClassifier(memory=0), ArgumentError, "memory=0"),
    (lambda: SupportVectorClassifier(steps=0), ArgumentError, "steps=0"),
    (lambda: SupportVectorClassifier().fit(X, ["a"] * ROWS), DataError, r"one class \('a'\)"),
    (lambda: SupportVectorClassifier().fit(X, VALUES), ArgumentError, "labels are whole numbers or words"),
    (lambda: SupportVectorClassifier().fit(X, [None] * ROWS), ArgumentError, "labels of type NoneType"),
    (lambda: SupportVectorClassifier().fit(X, Y[:3]), ArgumentError, "each point needs one"),
    (
        lambda: SupportVectorClassifier().fit(np.ones((4, 2)), [0, 1, 0, 1]),
        DataError,
        "all entries are the same",
    ),
    (lambda: SupportVectorClassifier().fit(np.ones((0, 2)), []), DataError, "nothing to learn from"),
    (lambda: SupportVectorClassifier().fit([[0.0], [np.nan]], [0, 1]), DataError, "row 1, column 0 is nan"),
    (
        lambda: SupportVectorClassifier().fit(X, Y, -WEIGHTS),
        ArgumentError,
        "one positive number for each of 120",
    ),
    (
        lambda: SupportVectorClassifier(nu=0.9).fit(X[:10], [0] * 9 + [1]),
        ArgumentError,
        "class 1 is too rare; nu can be 0.2 at most",
    ),
    (
        lambda: SupportVectorClassifier(class_weights={"x": 1}).fit(X, Y),
        ArgumentError,
        "there is no class 'x'",
    ),
    (lambda: SupportVectorClassifier(class_weights={"no": 0}).fit(X, Y), ArgumentError, "must be positive"),
    (lambda: SupportVectorClassifier(class_weights="even").fit(X, Y), ArgumentError, 'it must be "balanced"'),
    (lambda: SupportVectorRegressor(epsilon=-1), ArgumentError, "epsilon must be at least 0"),
    (lambda: SupportVectorRegressor(C=-1), ArgumentError, "C must be positive"),
    (lambda: SupportVectorRegressor().fit(X, np.ones((ROWS, 2))), ArgumentError, "one value of a row, not 2"),
    (lambda: OneClassSupportVectors(nu=0), ArgumentError, "nu must lie"),
]


@pytest.mark.parametrize(("bad", "kind", "match"), BAD, ids=[match for *_, match in BAD])
def test_what_cannot_be_learnt_is_refused_with_its_reason(
    bad: Any, kind: type[Exception], match: str
) -> None:
    with pytest.raises(kind, match=match):
        bad()


def test_a_machine_says_what_it_was_not_fitted_for() -> None:
    found = SupportVectorClassifier().fit(X, Y)
    with pytest.raises(CapabilityError, match="probabilities=True"):
        found.probabilities(NEW)
    with pytest.raises(ArgumentError, match=r"expected \(n, 6\), got \(6, 40\): transpose it"):
        found.predict(NEW.T)
    lonely = np.where(np.arange(ROWS) == 3, "b", "a")
    with pytest.raises(DataError, match="class 'b' has one example"):
        SupportVectorClassifier(probabilities=True).fit(X, lonely)


def test_columns_of_unlike_size_and_too_few_steps_are_said() -> None:
    with pytest.warns(ChainruleWarning, match="distances see the first alone"):
        SupportVectorClassifier().fit(X * np.array([1e4, 1, 1, 1, 1, 1])[None, :], Y)
    with pytest.warns(ChainruleWarning, match="after 1 steps the duality gap is"):
        found = SupportVectorClassifier(C=1e3, steps=1, tolerance=1e-9).fit(X, Y)
    assert not found.optima[0].converged


@pytest.mark.parametrize("kind", ["int", "float", "bool", "object"])
def test_labels_of_every_kind_come_back_as_they_were(kind: str) -> None:
    labels = (Y == "yes").astype(kind)
    found = SupportVectorClassifier().fit(X, labels)
    agree = found.predict(X) == (Y == "yes")
    assert agree.mean() > 0.8


def test_pairs_come_in_order() -> None:
    from chainrule.kernels.support_vectors.calibration import pairs_of

    assert [tuple(pair) for pair in pairs_of(4)] == list(itertools.combinations(range(4), 2))
