"""Probes that look into a trained run see what is there."""

from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models, report
from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Table
from chainrule.explain import probes
from chainrule.explain.protocol import Probe
from chainrule.train import Run, fit


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    moons = data.load("moons", n=300)
    model = models.build("mlp", moons, width=16, dropout=0.0)
    return fit(model, moons, run=tmp_path_factory.mktemp("runs") / "moons", steps=200, batch=32)


@pytest.mark.parametrize("name", ["gradients", "layers", "far-field", "folding"])
def test_a_probe_gives_findings_pictures_and_numbers(run: Run, name: str) -> None:
    outcome = probes.examine(name, run)
    assert outcome.findings
    assert outcome.numbers
    for picture in outcome.pictures:
        if not isinstance(picture, Table):
            assert report.draw(picture).startswith("<svg")


def test_all_that_apply_are_found_by_what_the_model_can_do(run: Run) -> None:
    assert {"gradients", "layers", "far-field", "folding"} <= set(probes.applicable(run))
    assert all(isinstance(probes.get(name), Probe) for name in probes.names())


def test_a_unit_that_was_killed_is_seen(run: Run, tmp_path: Path) -> None:
    model = run.model
    dead = eqx.tree_at(
        lambda model: (model.blocks[0].linear.weight, model.blocks[0].linear.bias),
        model,
        (model.blocks[0].linear.weight.at[:, :4].set(0.0), model.blocks[0].linear.bias.at[:4].set(-1.0)),
    )
    changed = Run(run.path, data=run.data)
    changed.__dict__["model"] = dead  # what the cached property would read from the checkpoint
    silent = probes.examine("layers", changed).numbers["blocks.1.linear"]["silent"]
    before = probes.examine("layers", run).numbers["blocks.1.linear"]["silent"]
    assert silent >= before + 1 / 16
    assert silent >= 4 / 16


def test_gradients_are_those_of_the_loss(run: Run) -> None:
    import jax

    batch = jax.tree.map(jnp.asarray, run.data.train.batch(np.arange(32)))
    slope = jax.grad(
        lambda head: eqx.tree_at(lambda m: m.head, run.model, head).loss(batch, jax.random.key(0))[0]
    )(run.model.head)
    found = probes.examine("gradients", run).numbers["head.weight"]
    assert found["gradient"] == pytest.approx(float(jnp.sqrt(jnp.square(slope.weight).mean())), rel=1e-4)
    assert found["weight"] == pytest.approx(
        float(jnp.sqrt(jnp.square(run.model.head.weight).mean())), rel=1e-5
    )


def test_classes_come_apart_and_certainty_grows_away_from_the_data(run: Run) -> None:
    apart = probes.examine("folding", run).numbers["same_class_nearest"]
    assert list(apart) == ["blocks.0.linear", "blocks.1.linear", "head", "answer"]
    assert apart["answer"] >= 0.85
    far = probes.examine("far-field", run, rays=5, factor=1000.0).numbers
    assert np.mean(far["confidence_far"]) > 0.99


def test_a_probe_that_does_not_apply_is_refused_with_what_it_needs(tmp_path: Path) -> None:
    line = data.load("moons", n=100)
    model = models.build("mlp", line, depth=1, width=4)
    short = fit(model, line, run=tmp_path / "line", steps=2, batch=8)
    with pytest.raises(CapabilityError, match="it needs a classifier with at least two layers"):
        probes.examine("folding", short)
