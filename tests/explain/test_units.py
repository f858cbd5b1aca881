"""The atlas of units: chosen units of a layer by number or by name, with patches that excite them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models, report
from chainrule.core.errors import ArgumentError
from chainrule.explain import probes
from chainrule.explain.methods.activation_maximisation import Ascent, dreamer
from chainrule.explain.methods.feature_maps import climbable, feature_maps, layer_of
from chainrule.explain.methods.projections import RULES, most_excited
from chainrule.train import Run, keep

QUICK: dict[str, Any] = {"examples": 20, "patches": 3, "steps": 3}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    digits = data.load("digits")
    model = models.build("cnn", digits, stages=2, blocks=1, width=4)
    return keep(model, digits, run=tmp_path_factory.mktemp("runs") / "digits", origin={})


def test_a_row_of_the_atlas_is_a_unit_with_its_best_patches(run: Run) -> None:
    found = probes.examine("units", run, layer="stages.1.0.conv", units=(2, 0), **QUICK)
    assert found.numbers["layer"] == 1
    assert found.numbers["units"] == [2, 0]
    model: Any = run.model
    x = jnp.asarray(run.data.train.batch(np.arange(20)).x)
    maps = np.asarray(feature_maps(model.logits, x)[1])
    best = found.numbers["exciting"]["2"]
    assert [one["activity"] for one in best] == pytest.approx(
        np.sort(maps[..., 2].max(axis=(1, 2)))[::-1][:3].tolist(), rel=1e-4
    )
    assert maps[best[0]["image"], best[0]["row"], best[0]["column"], 2] == pytest.approx(
        best[0]["activity"], rel=1e-4
    )
    sheet: Any = found.pictures[0]
    assert sheet.columns == 2 + len(RULES) + 3
    assert len(sheet.images) == 2 * sheet.columns
    assert report.draw(sheet).startswith("<svg")
    by_number = probes.examine("units", run, layer="-1", units=(2, 0), **QUICK)  # as a command line has it
    assert by_number.numbers == found.numbers


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": "conv3"}, "there is no tap 'conv3'"),
        ({"layer": "head"}, "no rectified feature map comes after it"),
        ({"layer": 2}, "the network has 2 rectified layers"),
        ({"units": (8,)}, "units=8: layer 1 has 8 channels"),
    ],
)
def test_what_is_not_there_is_refused(run: Run, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        probes.examine("units", run, **{**QUICK, **change})


def test_layers_are_numbered_by_the_rectifier_that_follows(run: Run) -> None:
    model: Any = run.model
    x = jnp.zeros((1, 8, 8, 1))
    assert [layer_of(model, x, f"stages.{i}.0.conv") for i in (0, 1)] == [0, 1]


def test_the_most_excited_images_are_sorted_and_a_channel_must_exist() -> None:
    maps = np.random.default_rng(0).normal(size=(5, 3, 4, 2))
    found = most_excited(maps, 1, 5)
    assert [one.activity for one in found] == sorted(maps[..., 1].max(axis=(1, 2)), reverse=True)
    assert all(maps[one.image, one.row, one.column, 1] == one.activity for one in found)
    with pytest.raises(ArgumentError, match="there are 2 channels"):
        most_excited(maps, 2, 1)


def test_a_unit_that_rests_at_first_is_woken() -> None:
    """It rests near the mean image, and has no slope there of its own."""
    pool = np.zeros((10, 4, 4, 1), np.float32)
    pool[0] = 1.0
    ascent = Ascent(steps=40, rate=0.3, jitter=0, l2=0.0, variation=0.0)

    def network(x: Any) -> Any:
        return jax.nn.relu(2 * x - 1)

    reached = {}
    for name, of in (("own", lambda x: feature_maps(network, x)[0]), ("climbable", climbable(network, 0))):
        dream = dreamer(
            lambda model, x, of=of: of(x)[:, 2, 2], jnp.asarray(pool), np.array([0]), ascent, 1, 0
        )
        reached[name] = float(network(dream(None))[0, 0, 2, 2, 0])
    assert reached["own"] == 0
    assert reached["climbable"] > 0.5
