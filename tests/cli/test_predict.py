"""`chainrule predict`."""

import csv
from pathlib import Path

import numpy as np
import pytest

from chainrule.train import Run

from .conftest import Command


@pytest.fixture
def points(trained: Path) -> Path:
    """The test examples of the run in a file, with their classes."""
    data = Run.open(trained).data
    classes = np.array(data.schema.classes)[np.asarray(data.test.y)]
    np.savez("new.npz", x=data.inverse(data.test.x), y=classes)
    return Path("new.npz")


def test_predictions_are_written_in_order_and_the_first_are_shown(
    cli: Command, trained: Path, points: Path
) -> None:
    out = cli("predict", "toy", str(points), "out=answers").out
    table = list(csv.DictReader(Path("answers/predictions.csv").read_text().splitlines()))
    expected = Run.open(trained).predict(points)
    assert [row["name"] for row in table] == list(expected.names)
    assert [row["prediction"] for row in table] == expected.prediction.tolist()
    for column in ("probability", *Run.open(trained).schema.classes):
        assert [float(row[column]) for row in table] == pytest.approx(expected[column].tolist(), rel=1e-5)
    assert out.splitlines()[0].split() == ["name", "prediction", "probability", "upper", "lower"]
    assert f"and {len(table) - 5} more" in out
    assert "answers/predictions.csv" in out
    assert "accuracy" in out


def test_machines_get_the_path_and_the_scores(cli: Command, trained: Path, points: Path) -> None:
    found = cli("predict", "toy", str(points), "--json").last
    assert found["path"] == "runs/toy/predictions/predictions.csv"
    assert found["rows"] == len(Run.open(trained).data.test)
    assert found["columns"][:3] == ["name", "prediction", "probability"]
    scores = cli("score", "toy", "--json").last["metrics"]
    assert found["metrics"]["accuracy"] == scores["accuracy"]


def test_inputs_that_cannot_be_used_are_shown_and_listed(cli: Command, trained: Path) -> None:
    x = np.ones((3, 2))
    x[1] = np.nan
    np.save("new.npy", x)
    out = cli("predict", "toy", "new.npy").out
    assert "row 1 (NaN or infinite)" in out
    assert "1 of 3 inputs cannot be used and have empty rows: runs/toy/predictions/problems.csv" in out


def test_nothing_that_can_be_used_is_an_error_for_scripts(cli: Command, trained: Path) -> None:
    np.save("new.npy", np.full((2, 2), np.nan))
    result = cli("predict", "toy", "new.npy", "--json")
    assert result.code == 3
    assert len(result.last["problems"]) == result.last["rows"] == 2
    assert len(Path(result.last["path"]).read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "error: missing FILE-OR-FOLDER"),
        (["runs"], 3, "error: runs is a folder"),
        (["nwe.npz"], 3, "error: nwe.npz does not exist (did you mean 'new.npz'?)"),
        (["new.npz", "levle=0.9"], 2, "error: unknown setting 'levle' (did you mean 'level'?)"),
        (["new.npz", "level=much"], 2, "error: level=much: level must be a number between 0 and 1"),
        (["new.npz", "horizon=1.5"], 2, "error: horizon=1.5: horizon must be a whole number of steps"),
        (["new.npz", "horizon=3"], 2, "error: horizon=3: toy is no model of series"),
        (
            ["moons"],
            3,
            "moons does not exist\n       to judge the run on examples that come along: chainrule score ",
        ),
        (["a text"], 3, "a text does not exist\n       if it is a text itself: 'text=a text'"),
        (["text=a text"], 2, "error: predict: list is no input for this run"),
    ],
)
def test_a_mistake_is_told(cli: Command, points: Path, words: list[str], code: int, message: str) -> None:
    result = cli("predict", "toy", *words)
    assert result.code == code
    assert message in result.err
