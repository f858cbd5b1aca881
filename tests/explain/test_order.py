"""The order probe: a model of pairs needs the nearest token and nothing else."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models, report
from chainrule.data import load
from chainrule.explain import probes
from chainrule.train import fit


def test_a_model_of_pairs_loses_nothing_when_what_is_farther_back_is_shuffled(tmp_path: Path) -> None:
    data = load("shakespeare", window=16)
    run = fit(models.build("ngram", data, order=2), data, run=tmp_path / "run", steps=20, batch=32)
    found = probes.examine("order", run, examples=64)
    assert found.numbers["kept"] == [1, 2, 4, 8, 16]
    assert found.numbers["nats"] == pytest.approx([found.numbers["nats"][-1]] * 5, abs=1e-5)
    x = jnp.asarray(data.val.batch(np.arange(64)).x)
    assert found.numbers["nats"][-1] == pytest.approx(float(run.model.surprisal(x)[:, -1].mean()), rel=1e-5)
    assert "worth nothing" in found.findings[1]
    assert report.draw(found.pictures[0]).startswith("<svg")
    assert "order" in probes.applicable(run)


def test_only_models_of_text_have_an_order_to_shuffle() -> None:
    data = load("moons", n=100)
    assert not probes.get("order").applies(models.build("mlp", data, depth=1), data.schema)
