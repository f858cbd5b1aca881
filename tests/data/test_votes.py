"""Votes: shares of ordered grades, from lists beside images to predictions and scores."""

from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import chainrule as cr
from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import Schema, check, load, targets
from chainrule.data.targets.votes import grades
from chainrule.report.gallery import prediction_pictures
from chainrule.train import Run, fit
from chainrule.train.scores.votes import votes
from tests.data import corpus

COUNT = 24
TEN = Schema(
    "image", (8, 8, 1), target="votes", target_shape=(10,), classes=tuple(str(k) for k in range(1, 11))
)


@pytest.fixture(name="photos")
def _photos(tmp_path: Path) -> Path:
    for i in range(COUNT):
        corpus.write(
            tmp_path / "photos" / f"{i:02d}.png", corpus.packed(corpus.picture(i, size=(8, 8), mode="L"))
        )
    return tmp_path / "photos"


def listed(photos: Path, head: str = "file,1,2,3,4", row: str = "{i:02d}.png,{i},1,0,2") -> None:
    lines = [head, *(row.format(i=i) for i in range(COUNT))]
    corpus.write(photos / "votes.csv", "\n".join(lines).encode())


def test_columns_of_votes_become_shares(photos: Path) -> None:
    listed(photos)
    data = load(photos, labels="votes.csv", target_as="votes")
    assert (data.schema.target, data.schema.classes) == ("votes", ("1", "2", "3", "4"))
    y = np.concatenate([split.y for split in (data.train, data.val, data.test)])
    assert y.sum(axis=1) == pytest.approx(1)
    assert sorted(y[:, 0] * 3 / (1 - y[:, 0])) == pytest.approx(range(COUNT), abs=1e-4)
    assert load(**data.source).hash == data.hash
    assert "votes for 4 grades" in data.describe()
    # Unless they are said to be votes, several numbers are several values.
    assert load(photos, labels="votes.csv").schema.target == "value"


@pytest.mark.parametrize(
    ("head", "row", "message", "remedy"),
    [
        (
            "file,1,2,3,4",
            "{i:02d}.png,0,0,0,0",
            "24 of 24 examples have no votes; first: 1, 2, 3",
            "leave them",
        ),
        ("file,1,2,4,3", "{i:02d}.png,1,0,3,0", "ascending order, not 1, 2, 4, 3", "data.target=1,2,3,4"),
        ("file,1,2", "{i:02d}.png,-1,3", "below 0", "data.target_as=value"),
        ("file,grade", "{i:02d}.png,{i}", "a column for each grade", "data.target="),
    ],
)
def test_what_are_no_votes_is_named(photos: Path, head: str, row: str, message: str, remedy: str) -> None:
    listed(photos, head, row)
    found = check(photos, labels="votes.csv", target_as="votes")
    assert message in str(found.problems)
    assert remedy in str(found.problems)
    with pytest.raises(DataError):
        load(photos, labels="votes.csv", target_as="votes")


def test_the_remedy_for_grades_out_of_order_works(photos: Path) -> None:
    listed(photos, "file,1,2,4,3")
    data = load(photos, labels="votes.csv", target_as="votes", target=["1", "2", "3", "4"])
    assert data.schema.classes == ("1", "2", "3", "4")


def test_names_say_what_grades_are_worth() -> None:
    assert grades(["-1", "0", "1.5"]).tolist() == [-1, 0, 1.5]
    assert grades(["star-2", "star-4"]).tolist() == [2, 4]
    assert grades(["1", "good"]).tolist() == [1, 2]


def test_scores_agree_with_other_formulas() -> None:
    noise = np.random.default_rng(0)
    p, y = noise.dirichlet(np.ones(10), 50), noise.dirichlet(np.ones(10), 50)
    found = votes(p, y, TEN)
    worth = np.arange(1, 11)
    assert found["rmse"].value == pytest.approx(np.sqrt(np.mean(((p - y) @ worth) ** 2)))
    assert found["pearson"].value == pytest.approx(scipy.stats.pearsonr(p @ worth, y @ worth).statistic)
    assert found["spearman"].value == pytest.approx(scipy.stats.spearmanr(p @ worth, y @ worth).statistic)
    # On a line with steps of one, Cramér's distance is the same but for the mean over the bins.
    expected = [scipy.stats.energy_distance(worth, worth, a, b) for a, b in zip(p, y, strict=True)]
    assert found["earth_mover"].value == pytest.approx(np.mean(expected) / np.sqrt(20))
    five, seven = np.eye(10)[[4]], np.eye(10)[[6]]
    single = votes(five, seven, TEN)
    assert single["earth_mover"].value == pytest.approx(0.447214, abs=5e-7)
    assert "pearson" not in single
    with pytest.raises(ArgumentError, match="votes: predicted"):
        votes(p, y[:3], TEN)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    data = load("photo-votes", n=60, size=16)
    model = cr.models.build("cnn", data, width=4, stages=2, blocks=1)
    return fit(model, data, run=tmp_path_factory.mktemp("runs") / "votes", steps=30, batch=16, eval_every=30)


def test_a_classifier_of_images_predicts_votes(run: Run) -> None:
    data = run.data
    assert data.train.y.sum(axis=1) == pytest.approx(1)
    scored = run.score("val")
    assert {"rmse", "earth_mover", "loss"} <= scored.keys()
    answers = run.predict(data.inverse(data.test.x))
    assert list(answers.columns) == ["prediction", "spread", *data.schema.classes]
    shares = np.stack([answers[name] for name in data.schema.classes], axis=1)
    assert shares.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert answers.prediction == pytest.approx(shares @ np.arange(1, 11), abs=1e-5)
    names = [picture.name for picture in prediction_pictures(run)]
    assert names == ["predicted-true", "votes", "worst-losses"]
    with pytest.raises(ArgumentError, match="this is no loss of a target that is a votes"):
        fit(run.skeleton(), data, run=run.path.parent / "other", steps=1, loss={"name": "huber"})


def test_known_votes_give_scores_of_new_images(photos: Path, tmp_path: Path) -> None:
    listed(photos)
    data = load(photos, labels="votes.csv", target_as="votes")
    run = fit(cr.models.build("cnn", data, width=2, stages=1, blocks=1), data, run=tmp_path / "run", steps=2)
    answers = run.predict(photos)
    assert len(answers) == COUNT
    assert answers.metrics["rmse"].value > 0
    y, known = targets.of(data.schema).recognised(data.schema, [[1, 1, 0, 0], None, [0, 0, 0, 0], "a"])
    assert known.tolist() == [True, False, False, False]
    assert y[0].tolist() == [0.5, 0.5, 0, 0]
