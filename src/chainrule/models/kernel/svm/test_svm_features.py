"""The support vector machine on features in place of a kernel, as a model: every target, what is kept, bad settings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import report
from chainrule.core.errors import ArgumentError
from chainrule.data import Data
from tests.contracts import checks

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 2)).astype(np.float32)
Y = np.where(X[:, 0] * X[:, 1] + 0.2 * RNG.normal(size=150) > 0, "in", "out")
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def classes() -> Data:
    return cr.data.from_arrays(X, Y, kind="points")


def fitted(data: Data, **settings: object) -> tuple:
    """A trained model, and what training said of it."""
    model = cr.models.build("svm", data, probability=False, **settings)
    return model.iterate(data.train.batch(np.arange(len(data.train))), KEY)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def run(classes: Data, tmp_path_factory: pytest.TempPathFactory) -> cr.Run:
    model = cr.models.build("svm", classes, approximate="rff", features=300)
    return cr.fit(model, classes, run=tmp_path_factory.mktemp("runs") / "svm")


@pytest.mark.parametrize(("approximate", "features", "most"), [("nystrom", 60, 0.02), ("rff", 2000, 0.25)])
def test_decision_values_come_close_to_those_of_the_kernel(
    classes: Data, approximate: str, features: int, most: float
) -> None:
    x = jnp.asarray(classes.test.x)
    exact, _ = fitted(classes)
    found, numbers = fitted(classes, approximate=approximate, features=features)
    assert found.points is None
    assert 0 < float(numbers["support_vectors"]) < len(classes.train)
    np.testing.assert_allclose(found.decision(x), exact.decision(x), atol=most)
    # In single precision as the library in double precision.
    machine = cr.kernels.SupportVectorClassifier(
        cr.kernels.RBF(found.config.scale), approximate=approximate, count=features, key=KEY
    ).fit(classes.train.x, classes.train.y)
    np.testing.assert_allclose(found.decision(x)[:, 0], machine.decision(classes.test.x), atol=1e-4)


def test_values_and_regions_are_learnt_too() -> None:
    values = cr.data.from_arrays(X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2, kind="table")
    alone = cr.data.from_arrays(X, kind="table")
    for data, settings in ((values, {"C": 5.0, "epsilon": 0.05}), (alone, {"nu": 0.2})):
        exact, _ = fitted(data, **settings)
        found, _ = fitted(data, approximate="nystrom", features=80, **settings)
        x = jnp.asarray(data.test.x)
        np.testing.assert_allclose(found.decision(x), exact.decision(x), atol=0.05)
        assert [one.name for one in found.pictures(data, KEY)][-2:] == ["room", "violating"]


def test_a_run_is_kept_opened_scored_and_drawn(run: cr.Run, classes: Data) -> None:
    again = cr.Run.open(run.path).model
    x = jnp.asarray(classes.test.x)
    np.testing.assert_array_equal(again.predict(x), run.model.predict(x))  # type: ignore[attr-defined]
    assert run.score("val")["accuracy"].value > 0.7
    found = run.model.pictures(classes, KEY)  # type: ignore[attr-defined]
    assert [one.name for one in found] == ["margins", "room", "violating"]
    assert all(report.draw(one).startswith("<svg") for one in found)
    checks.check_predict(run.model, checks.examples(classes), classes.schema)


def test_settings_that_contradict_are_refused(classes: Data) -> None:
    for settings, message in (
        ({"features": 50}, r"features=50: approximate=none takes the kernel itself\n.*approximate=nystrom"),
        ({"approximate": "rff", "points": 50}, r"features learn from every example.*\n.*use features=50"),
        ({"approximate": "rff", "kernel": "linear"}, r"kernel=linear .* no frequencies\n.*=nystrom"),
        ({"approximate": "nystrom", "features": 121}, r"has 120\n.*features=120 or less"),
    ):
        with pytest.raises(ArgumentError, match=message):
            cr.models.build("svm", classes, **settings)
