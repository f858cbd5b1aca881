"""Losses that change over a run: training follows them, validation judges by the one at the end."""

from pathlib import Path

import numpy as np

from chainrule import data, models
from chainrule.train import fit


def test_the_weight_of_the_rate_rises_with_the_steps_and_validation_has_the_whole(tmp_path: Path) -> None:
    moons = data.load("moons", n=200)
    model = models.build("vae", moons, latent=2, width=8, warmup=1.0)
    settings = {"steps": 8, "batch": 32, "log_every": 1, "eval_every": 4, "ema": 0.0}
    found = fit(model, moons, run=tmp_path / "run", **settings).metrics
    train, val = (found["split"] == split for split in ("train", "val"))
    weight = (found["loss"] - found["distortion"]) / found["rate"]
    np.testing.assert_allclose(weight[train], np.arange(8) / 8, atol=1e-4)
    np.testing.assert_allclose(weight[val], 1.0, atol=1e-4)
