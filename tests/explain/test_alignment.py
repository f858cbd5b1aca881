"""A short reversal is learnt, and everything that looks at a model of pairs sees it read from the other end."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models, report
from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Heatmap, Table
from chainrule.explain import probes
from chainrule.models.protocol import CanTranslate, HasAlignment
from chainrule.report import gallery
from chainrule.train import Run, fit


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    pairs = data.load("reverse", n=2000, length=3)
    model = models.build("seq2seq", pairs, width=32, embedding=16)
    folder = tmp_path_factory.mktemp("runs") / "reverse"
    return fit(model, pairs, run=folder, steps=300, batch=64, optimizer={"lr": 1e-2, "clip": 1.0})


@pytest.mark.slow  # trains to the end
def test_held_out_digits_come_back_reversed_each_read_from_its_position(run: Run) -> None:
    assert run.score("test")["exact_match"].value > 0.95
    model = run.model
    assert isinstance(model, HasAlignment)
    x, y = (jnp.asarray(side) for side in run.data.test.batch(np.arange(50))[:2])
    looked = np.asarray(model.alignment(x, y))[:, 0, :3].argmax(axis=-1)
    assert (looked == np.array([2, 1, 0])[None, :]).mean() > 0.9


def test_a_prompt_is_translated(run: Run) -> None:
    (row,) = run.sample(1, prompt="123")
    assert data.pairs.target_text(run.schema, row.astype(int)) == "321"
    rows = run.sample(3, prompt="123").astype(int)
    assert len({tuple(row) for row in rows}) == 3


def test_the_probe_tells_sharpness_and_direction(run: Run) -> None:
    assert "alignment" in probes.applicable(run)
    outcome = probes.examine("alignment", run, text="407")
    assert outcome.numbers["attention"]["order"] < -0.9
    assert 0.5 < outcome.numbers["attention"]["sharpness"] <= 1
    assert "'407' becomes '704'." in outcome.findings
    assert "backwards" in outcome.findings[1]
    (picture,) = outcome.pictures
    assert isinstance(picture, Heatmap)
    assert (list(picture.rows), list(picture.columns)) == (["7", "0", "4", "■"], ["4", "0", "7", "■"])
    assert report.draw(picture).startswith("<svg")


def test_the_report_sets_translations_beside_the_truth(run: Run) -> None:
    (table,) = gallery.sample_pictures(run)
    assert isinstance(table, Table)
    assert all(source[::-1] == true for source, _, true in table.rows)
    assert sum(said == true for _, said, true in table.rows) >= 9
    (picture,) = gallery.own_pictures(run)
    assert isinstance(picture, Heatmap)


def test_the_probe_does_not_apply_without_attention(tmp_path: Path) -> None:
    pairs = data.load("reverse", n=100, length=3)
    model = models.build("seq2seq", pairs, width=8, embedding=4, attention="none")
    assert isinstance(model, CanTranslate)
    short = fit(model, pairs, run=tmp_path / "short", steps=2, batch=8, schedule={"warmup": 0})
    assert "alignment" not in probes.applicable(short)
    with pytest.raises(CapabilityError, match="attention to the source"):
        probes.examine("alignment", short)
