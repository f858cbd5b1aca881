"""The numbers of pictures as tables: all digits, names that no spreadsheet runs, nothing for pictures of pixels."""

from pathlib import Path

import numpy as np

from chainrule.core.pictures import Bars, Heatmap, Images, Lines, Passage, Scatter, Swarm, Waterfall
from chainrule.report.csv_files import table_of, write_csv


def test_every_chart_has_a_table_of_its_numbers() -> None:
    steps = Waterfall("w", "W", "logit", 1.0, ["a", "rest (2)"], np.array([0.5, -0.25]), ("base", "end"))
    rows = table_of(steps)
    assert rows is not None
    assert rows[0] == ["name", "logit", "standard error"]
    assert [row[:2] for row in rows[1:]] == [("base", 1.0), ("a", 0.5), ("rest (2)", -0.25), ("end", 1.25)]
    dots = Swarm("s", "S", "value", ["a"], np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]), "shade")
    assert table_of(dots) == [["name", "row", "value", "shade"], ("a", 0, 1.0, 3.0), ("a", 1, 2.0, 4.0)]
    matrix = Heatmap("h", "H", "x", "y", np.eye(2), rows=["r", "s"])
    assert table_of(matrix) == [["", "0", "1"], ["r", 1.0, 0.0], ["s", 0.0, 1.0]]
    points = Scatter("p", "P", "x", "y", {"a": np.array([[1.0, 2.0]])}, shades=(np.array([9.0]), "z"))
    assert table_of(points) == [["group", "x", "y", "z"], ("a", 1.0, 2.0, 9.0)]
    bars = Bars("b", "B", "k", "v", ["c"], {"n": np.array([1.0])}, errors={"n": np.array([0.5])})
    assert table_of(bars) == [["k", "n", "standard error of n"], ("c", 1.0, 0.5)]
    paths = Lines("l", "L", "", "y", {"a": (np.arange(2), np.arange(2.0))}, names=["base", "age"])
    assert table_of(paths) == [
        ["series", "x", "y", "low", "high"],
        ["a", "base", 0.0, "", ""],
        ["a", "age", 1.0, "", ""],
    ]
    assert table_of(Passage("t", "T", ["To"], np.array([1.5]), "nats")) == [["piece", "nats"], ("To", 1.5)]
    assert table_of(Images("i", "I", np.zeros((1, 2, 2, 1)))) is None


def test_names_are_kept_from_being_run_and_numbers_keep_their_digits(tmp_path: Path) -> None:
    bars = Bars("b", "B", "k", "v", ["=SUM(A1)", "-1"], {"n": np.array([1 / 3, np.nan])})
    written = write_csv(bars, tmp_path / "b.csv")
    assert written is not None
    assert written.read_text() == "k,n\n'=SUM(A1),0.3333333333333333\n'-1,\n"
    assert write_csv(Images("i", "I", np.zeros((1, 2, 2, 1))), tmp_path / "i.csv") is None
