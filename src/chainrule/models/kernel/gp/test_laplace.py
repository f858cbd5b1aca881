"""The Gaussian process of classes by Laplace's approximation as a model: the library's numbers, learning, refusals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import report
from chainrule.core.errors import ArgumentError
from chainrule.data import Data
from chainrule.kernels.gaussian_processes.classification import LaplaceClassifier
from chainrule.kernels.gaussian_processes.likelihoods import (
    LogisticLikelihood,
    ProbitLikelihood,
    SoftmaxLikelihood,
)
from chainrule.models.kernel.gp import LaplaceGPClassifier
from chainrule.models.kernel.gp.laplace import _of_every_class
from chainrule.models.kernel.gp.settings import kernel_from
from tests.contracts import checks

RNG = np.random.default_rng(0)
GIVEN = {"method": "laplace", "learn": False, "scale": 1.0, "ard": False}


def table(classes: int, rows: int = 90) -> Data:
    x = RNG.normal(size=(rows, 2))
    angle = np.arctan2(x[:, 1], x[:, 0]) + np.pi
    names = np.array(["ash", "elm", "oak"])[(angle * classes / (2 * np.pi)).astype(int) % classes]
    return cr.data.from_arrays(x.astype(np.float32), names, kind="table")


@pytest.fixture(scope="module")
def two() -> Data:
    return table(2, 60)


@pytest.fixture(scope="module")
def run(two: Data, tmp_path_factory: pytest.TempPathFactory) -> cr.Run:
    model = cr.models.build("gp", two, method="laplace")
    return cr.fit(model, two, run=tmp_path_factory.mktemp("runs") / "laplace")


@eqx.filter_jit
def answer(model: LaplaceGPClassifier, x: jax.Array) -> jax.Array:
    return model.predict(x)


@pytest.mark.parametrize(
    ("classes", "link", "likelihood"),
    [
        (2, "logistic", LogisticLikelihood()),
        (2, "probit", ProbitLikelihood()),
        (3, "logistic", SoftmaxLikelihood(3)),
    ],
)
def test_probabilities_are_those_of_the_library(classes: int, link: str, likelihood: object) -> None:
    data = table(classes, 45)
    fresh = cr.models.build("gp", data, **GIVEN, link=link)
    assert isinstance(fresh, LaplaceGPClassifier)
    new = jnp.asarray(np.concatenate([data.test.x, [[6.0, 6.0]]]), jnp.float32)
    np.testing.assert_allclose(answer(fresh, new), 1 / classes, atol=2e-3)
    found, metrics = fresh.iterate(data.train.batch(np.arange(len(data.train))), jax.random.key(0))
    kernel = kernel_from(fresh.config, 2)
    theirs = LaplaceClassifier(kernel, likelihood).fit(data.train.x, np.asarray(data.train.y))  # type: ignore[arg-type]
    np.testing.assert_allclose(answer(found, new), theirs.predict(new), atol=2e-6)
    np.testing.assert_allclose(metrics["loss"], -theirs.log_marginal_likelihood / len(data.train), rtol=1e-5)
    assert found.converged
    assert jax.tree.map(np.shape, found) == jax.tree.map(np.shape, fresh)


@pytest.mark.slow
def test_it_keeps_what_every_model_promises(two: Data, run: cr.Run) -> None:
    batch = checks.examples(two)
    assert isinstance(run.model, LaplaceGPClassifier)
    checks.check_jit(run.model, batch)
    checks.check_order(run.model, batch)
    checks.check_gradient(run.model, batch)
    checks.check_predict(run.model, batch, two.schema)
    checks.check_new_inputs(run, two)
    np.testing.assert_array_equal(answer(cr.Run.open(run.path).model, batch.x), answer(run.model, batch.x))  # type: ignore[arg-type]


def test_a_run_learns_its_kernel_and_shows_it(two: Data, run: cr.Run) -> None:
    assert run.score("test")["accuracy"].value > 0.6
    given = cr.models.build("gp", two, method="laplace", learn=False)
    _, before = given.iterate(two.train.batch(np.arange(len(two.train))), jax.random.key(0))  # type: ignore[attr-defined]
    assert run.curve("loss")[1][0] < float(before["loss"]) - 0.01
    pictures = run.model.pictures(two, jax.random.key(0))  # type: ignore[attr-defined]
    assert [one.name for one in pictures] == [
        "hyper-parameters",
        "relevance",
        "certainty",
        "gram",
        "spectrum",
    ]
    assert all(report.draw(one).startswith("<svg") for one in pictures)


def test_a_class_that_is_rare_is_among_those_that_the_kernel_is_learnt_from() -> None:
    y = np.zeros(1000, int)
    y[7], y[8:200] = 2, 1
    some = _of_every_class(y, 20)
    assert 20 <= len(some) <= 22
    assert set(y[some]) == {0, 1, 2}


def test_settings_that_contradict_are_refused(two: Data) -> None:
    for settings, words in (
        ({"noise": 0.5}, "classes are observed without a noise"),
        ({"method": "laplace", "inducing": 8}, "for method=sparse"),
        ({"method": "exact"}, "method=sparse or method=laplace"),
        ({"approximate": "nystrom"}, "classes are learnt by inducing inputs"),
    ):
        with pytest.raises(ArgumentError, match=words):
            cr.models.build("gp", two, **settings)
    with pytest.raises(ArgumentError, match="link=probit: it turns one latent value into two classes"):
        cr.models.build("gp", table(3), link="probit")
    wave = cr.data.load("wave", n=60)
    with pytest.raises(ArgumentError, match="values have a posterior that needs no approximation"):
        cr.models.build("gp", wave, method="laplace")
