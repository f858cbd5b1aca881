"""A file in `train/scores` is a score: it needs no line anywhere else."""

from pathlib import Path

import numpy as np
import pytest

from chainrule.train import score, scores
from tests.train.scores.test_scores import Gaussian
from tests.train.toys import rows

NEW = '''
"""How many examples there are, twice."""

from chainrule.train.scoring import Metric, Score

score = Score(
    "Twice the number of examples.",
    lambda evaluation: len(evaluation.split) > 3,
    lambda evaluation: {"twice": Metric(2.0 * len(evaluation.split), "examples")},
    order=15,
)
'''


def test_a_new_file_is_a_new_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(16, 2)).astype(np.float32)
    data = rows(x, sizes=(0, 8))
    before = score(Gaussian(), data)
    (tmp_path / "twice_as_many.py").write_text(NEW)
    monkeypatch.setattr(scores, "__path__", [*scores.__path__, str(tmp_path)])
    after = score(Gaussian(), data)
    assert "twice-as-many" in scores.names()
    assert list(after) == ["loss", "train_loss", "overfitting_gap", "twice", "nll"]
    assert after.pop("twice").value == 2 * len(data.test)
    assert after == before


def test_every_score_says_what_it_is() -> None:
    for name in scores.names():
        assert scores.get(name).summary.endswith("."), name
