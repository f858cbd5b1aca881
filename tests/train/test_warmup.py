"""The warm-up that a model's entry suggests suits a whole training run; a short one gets a shorter warm-up."""

from pathlib import Path

import pytest

from chainrule import data, models
from chainrule.core.errors import ArgumentError
from chainrule.train import fit


def test_a_suggested_warmup_gives_way_and_one_that_was_asked_for_does_not(tmp_path: Path) -> None:
    plays = data.load("shakespeare", window=8)
    model = models.build("gpt", plays, layers=1, heads=1, width=8)
    assert models.entry("gpt").training["schedule"]["warmup"] == 100
    short = fit(model, plays, run=tmp_path / "short", steps=20, batch=4, eval_examples=8)
    assert short.settings.schedule.warmup == 2
    assert short.settings.schedule.floor == 0.1
    with pytest.raises(ArgumentError, match=r"schedule\.warmup=30: the warm-up must be shorter"):
        fit(model, plays, run=tmp_path / "asked", steps=20, batch=4, schedule={"warmup": 30})
