"""Gaussian processes by inducing inputs as models: the promises of every model, the bound, classes, refusals."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import report
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import Data
from chainrule.kernels.gaussian_processes.sparse import SparseGaussianProcess
from chainrule.models.kernel.gp import SparseGPClassifier, SparseGPRegressor
from tests.contracts import checks
from tests.tiers import tiers

CASES: dict[str, dict[str, Any]] = {
    "wave": {"method": "sparse", "inducing": 8},
    "moons": {"inducing": 8},
    "rings": {"inducing": 8, "natural_rate": 0.0},
}


@pytest.fixture(scope="module", params=tiers(CASES, slow=("rings",)))
def built(request: pytest.FixtureRequest) -> tuple[Data, Any]:
    data = cr.data.load(request.param)
    return data, cr.models.build("gp", data, **CASES[request.param])


@pytest.fixture(scope="module")
def run(built: tuple[Data, Any], tmp_path_factory: pytest.TempPathFactory) -> cr.Run:
    data, model = built
    return cr.fit(
        model,
        data,
        run=tmp_path_factory.mktemp("runs") / "gp",
        steps=40,
        batch=32,
        log_every=4,
        eval_every=20,
    )


def test_it_keeps_what_every_model_promises(built: tuple[Data, Any], run: cr.Run) -> None:
    data, model = built
    batch = checks.examples(data)
    checks.check_gradient(model, batch, "")
    checks.check_state(model, batch)
    checks.check_order(model, batch)
    checks.check_learns(model, run, batch)
    checks.check_predict(run.model, batch, data.schema)
    checks.check_new_inputs(run, data)
    assert cr.models.entry_of(model) is cr.models.entry("gp")


@pytest.mark.slow
def test_low_precision_gives_nearly_the_same_loss(built: tuple[Data, Any]) -> None:
    checks.check_precision(built[1], built[0])


def test_scores_are_numbers_and_pictures_can_be_drawn(built: tuple[Data, Any], run: cr.Run) -> None:
    data, _ = built
    assert all(np.isfinite(metric.value) for metric in run.score("val").values())
    found = run.model.pictures(data, jax.random.key(0))  # type: ignore[attr-defined]
    assert [one.name for one in found][:1] == ["hyper-parameters"]
    assert all(report.draw(one).startswith("<svg") for one in found)


def test_the_loss_of_all_examples_after_a_whole_step_is_the_collapsed_bound() -> None:
    with jax.enable_x64(True):
        data = cr.data.load("wave")
        model = cr.models.build("gp", data, method="sparse", inducing=12, natural_rate=1.0)
        wide = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64) if eqx.is_inexact_array(a) else a, model)
        batch = data.train.batch(np.arange(len(data.train)))
        batch = jax.tree.map(lambda a: jnp.asarray(np.asarray(a, np.float64)), batch)
        step = eqx.filter_jit(lambda m: m.loss_and_state(batch, jax.random.key(0)))
        loss, _, _ = step(step(wide)[2])
        process = wide.process  # type: ignore[attr-defined]
        exact = SparseGaussianProcess(process.kernel, process.likelihood.noise, process.inducing)
        found = exact.fit(np.asarray(batch.x).reshape(len(batch.x), -1), np.asarray(batch.y).reshape(-1))
        np.testing.assert_allclose(loss, -found.bound / len(batch.x), rtol=1e-4)


def test_classes_take_inducing_inputs_by_themselves_and_values_when_told() -> None:
    moons, wave = cr.data.load("moons"), cr.data.load("wave")
    assert isinstance(cr.models.build("gp", moons, inducing=5), SparseGPClassifier)
    assert isinstance(cr.models.build("gp", wave, method="sparse", inducing=5), SparseGPRegressor)
    assert not isinstance(cr.models.build("gp", wave, points=20), SparseGPRegressor)
    with pytest.raises(ArgumentError, match="classes are learnt by method=sparse"):
        cr.models.build("gp", moons, method="exact")
    many = len(wave.train) + 1
    with pytest.raises(ArgumentError, match=f"inducing={many}: there are only {many - 1} different"):
        cr.models.build("gp", wave, method="sparse", inducing=many)
    assert len(cr.models.build("gp", wave, method="sparse").process.inducing) == many - 1  # type: ignore[attr-defined]
    two = replace(wave.schema, target_shape=(2,))
    with pytest.raises(CapabilityError, match="these targets have 2"):
        cr.models.build("gp", two, method="sparse")


def test_inducing_inputs_begin_among_the_examples_and_move(built: tuple[Data, Any], run: cr.Run) -> None:
    data, model = built
    x = np.asarray(data.train.x).reshape(len(data.train), -1)
    z = np.asarray(model.process.inducing)
    assert (z >= x.min(axis=0)).all()
    assert (z <= x.max(axis=0)).all()
    assert int(model.examples) == len(data.train)
    after = np.asarray(run.model.process.inducing)  # type: ignore[attr-defined]
    assert np.abs(after - z).max() > 1e-3
    began = run.model.beginning(data)  # type: ignore[attr-defined]  # known of a trained model, too
    np.testing.assert_allclose(began, z, atol=1e-6)


def test_without_learning_kernel_and_noise_stay() -> None:
    data = cr.data.load("wave")
    model = cr.models.build("gp", data, method="sparse", inducing=6, learn=False)
    batch = checks.examples(data)
    _, _, moved = eqx.filter_jit(lambda m: m.loss_and_state(batch, jax.random.key(0)))(model)
    slope = eqx.filter_jit(eqx.filter_grad(lambda m: m.loss(batch, jax.random.key(0))[0]))(moved)
    assert all(not np.asarray(leaf).any() for leaf in jax.tree.leaves(slope.process.kernel))
    assert np.asarray(slope.process.inducing).any()
