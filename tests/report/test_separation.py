"""What a report lets one hear of a model that separates."""

from pathlib import Path

import equinox as eqx
import numpy as np

import chainrule as cr
from chainrule.core.pictures import Images, Sounds
from chainrule.report.separation import separation_pictures
from chainrule.train import fit
from chainrule.train.separation import separated

TOY = {"size": 64, "hop": 32, "width": 2, "depth": 2, "kernel": 3, "normalization": "group"}


def test_the_mixture_that_is_found_worst_is_there_to_see_and_to_hear(tmp_path: Path) -> None:
    data = cr.data.load("mixes", n=30, length=2048)
    run = fit(cr.models.build("separator", data, **TOY), data, run=tmp_path / "run", steps=1, batch=4)
    part, _ = run.data.held_out()
    means = separated(eqx.nn.inference_mode(run.model), part).found.mean(axis=1)
    pictures = separation_pictures(run)
    assert len({one.name for one in pictures}) == len(pictures)
    sheet, heard = pictures[-2:]
    assert isinstance(sheet, Images)
    assert sheet.title == f"What is found worst: mixture {means.argmin()}, {means.min():.1f} dB"
    assert isinstance(heard, Sounds)
    worst = part.batch(np.array([means.argmin()]))
    np.testing.assert_array_equal(heard.clips["mixture"], np.asarray(worst.x)[0])
    np.testing.assert_array_equal(heard.clips["drums, the truth"], np.asarray(worst.y)[0, 1])
