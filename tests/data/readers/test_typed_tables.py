"""Parquet and Excel hold the same table as CSV, packed or not."""

import datetime
import gzip
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import openpyxl
import pytest

from chainrule.core.errors import DataError
from chainrule.data import check, load
from chainrule.data.readers.raw import cell_text
from chainrule.data.readers.table import new_rows
from tests.data import corpus

HEAD = ["n", "share", "on", "good", "word", "kind"]


def rows(count: int = 24) -> list[list[Any]]:
    day = datetime.date(2024, 1, 1)
    return [
        [
            3 * i,
            i / 8,
            day + datetime.timedelta(days=9 * i),
            i % 3 == 0,
            None if i == 5 else "uv"[i % 2],
            "ab"[i % 2],
        ]
        for i in range(count)
    ]


@pytest.fixture(name="plain")
def _plain(tmp_path: Path) -> Path:
    return corpus.csv(tmp_path / "plain.csv", [HEAD, *([cell_text(cell) for cell in row] for row in rows())])


def workbook(path: Path, table: list[list[Any]], *more: str) -> Path:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in table:
        sheet.append(row)
    for name in more:
        book.create_sheet(name).append(["x", "y", "z"])
    book.save(path)
    return path


def test_a_packed_table_is_read_within_limits(plain: Path, tmp_path: Path) -> None:
    packed = corpus.write(tmp_path / "packed.csv.gz", gzip.compress(plain.read_bytes()))
    data = load(packed, missing="median")
    assert data.hash == load(plain, missing="median").hash
    assert data.name == "packed"
    with pytest.raises(DataError, match="more than max_bytes=100"):
        load(packed, max_bytes=100)


def test_a_workbook_holds_the_same_table(plain: Path, tmp_path: Path) -> None:
    path = workbook(tmp_path / "book.xlsx", [HEAD, *rows()], "notes")
    assert load(path, missing="median").hash == load(plain, missing="median").hash
    problems = {group.kind: group.items[0] for group in check(path).problems}
    assert problems["missing value"].where == "book.xlsx row 7"
    assert "sheet 'Sheet' is read; others, by data.sheet: notes" in problems["several sheets"].detail
    with pytest.raises(DataError, match=r"there is no sheet 'other'\n.*sheets: Sheet, notes"):
        load(path, sheet="other")
    with pytest.raises(DataError, match="no row can be used"):
        load(path, sheet="notes")
    reading = load(path, missing="median").reading
    assert reading is not None
    (piece,) = new_rows(path, reading)
    assert reading.encode(piece.names, [cells for _, cells in piece.rows]).x.shape == (
        24,
        len(reading.features),
    )


def test_a_title_above_the_table_of_a_workbook_is_a_bad_row(plain: Path, tmp_path: Path) -> None:
    path = workbook(tmp_path / "book.xlsx", [["Sales of 2024"], [], HEAD, *rows()])
    assert check(path, missing="median").problems[0].first == "book.xlsx row 1"
    assert load(path, missing="median", bad="skip").hash == load(plain, missing="median").hash


def test_a_hostile_workbook_is_refused(tmp_path: Path) -> None:
    path = workbook(tmp_path / "book.xlsx", [HEAD, *rows()])
    bomb, cut = tmp_path / "bomb.xlsx", tmp_path / "cut.xlsx"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as target:
        for item in source.infolist():
            data = source.read(item)
            if item.filename.endswith("sheet1.xml"):
                data = data.replace(b"<worksheet", b'<!DOCTYPE a [<!ENTITY b "c">]><worksheet', 1)
            target.writestr(item.filename, data)
    with pytest.raises(DataError, match="declares entities"):
        load(bomb)
    corpus.write(cut, path.read_bytes()[:-400])
    with pytest.raises(DataError, match="damaged"):
        load(cut)
    corpus.write(cut, b"n,kind\n1,a\n")
    with pytest.raises(DataError, match="damaged"):
        load(cut)
    with pytest.raises(DataError, match="more than max_bytes=100"):
        load(path, max_bytes=100)


def test_a_parquet_file_holds_the_same_table(
    plain: Path, tmp_path: Path, oracle: Callable[[str], ModuleType]
) -> None:
    arrow, parquet = oracle("pyarrow"), oracle("pyarrow.parquet")
    columns: dict[str, Any] = {
        name: list(column) for name, column in zip(HEAD, zip(*rows(), strict=True), strict=True)
    }
    columns["on"] = arrow.array(columns["on"]).cast(arrow.timestamp("ns"))
    path = tmp_path / "table.parquet"
    parquet.write_table(arrow.table(columns), path)
    assert load(path, missing="median").hash == load(plain, missing="median").hash
    assert check(path).problems[0].first == "table.parquet row 6"
    parquet.write_table(arrow.table({**columns, "list": [[1]] * 24}), path)
    with pytest.raises(DataError, match=r"column 'list' holds list<.*\n.*data.drop=list"):
        load(path, target="kind")
    without = load(path, target="kind", drop="list", missing="median")
    assert without.schema == load(plain, missing="median").schema
    parquet.write_table(arrow.table({"a": arrow.array([0] * 3_000_000), "b": [1] * 3_000_000}), path)
    with pytest.raises(DataError, match="unpacks to more than max_ratio"):
        load(path)
    corpus.write(path, path.read_bytes()[:-100])
    with pytest.raises(DataError, match="no Parquet file, or a damaged one"):
        load(path)


@pytest.mark.parametrize(("package", "file"), [("pyarrow", "a.parquet"), ("openpyxl", "a.xlsx")])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    package: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    corpus.write(tmp_path / file, b"PAR1")
    with pytest.raises(
        DataError, match=f"package {package}, which is not installed\n.*pip install {package}"
    ):
        load(tmp_path / file)


def test_cells_that_excel_shows_in_percent_mean_what_they_mean_in_csv(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    shares = [[f"{5 * i / 4:g}", "ab"[i % 2]] for i in range(24)]
    sheet.append(["share", "kind"])
    for number, (share, kind) in enumerate(shares, start=2):
        sheet.append([float(share) / 100, kind])
        sheet.cell(number, 1).number_format = "0.00%"
    book.save(tmp_path / "book.xlsx")
    plain = corpus.csv(tmp_path / "plain.csv", [["share", "kind"], *([f"{s}%", kind] for s, kind in shares)])
    found = load(tmp_path / "book.xlsx")
    assert found.hash == load(plain).hash
    assert found.reading is not None
    assert "percent" in found.reading.describe()
