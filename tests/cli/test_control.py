"""A control branch as its user meets it: trained beside a model, it draws alone, shows what it follows, is probed."""

import shutil
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest
from PIL import Image

from chainrule import models
from chainrule.data import Data, Scaling
from chainrule.models.diffusion.control import Control
from chainrule.train import fit
from tests.train.toys import rows

from .conftest import Command


@pytest.fixture(scope="module")
def images() -> Data:
    draw = np.random.default_rng(0)
    x, y = draw.integers(0, 17, (16, 4, 4, 1)).astype(np.uint8), np.arange(16, dtype=np.int32) % 2
    options = {"kind": "image", "target": "class", "classes": ("a", "b"), "levels": 17}
    return rows(x, y, sizes=(4, 4), scaling=Scaling(0.0, 1 / 16), **options)


@pytest.fixture(scope="module")
def base(images: Data) -> models.Model:
    """As if trained: a fresh one predicts zero, and nothing beside it would learn."""
    noise = np.random.default_rng(0)
    fresh = models.build("diffusion", images, denoiser="unet", width=4, depth=1)
    arrays, rest = eqx.partition(fresh, eqx.is_inexact_array)
    moved = jax.tree.map(lambda a: jax.numpy.asarray(a + 0.2 * noise.normal(size=a.shape), a.dtype), arrays)
    return eqx.combine(moved, rest)


@pytest.fixture(scope="module")
def finished(base: models.Model, images: Data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = models.begin("control", base, images, kind="adapter")
    return fit(model, images, run=tmp_path_factory.mktemp("runs") / "edges", steps=2, batch=4).path


@pytest.mark.slow
def test_the_frozen_base_is_the_same_to_the_last_bit_after_training_as_users_do_it(
    base: models.Model, finished: Path, images: Data
) -> None:
    from chainrule.train import Run

    run = Run.open(finished, data=images)
    assert run.settings.averages  # an average of equal numbers rounds, which once moved the base
    after = run.model
    assert isinstance(after, Control)
    for one, other in zip(
        *(jax.tree.leaves(eqx.filter(m, eqx.is_array)) for m in (base, after.body)), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    fresh = models.begin("control", base, images, kind="adapter")
    assert isinstance(fresh, Control)
    assert not eqx.tree_equal(fresh.branch, after.branch)


@pytest.mark.slow
def test_samples_lie_beside_the_picture_they_follow(cli: Command, finished: Path) -> None:
    shutil.copytree(finished, "runs/edges")
    Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4) * 17).save("lines.png")
    found = cli("sample", "edges", "control=lines.png", "class=b", "n=2", "steps=2", "--json").last
    with np.load(found["samples"]) as arrays:
        assert arrays["samples"].shape == arrays["control"].shape == (2, 4, 4, 1)
        assert arrays["control"].max() == 1
    assert Path(found["picture"]).suffix == ".png"
    wrong = cli("sample", "edges", f"control={found['picture']}")
    assert wrong.code == 2
    assert "it has to be (4, 4, 1)" in wrong.err


@pytest.mark.slow
def test_the_probe_follows_held_out_pictures_at_rising_strength(finished: Path, images: Data) -> None:
    from chainrule.explain import probes
    from chainrule.train import Run

    run = Run.open(finished, data=images)
    assert "control" in probes.applicable(run)
    outcome = probes.examine("control", run, n=4, strengths=(0.0, 1.0))
    assert outcome.numbers["strength"] == [0.0, 1.0]
    assert outcome.numbers["n"] == 4
    assert [picture.name for picture in outcome.pictures] == ["control", "control-strength", "control-gates"]
    assert run.score(n=4)["agreement"].unit == "correlation"


@pytest.mark.slow
def test_a_second_control_is_followed_beside_the_first(cli: Command, finished: Path) -> None:
    for name in ("edges", "again"):
        shutil.copytree(finished, f"runs/{name}")
    Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4) * 17).save("lines.png")
    words = ["sample", "edges", "n=2", "steps=2", "class=b", "--json"]
    asked = [["control=lines.png"], ["beside=again", "control=lines.png,lines.png", "strength=0.5,0.5"]]
    found = []
    for more in asked:
        result = cli(*words, *more)
        assert result.code == 0, result.err
        with np.load(result.last["samples"]) as arrays:
            found.append(arrays["samples"])
    np.testing.assert_array_equal(*found)
    assert "there is no run 'masks'" in cli(*words, "beside=masks", "like=lines.png").err
    assert "control: 3 for 2 controls" in cli(*words, "beside=again", "control=a.png,b.png,c.png").err
