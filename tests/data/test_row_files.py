"""Rows as CSV files: samples under the columns of their table, and rows with gaps."""

from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import Schema, load
from chainrule.data.dataset import Data
from chainrule.data.row_files import read_row, row_cells, write_rows


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Data:
    lines = [
        f"{150 + i},{'m' if i % 3 else 'f'},{'' if i % 5 == 0 else i},{'a' if i % 2 else 'b'}"
        for i in range(40)
    ]
    file = tmp_path_factory.mktemp("rows") / "people.csv"
    file.write_text("height,sex,age,group\n" + "\n".join(lines))
    return load(file, target="group", missing="median")


def test_rows_go_back_to_the_cells_they_came_from(people: Data, tmp_path: Path) -> None:
    x = people.inverse(people.train.x[:5])
    file = write_rows(tmp_path / "samples.csv", people.schema, x, people.reading, ["a"] * 5)
    lines = file.read_text().splitlines()
    assert lines[0] == "height,sex,age,group"
    for line, row in zip(lines[1:], x, strict=True):
        height, sex, age, group = line.split(",")
        number = round(float(height)) - 150
        assert (sex, group) == ("m" if number % 3 else "f", "a")
        assert (age == "") == (number % 5 == 0)
        assert not age or float(age) == pytest.approx(number, abs=1e-3)
        assert float(height) == pytest.approx(row[0], rel=1e-5)


def test_numbers_without_names_are_numbered() -> None:
    assert row_cells(Schema("points", (2,)), np.array([[1.0, 2.0]]), None) == (["x0", "x1"], [[1.0, 2.0]])


def test_a_row_with_gaps_says_what_is_known(people: Data, tmp_path: Path) -> None:
    (tmp_path / "row.csv").write_text("sex,height,group\nf,,\n")
    values, known = read_row(tmp_path / "row.csv", people.schema, people.reading)
    names = people.schema.columns
    assert {name for name, there in zip(names, known, strict=True) if there} == {"sex=f", "sex=m"}
    assert values[names.index("sex=f")] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("height\n", "1 lines"),
        ("heigth,sex\n,f\n", "did you mean 'height'"),
        ("sex\nx\n", "never seen in training"),
        ("height\n1\n2\n", "3 lines"),
        ("group\na\n", "unknown column 'group'"),
    ],
)
def test_rows_that_say_nothing_sensible_are_refused(
    people: Data, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "row.csv").write_text(text)
    with pytest.raises((ArgumentError, DataError), match=message):
        read_row(tmp_path / "row.csv", people.schema, people.reading)
