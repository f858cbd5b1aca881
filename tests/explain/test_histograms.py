"""Histograms of a run: the numbers of its checkpoints, for models of every make."""

from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Table
from chainrule.explain import probes
from chainrule.train import Run, fit
from tests.train.toys import Game, blobs, numbers

SETTINGS = {"steps": 6, "batch": 16, "save_every": 2, "keep": 10, "eval_every": 6}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    data = blobs(64, sizes=(16, 0), kind="table")
    model = models.build("mlp", data, width=6, depth=3)
    return fit(model, data, run=tmp_path_factory.mktemp("runs") / "blobs", **SETTINGS)


def test_columns_are_the_first_weights_and_every_checkpoint(run: Run) -> None:
    outcome = probes.examine("histograms", run)
    assert outcome.numbers["tensor"] == "blocks.1.linear.weight"
    assert outcome.numbers["steps"] == [0, 2, 4, 6]
    weights = [run.model_at(step).blocks[1].linear.weight for step in (2, 4, 6)]  # type: ignore[attr-defined]
    np.testing.assert_allclose(outcome.numbers["weights"][1:], [np.std(w) for w in weights], rtol=1e-5)
    assert [picture.name for picture in outcome.pictures] == [
        "histogram-weights",
        "histogram-gradients",
        "histogram-outputs",
        "histograms-idle",
    ]
    for picture in outcome.pictures[:3]:
        np.testing.assert_allclose(np.square(picture.values).sum(axis=0), 1, atol=0.1)  # type: ignore[union-attr]


def test_gradients_and_outputs_are_those_of_the_model_at_its_step(run: Run) -> None:
    outcome = probes.examine("histograms", run, layer="head", examples=16)
    batch = jax.tree.map(jax.numpy.asarray, run.data.train.batch(np.arange(16)))
    model = run.model_at(6)
    grads = eqx.filter_grad(lambda model: model.loss(batch, jax.random.key(0))[0])(model)
    assert outcome.numbers["gradients"][-1] == pytest.approx(float(np.std(grads.head.weight)), rel=1e-4)
    logits = model.logits(batch.x)  # type: ignore[attr-defined]
    assert outcome.numbers["outputs"][-1] == pytest.approx(float(np.std(logits)), rel=1e-4)


def test_networks_of_ones_own_and_models_of_several_parts_have_them_too(tmp_path: Path) -> None:
    data = blobs(64, sizes=(16, 0), kind="table")
    own = models.wrap(eqx.nn.MLP(2, 2, width_size=4, depth=1, key=jax.random.key(0)))
    found = probes.examine("histograms", fit(own, data, run=tmp_path / "own", **SETTINGS))
    assert found.numbers["steps"] == [2, 4, 6]
    game = Game(jax.numpy.ones(()), jax.numpy.ones(()))
    found = probes.examine("histograms", fit(game, numbers(), run=tmp_path / "game", **SETTINGS), layer="y")
    assert found.numbers["tensor"] == "y"


def test_any_tap_can_be_looked_at_and_idle_units_are_counted(run: Run) -> None:
    outcome = probes.examine("histograms", run, layer="blocks.0.linear.relu", examples=16)
    assert outcome.numbers["tensor"] == "blocks.0.linear.weight"
    batch = jax.tree.map(jax.numpy.asarray, run.data.train.batch(np.arange(16)))
    first = run.model_at(6).blocks[0].linear  # type: ignore[attr-defined]
    after = np.maximum(np.asarray(batch.x) @ np.asarray(first.weight) + np.asarray(first.bias), 0)
    assert outcome.numbers["outputs"][-1] == pytest.approx(float(after.std()), rel=1e-4)
    (table,) = [picture for picture in outcome.pictures if picture.name == "histograms-idle"]
    assert isinstance(table, Table)
    assert table.rows[0][0] == "blocks.0.linear.relu"
    assert float(table.rows[0][2]) == pytest.approx(float((after <= 0).all(axis=0).mean()), abs=1e-3)


def test_a_layer_that_is_not_there_is_refused(run: Run) -> None:
    with pytest.raises(ArgumentError, match=r"layer=haed: .* \(did you mean 'head'\?\)"):
        probes.examine("histograms", run, layer="haed")
