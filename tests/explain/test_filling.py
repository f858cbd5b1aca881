"""An encoder of images: it keeps the promises every model makes, and its probe sees what it fills gaps with."""

from typing import Any

import numpy as np
import pytest

from chainrule import data, models, report
from chainrule.core.pictures import Images
from chainrule.explain import probes
from chainrule.models.representation.bert import PatchBERT
from chainrule.train import Run, fit
from tests.contracts import checks

SMALL: dict[str, Any] = {"layers": 1, "heads": 2, "width": 16, "patch": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    digits = data.load("digits")
    pace = {"steps": 150, "batch": 32, "log_every": 10, "eval_every": 150, "save_every": 150}
    folder = tmp_path_factory.mktemp("runs") / "patches"
    return fit(models.build("bert", digits, **SMALL), digits, run=folder, **pace)


@pytest.mark.slow
def test_an_encoder_of_images_keeps_the_promises_of_every_model(run: Run) -> None:
    model, batch = run.model, checks.examples(run.data)
    assert isinstance(model, PatchBERT)
    checks.check_jit(model, batch)
    checks.check_gradient(model, batch)
    checks.check_learns(models.build("bert", run.data, **SMALL), run, batch)
    checks.check_kept(run, Run.open(run.path).model, run.data)
    checks.check_sample_of_run(run, run.schema)
    checks.check_codes(model, batch)
    assert {"hidden_nats", "guessed", "hidden_squared_error"} <= run.score("val").keys()


@pytest.mark.slow
def test_hidden_patches_are_shown_and_compared_with_the_mean_image(run: Run) -> None:
    found = probes.examine("filling", run, images=4, hide=0.25)
    sheet, curve = found.pictures
    assert isinstance(sheet, Images)
    assert sheet.images.shape == (16, 8, 8, 1)
    images, gaps = sheet.images[:4], sheet.images[4:8]
    assert np.mean((gaps == 0.5) & (images != 0.5)) == pytest.approx(0.25, abs=0.05)
    kept = gaps != 0.5
    for filled in (sheet.images[8:12], sheet.images[12:]):
        np.testing.assert_array_equal(filled[kept], images[kept])
    assert report.draw(curve).startswith("<svg")
    off = np.asarray(run.data.test.x) - np.asarray(run.data.train.x).mean(axis=0, keepdims=True)
    most = found.numbers["error_of_mean_image"][-1]  # nine tenths of all pixels
    assert most == pytest.approx(np.sqrt(np.square(off).mean()), rel=0.05)
    assert np.isfinite(found.numbers["error"]).all()
    assert "filling" in probes.applicable(run)
