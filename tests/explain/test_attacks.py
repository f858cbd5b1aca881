"""Attacks on classifiers: in raw pixels of a run, towards a class, on functions; what the probe says of them."""

import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import data, models, report
from chainrule.core.errors import ArgumentError, RunError
from chainrule.core.pictures import Images, Lines, Table
from chainrule.data.loading.in_memory import from_arrays
from chainrule.explain import probes
from chainrule.train import Run, fit

RNG = np.random.default_rng(0)
W = RNG.normal(size=(6, 3)).astype(np.float32)
X = RNG.uniform(0.2, 0.8, size=(5, 6)).astype(np.float32)
Y = np.array([0, 1, 2, 0, 1])
TRAINING: dict[str, Any] = {"batch": 16, "log_every": 5, "eval_every": 10, "save_every": 10}


def logits(x: jax.Array) -> jax.Array:
    return x @ jnp.asarray(W)


def surprisal(x: Any, y: np.ndarray = Y) -> np.ndarray:
    return -np.asarray(jax.nn.log_softmax(logits(jnp.asarray(x)), axis=-1))[np.arange(len(y)), y]


def images(count: int = 60) -> data.Data:
    """Four pixels a side, bright above or below."""
    y = np.arange(count) % 2
    x = RNG.integers(0, 100, size=(count, 4, 4, 1), dtype=np.uint8)
    x[y == 0, :2] += 120
    x[y == 1, 2:] += 120
    return from_arrays(x, np.array(["above", "below"])[y])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder, examples = tmp_path_factory.mktemp("runs"), images()
    found = []
    for name, settings in (("first", {}), ("second", {"width": 6})):
        model = models.build("mlp", examples, **{"width": 4, "depth": 2, "dropout": 0.0, **settings})
        found.append(fit(model, examples, run=folder / name, steps=30, **TRAINING))
    return found


def test_functions_are_attacked_up_the_loss_of_their_classes_or_down_that_of_a_wanted_one() -> None:
    away = cr.explain.fgsm(logits, X, Y, 0.1)
    np.testing.assert_allclose(np.abs(np.asarray(away) - X).max(), 0.1, rtol=1e-5)
    assert (surprisal(away) > surprisal(X)).all()
    wanted = np.full(5, 2)
    for norm, found in (
        ("inf", cr.explain.fgsm(logits, X, wanted, 0.1, targeted=True)),
        ("2", cr.explain.pgd(logits, X, wanted, 0.1, 3, norm="2", targeted=True)),
    ):
        assert (surprisal(found, wanted) < surprisal(X, wanted)).all(), norm


def test_the_attack_on_a_run_is_in_raw_pixels_and_goes_through_its_scaling(runs: list[Run]) -> None:
    run = runs[0]
    batch = run.data.test.batch(np.arange(4))
    raw = np.asarray(run.scaling.inverse(batch.x))
    found = np.asarray(cr.explain.fgsm(run, raw, batch.y, 8))
    assert found.min() >= 0
    assert found.max() <= 255
    moved = np.abs(found - raw)
    assert set(np.round(moved[(raw > 8) & (raw < 247)], 2).tolist()) <= {0.0, 8.0}
    expected = cr.explain.fgsm(run.model, batch.x, batch.y, 8 / 255, bounds=(0.0, 1.0))
    np.testing.assert_allclose(run.scaling.apply(found), expected, atol=1e-6)
    with pytest.raises(ArgumentError, match="between 0 and 255"):
        cr.explain.pgd(run, raw, batch.y, 256)


def test_the_probe_says_raw_units_and_more_steps_do_no_worse(runs: list[Run]) -> None:
    outcome = probes.examine(
        "attack", runs[0], eps=(0, 30, 60), steps=5, random_start=False, others=("second",)
    )
    found = outcome.numbers
    assert found["eps"] == [0, 30, 60]
    assert found["change"] == pytest.approx([0, 30 / 255, 60 / 255])
    assert found["range"] == [0, 255]
    assert "from 0 to 255" in outcome.findings[0]
    assert any("but for chance (" in line for line in outcome.findings)  # and no alarm
    assert found["accuracy, one step"][0] == found["accuracy, many steps"][0] > 0.9
    assert found["accuracy, many steps"][-1] <= found["accuracy, one step"][-1] + 0.01
    assert found["accuracy, many steps"][-1] < found["accuracy, many steps"][0]
    transfer = found["transfer"]
    assert transfer["runs"] == ["first", "second"]
    assert transfer["clean"][0] == found["accuracy, one step"][0]
    assert transfer["accuracy"][0][0] == found["accuracy, many steps"][-1]
    for picture in outcome.pictures:
        assert isinstance(picture, Table) or report.draw(picture).startswith("<svg")
    shown = {one.name: one for one in outcome.pictures}
    sheet, classes = shown["attack-magnifier"], shown["attack-classes"]
    assert isinstance(sheet, Images)
    assert isinstance(classes, Lines)
    assert (len(sheet.images), sheet.columns) == (6, 3)
    assert np.ptp(sheet.images[0]) == 0  # no change at eps 0
    assert sheet.labels[3].rsplit(" ", 1)[0] != sheet.labels[5].rsplit(" ", 1)[0]


def test_a_target_draws_other_classes_to_it_by_the_length_of_the_change(runs: list[Run]) -> None:
    settings: dict[str, Any] = {"target": "above", "norm": "2", "shares": (0.0, 0.3), "steps": 5}
    found = probes.examine("attack", runs[0], **settings).numbers
    assert found["eps"][1] == pytest.approx(0.3 * 255 * 4)
    assert found["taken for the target, many steps"][1] > found["taken for the target, many steps"][0]
    assert found["accuracy, many steps"][1] < found["accuracy, many steps"][0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"eps": (-1,)}, "greater than or equal to 0"),
        ({"eps": (300,)}, "no change can be larger than 255"),
        ({"eps": (1100,), "norm": "2"}, "larger than 1020"),
        ({"eps": (1,), "shares": (0.1,)}, "give one of the two"),
        ({"target": "abve"}, "did you mean 'above'"),
    ],
)
def test_what_cannot_be_tried_is_refused(runs: list[Run], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        probes.examine("attack", runs[0], **settings)


def test_classes_may_be_given_by_name_and_bounds_in_order(runs: list[Run]) -> None:
    run = runs[0]
    x = np.asarray(run.scaling.inverse(np.asarray(run.data.train.batch(np.arange(4)).x)))
    names = np.array(run.schema.classes)[[0, 1, 1, 0]]
    by_name, by_number = (cr.explain.fgsm(run, x, y, 0.01) for y in (names, np.array([0, 1, 1, 0])))
    np.testing.assert_array_equal(by_name, by_number)
    with pytest.raises(ArgumentError, match="y holds 'abvoe', which is no class"):
        cr.explain.fgsm(run, x, np.array(["abvoe"] * 4), 0.01)
    with pytest.raises(ArgumentError, match="the lower bound is above the upper one"):
        cr.explain.fgsm(run, x, None, 0.01, bounds=(1.0, 0.0))


def test_other_runs_have_to_be_there_and_of_the_same_data(runs: list[Run], tmp_path: Path) -> None:
    with pytest.raises(RunError, match="did you mean 'second'"):
        probes.examine("attack", runs[0], others=("secnd",))
    other = tmp_path / "other"
    shutil.copytree(runs[0].path, other)
    record = (other / "data.json").read_text()
    (other / "data.json").write_text(record.replace('"below"', '"beneath"'))
    with pytest.raises(ArgumentError, match=r"others=other: its classes are \('above', 'beneath'\)"):
        probes.examine("attack", runs[0], others=(str(other),))
