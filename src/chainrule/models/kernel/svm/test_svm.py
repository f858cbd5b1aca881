"""The support vector machine as a model: scikit-learn for every target, what is kept, pictures, bad settings."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.svm import SVC, SVR, OneClassSVM

import chainrule as cr
from chainrule import report
from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import Data
from chainrule.models.kernel.svm import SVMClassifier, SVMRegion, SVMRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 2)).astype(np.float32)
Y = np.where(X[:, 0] * X[:, 1] + 0.2 * RNG.normal(size=150) > 0, "in", "out")
KEY = jax.random.key(0)


def fitted(data: Data, **settings: object) -> tuple[cr.models.protocol.Model, np.ndarray, np.ndarray]:
    """A trained model, with the rows and targets it was trained on."""
    model = cr.models.build("svm", data, **settings)
    batch = data.train.batch(np.arange(len(data.train)))
    model, metrics = model.iterate(batch, KEY)  # type: ignore[attr-defined]
    assert np.isfinite(float(metrics["loss"]))
    return model, np.asarray(batch.x, np.float64), np.asarray(batch.y)


@pytest.fixture(scope="module")
def classes() -> Data:
    return cr.data.from_arrays(X, Y, kind="points")


@pytest.fixture(scope="module")
def run(classes: Data, tmp_path_factory: pytest.TempPathFactory) -> cr.Run:
    return cr.fit(cr.models.build("svm", classes), classes, run=tmp_path_factory.mktemp("runs") / "svm")


def test_decision_values_of_classes_are_those_of_scikit_learn(classes: Data) -> None:
    model, x, y = fitted(classes, C=10.0, probability=False)
    assert isinstance(model, SVMClassifier)
    theirs = SVC(C=10.0, tol=1e-6).fit(x, y)
    ours = model.decision(jnp.asarray(classes.test.x))[:, 0]
    np.testing.assert_allclose(ours, theirs.decision_function(np.asarray(classes.test.x)), atol=5e-3)
    assert int((np.asarray(model.coefficients) != 0).sum()) == len(theirs.support_)


def test_values_are_those_of_scikit_learn() -> None:
    data = cr.data.from_arrays(X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2, kind="table")
    model, x, y = fitted(data, C=5.0, epsilon=0.05)
    assert isinstance(model, SVMRegressor)
    theirs = SVR(C=5.0, epsilon=0.05, tol=1e-6).fit(x, y.reshape(-1))
    ours = np.asarray(model.predict(jnp.asarray(data.test.x))).reshape(-1)
    np.testing.assert_allclose(ours, theirs.predict(np.asarray(data.test.x)), atol=5e-3)
    assert all(report.draw(one).startswith("<svg") for one in model.pictures(data, KEY))


def test_examples_without_a_target_have_a_region() -> None:
    data = cr.data.from_arrays(X, kind="table")
    model, x, _ = fitted(data, nu=0.2)
    assert isinstance(model, SVMRegion)
    theirs = OneClassSVM(nu=0.2, tol=1e-6).fit(x)
    value = theirs.decision_function(np.asarray(data.test.x)) / (0.2 * len(x))
    np.testing.assert_allclose(model.encode(jnp.asarray(data.test.x))[:, 0], value, atol=1e-4)
    batch = jax.tree.map(jnp.asarray, data.train.batch(np.arange(len(x))))
    loss, metrics = model.loss(batch, KEY)
    # The objective is half the squared norm, less the threshold, with the slack: minus the dual at the optimum.
    assert float(loss) == pytest.approx(-0.5 * float(model.square), rel=1e-2)
    assert (
        float((model.encode(batch.x) < -1e-5).mean()) <= 0.2
    )  # support vectors lie on the edge, up to rounding
    assert float(metrics["outside"]) <= 0.3
    assert set(model.scores(batch, KEY)) == {"outside", "decision"}
    assert all(report.draw(one).startswith("<svg") for one in model.pictures(data, KEY))


def test_probabilities_of_several_classes_sum_to_one_and_are_good() -> None:
    data = cr.data.from_arrays(X, np.array(["a", "b", "c"])[np.digitize(X[:, 0], (-0.4, 0.4))], kind="table")
    model, x, y = fitted(data)
    found = np.asarray(model.predict(jnp.asarray(x, jnp.float32)))  # type: ignore[attr-defined]
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    assert (found.argmax(axis=1) == y).mean() > 0.9
    assert [one.name for one in model.pictures(data, KEY)] == ["support-vectors", "room", "violating"]


def test_a_run_predicts_scores_and_shows_margins(run: cr.Run, classes: Data) -> None:
    assert run.status["status"] == "done"
    assert run.score("val")["accuracy"].value > 0.7
    found = run.model.pictures(classes, KEY)  # type: ignore[attr-defined]
    assert [one.name for one in found] == ["support-vectors", "margins", "room", "violating"]
    assert all(report.draw(one).startswith("<svg") for one in found)
    assert 0 < run.curve("support_vectors")[1][-1] < len(classes.train)


def test_support_vectors_are_counted_for_the_class_they_are_of(run: cr.Run, classes: Data) -> None:
    from chainrule.models.kernel.svm.pictures import counts

    model = run.model
    carries = np.asarray(model.coefficients).any(axis=1)  # type: ignore[attr-defined]
    expected = np.bincount(np.asarray(classes.train.y)[carries], minlength=2)
    assert counts(model, classes).series["support vectors"].tolist() == expected.tolist()  # type: ignore[arg-type]


def test_fewer_points_are_drawn_and_kept(classes: Data) -> None:
    model, _, _ = fitted(classes, points=40, probability=False)
    assert model.points.shape == (40, 2)  # type: ignore[attr-defined]
    with pytest.raises(ArgumentError, match=r"points=999: .* has 120 training examples"):
        cr.models.build("svm", classes, points=999)


def test_the_scale_follows_from_the_examples(classes: Data) -> None:
    model = cr.models.build("svm", classes)
    x = np.asarray(classes.train.x, np.float64)
    assert model.config.scale == pytest.approx(np.sqrt(x.shape[1] * x.var() / 2), rel=1e-5)  # type: ignore[attr-defined]


def test_what_cannot_be_learnt_is_refused_before_training(classes: Data, tmp_path: Path) -> None:
    values = cr.data.from_arrays(X, X[:, 0], kind="table")
    with pytest.raises(ArgumentError, match="for values the tube is as wide as epsilon says"):
        cr.models.build("svm", values, nu=0.5)
    with pytest.raises(ArgumentError, match="one of the two decides"):
        cr.models.build("svm", classes, nu=0.5, C=2.0)
    rare = cr.data.from_arrays(X, np.where(np.arange(150) < 20, "few", "many"), kind="table")
    with pytest.raises(ArgumentError, match="class 'few' is too rare"):
        cr.models.build("svm", rare, nu=0.9)
    from dataclasses import replace

    y = np.asarray(rare.train.y)
    chosen = np.concatenate([np.flatnonzero(y == 0)[:1], np.flatnonzero(y == 1)])
    lonely = replace(rare, train=cr.data.Rows({"x": np.asarray(rare.train.x)[chosen], "y": y[chosen]}))
    with pytest.raises(DataError, match="class 'few' has 1 training example"):
        cr.models.build("svm", lonely)
    assert cr.models.build("svm", lonely, probability=False)
    with pytest.raises(ArgumentError, match=r"class_weights=balanced: these data have no classes"):
        cr.models.build("svm", values, class_weights="balanced")
