"""Runs with another domain: what is kept, chosen and judged, and who may be trained so."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import CapabilityError
from chainrule.train import Run

SETTINGS = {"steps": 20, "batch": 16, "eval_every": 10, "save_every": 10, "progress": False}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    source, target = cr.data.load("moons", n=80), cr.data.load("rotated-moons", n=60)
    pair = cr.data.with_target(source, target)
    model = cr.models.build("dann", pair, layers=(4,), discriminator=(4,))
    where = tmp_path_factory.mktemp("runs") / "adapted"
    return cr.fit(model, source, target=target, target_labels=4, run=where, **SETTINGS)


def test_the_other_domain_is_kept_with_the_run_and_loaded_again(run: Run) -> None:
    opened = Run.open(run.path)
    assert opened.config["target"]["data"]["name_or_path"] == "rotated-moons"
    assert opened.data.other is not None
    assert (opened.data.other.name, opened.data.labels) == ("rotated-moons", 4)
    assert "beside 48 of rotated-moons (4 with targets)" in opened.data.describe()


def test_the_last_checkpoint_is_the_result_whatever_the_validation_loss(run: Run) -> None:
    assert run.step == 20


def test_both_domains_are_scored(run: Run) -> None:
    found = run.score()
    other = run.data.other
    assert other is not None
    said = np.asarray(run.model.predict(jnp.asarray(other.test.x))).argmax(axis=1)  # type: ignore[attr-defined]
    assert found["target_accuracy"].value == pytest.approx((said == other.test.y).mean())
    assert "accuracy" in found


def test_numbers_of_the_game_are_logged_and_drawn(run: Run) -> None:
    names = {"domain_accuracy", "strength", "label_loss"}
    assert names <= run.metrics.keys()
    for name in ("domain-accuracy", "strength", "domains", "confusion-source", "confusion-target"):
        assert (run.path / "plots" / f"{name}.svg").exists(), name
    assert (run.path / "plots" / "film.gif").exists()


def test_a_model_of_one_domain_is_refused(run: Run, tmp_path: Path) -> None:
    source, target = cr.data.load("moons", n=80), cr.data.load("rotated-moons", n=60)
    model = cr.models.build("mlp", source, width=4)
    with pytest.raises(CapabilityError, match="target=rotated-moons: mlp learns from one domain"):
        cr.fit(model, source, target=target, run=tmp_path / "none", **SETTINGS)
