"""A control branch as its user meets it: trained beside a model, it draws alone, shows what it follows, is probed."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from chainrule import models
from chainrule.data import Data, Scaling
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
def finished(images: Data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = models.build("diffusion", images, denoiser="unet", width=4, depth=1)
    model = models.begin("control", base, images, kind="adapter")
    return fit(model, images, run=tmp_path_factory.mktemp("runs") / "edges", steps=2, batch=4).path


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
