"""Runs of version 0.1, from before settings and arrays got their present names, open, sample, score and resume."""

import json
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from chainrule import models
from chainrule.core import random
from chainrule.core.errors import CapabilityError
from chainrule.train import Run, checkpoints, fit, former, resume
from chainrule.train.state import initial_state
from tests.tiers import tiers

RUNS = Path(__file__).parents[1] / "reference" / "runs-0.1"
NAMES = sorted(found.name for found in RUNS.iterdir())
USED = ("diffusion-captions-mlp", "gpt", "made", "reader", "seq2seq", "skip-gram")
"""Of each family one is put to work; that the others are read whole is enough, for the rest depends on the arrays."""
LONG = ("diffusion-captions-mlp", "seq2seq")
WORKING = tiers(USED, slow=LONG)
CLOSE: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-4}


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RUNS / name / "expected.json").read_text())
    return found


@pytest.mark.parametrize("name", NAMES)
def test_it_opens_with_every_setting_and_array_in_its_place(name: str) -> None:
    run = Run.open(RUNS / name)
    folder = checkpoints.path(run.path / "checkpoints", run.step)
    like = jax.eval_shape(lambda: initial_state(run.skeleton(), run.settings))
    state, _ = checkpoints.load(folder, like, former=former.arrays_of(run.config))
    assert int(state.step) == 3


@pytest.mark.parametrize("name", WORKING)
def test_it_scores_as_it_did(name: str) -> None:
    run = Run.open(RUNS / name)
    found = {metric: value.value for metric, value in run.score().items()}
    wanted = expected(name)["scores"]
    if not run.schema.levels:  # said of continuous data once, whose unit of measurement they depended on
        wanted = {metric: value for metric, value in wanted.items() if "bits_per_dim" not in metric}
    # What real examples have is no matter of the run: those to compare with are drawn, once they came in order.
    wanted = {metric: value for metric, value in wanted.items() if not metric.endswith("_of_real")}
    # Later versions have more of them.
    assert list(wanted) == [metric for metric in found if metric in wanted]
    for metric, value in wanted.items():
        np.testing.assert_allclose(found[metric], value, err_msg=metric, **CLOSE)


@pytest.mark.parametrize("name", USED)
def test_it_samples_as_it_did(name: str) -> None:
    wanted, run = expected(name), Run.open(RUNS / name)
    if "sample" not in wanted:
        with pytest.raises(CapabilityError):
            run.sample(1)
        return
    drawn = np.asarray(run.sample(2, key=random.key(0, "sample"))).astype(float).ravel()[:16]
    np.testing.assert_allclose(drawn, wanted["sample"], **CLOSE)


@pytest.mark.parametrize("name", WORKING)
def test_it_goes_on_as_it_did(name: str, tmp_path: Path) -> None:
    run = resume(Run.open(Path(shutil.copytree(RUNS / name, tmp_path / name))), steps=6)
    np.testing.assert_allclose(run.curve("loss")[1], expected(name)["losses"], rtol=1e-3)


def test_training_with_the_same_settings_goes_on_in_its_folder(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(RUNS / "reader", tmp_path / "reader"))
    stored = Run.open(folder)
    data = stored.data
    model = models.build("reader", data, **stored.config["model"]["settings"])
    assert fit(model, data, run=folder, **{**stored.config["train"], "steps": 4}).step == 4
