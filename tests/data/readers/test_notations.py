"""Numbers and dates as people write them, names that are numbers, and what only looks like a feature."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.core.errors import DataError
from chainrule.data import check, load
from chainrule.data.column import Hints
from chainrule.data.columns import recognise
from tests.data import corpus


def table(path: Path, head: str, *rows: str) -> Path:
    return corpus.write(path, "\n".join([head, *rows]).encode())


@pytest.mark.parametrize(
    ("cells", "read_as", "values"),
    [
        (["12 %", "12.5%", ""], "percent", [12, 12.5]),
        (["$1,234.50", "-$5", "$7"], "amount in $", [1234.5, -5, 7]),
        (["1.234,50 €", "7,00 €"], "amount in €, decimal comma", [1234.5, 7]),
        (["CHF 1'234.50", "CHF 12"], "amount in CHF", [1234.5, 12]),
        (["0,5", "2", "-1,25"], "number, decimal comma", [0.5, 2, -1.25]),
        (["1 234,5", "12"], "number, decimal comma", [1234.5, 12]),
        (["1,234,567", "12.5"], "number", [1234567, 12.5]),
        (["1,5 %", "20 %"], "percent, decimal comma", [1.5, 20]),
    ],
)
def test_numbers_are_read_as_people_write_them(cells: list[str], read_as: str, values: list[float]) -> None:
    found = recognise("a", cells, Hints("t.csv"))
    assert found.describe() == read_as
    held = [cell for cell in cells if cell]
    assert found.codes(held).tolist() == values
    assert recognise("a", cells, Hints("t.csv", plain=True)).describe() != read_as or read_as == "number"


@pytest.mark.parametrize(
    "cells",
    [["5 %", "low"], ["$5", "5 €"], ["a,b", "c,d"], ["1,2,3", "4,5"], ["+", "-"], ["%", "$"], ["1:5", "2:7"]],
)
def test_what_is_not_a_number_throughout_stays_words(cells: list[str]) -> None:
    assert recognise("a", cells, Hints("t.csv")).read_as == "words"


@pytest.mark.parametrize(
    ("cells", "order"),
    [
        (["2024-03-31", "1999-12-01"], "date, year first"),
        (["2024-03-31T12:30:00Z", "2024-03-31 06:00"], "date and time, year first"),
        (["31.03.2024", "1.4.2024"], "date, day first"),
        (["31/03/2024", "01/04/2024"], "date, day first"),
        (["03/31/2024", "04/01/2024"], "date, month first"),
        (["31 Mar 2024", "1-Apr-2024", "April 2, 2024"], "date, named months"),
    ],
)
def test_dates_are_read_by_the_column(cells: list[str], order: str) -> None:
    found = recognise("a", cells, Hints("t.csv"))
    assert found.describe() == order
    assert found.expand(found.codes(cells)).shape == (len(cells), len(found.features("a")))


@pytest.mark.parametrize(
    "cells", [["2024-02-30"], ["31/31/2024"], ["31 Foo 2024"], ["2024-01-01 25:00"], ["1-2-24"]]
)
def test_days_that_do_not_exist_are_no_dates(cells: list[str]) -> None:
    assert recognise("a", cells, Hints("t.csv")).read_as == "words"


def test_a_date_becomes_its_year_and_angles() -> None:
    dates = recognise("a", ["2024-07-01 18:00", "2023-01-01 00:00+02:00"], Hints("t.csv"))
    x = dates.expand(dates.codes(["2024-07-01 18:00", "2023-01-01 00:00+02:00"]))
    assert dates.features("a")[0] == "a year"
    assert x[0, 0] == pytest.approx(2024 + 182.75 / 366)
    assert np.arctan2(x[0, 3], x[0, 4]) == pytest.approx(0, abs=1e-9)  # a Monday
    assert x[0, 5:].tolist() == pytest.approx([-1, 0])
    assert x[1, 0] == pytest.approx(2022 + (364 + 22 / 24) / 365)  # in UTC


@pytest.mark.parametrize(
    "cells",
    [
        ["2024-01-01", "2024-02-29", "2023-12-31", "1969-07-20"],
        ["31.12.2024", "01.01.2023", "29.02.2000"],
        ["12/31/2024", "01/01/2023"],
        ["31 Dec 2024", "1 Jan 2023"],
        ["2024-12-31 23:59:59", "2024-01-01 00:00", "2023-07-01 06:30"],
    ],
)
def test_features_with_few_digits_tell_the_date_again(cells: list[str]) -> None:
    found = recognise("a", cells, Hints("t.csv"))
    x = found.expand(found.codes(cells))
    assert found.restored(np.column_stack([x[:, 0].round(2), x[:, 1:].round(6)]).astype(np.float32)) == cells


def test_features_of_no_date_become_the_nearest_one() -> None:
    dates = recognise("a", ["2024-07-01"], Hints("t.csv"))
    filled, absurd, unknown = [2024.5, 0, 0, 0, 0], [1e9, 1, 0, 0, 0], [np.nan] * 5
    assert dates.restored(np.array([filled, absurd, unknown])) == ["2024-07-02", "9998-04-02", ""]


def test_a_date_that_may_begin_with_day_or_month_is_refused_until_it_is_said(tmp_path: Path) -> None:
    rows = [f"0{1 + i % 9}/0{1 + i % 4}/2024,{i * i},{'ab'[i % 2]}" for i in range(20)]
    path = table(tmp_path / "d.csv", "on,n,c", *rows)
    with pytest.raises(DataError, match=r"may begin with the day or the month\n.*data.dates=day-first"):
        load(path)
    assert load(path, dates="day-first").hash != load(path, dates="month-first").hash


def test_a_mark_that_may_divide_thousands_or_decimals_is_settled_by_other_columns_or_by_the_user(
    tmp_path: Path,
) -> None:
    rows = [f"{1 + i},{100 + i};{i},5;{'ab'[i % 2]}" for i in range(20)]
    data = load(table(tmp_path / "a.csv", "a;b;c", *rows), kind="table")
    assert data.reading is not None
    assert data.reading.columns[0].shown == "1.1 to 20.119"
    alone = table(tmp_path / "b.csv", "a;c", *(f"{1 + i},{100 + i};{'ab'[i % 2]}" for i in range(20)))
    with pytest.raises(DataError, match=r"may divide thousands or decimals\n.*data.decimal=point"):
        load(alone)
    shown = [load(alone, decimal=mark).reading for mark in ("point", "comma")]
    assert [one.columns[0].shown for one in shown if one] == ["1100 to 20119", "1.1 to 20.119"]


def test_a_table_without_names_and_with_decimal_commas_is_divided_at_semicolons(tmp_path: Path) -> None:
    data = load(table(tmp_path / "a.csv", "0,5;1,5;a", *(f"{i},25;{i},75;{'ab'[i % 2]}" for i in range(20))))
    assert data.schema.columns == ("column 0", "column 1")


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("2019,2020,2021", "{i}.5,{j},{k}"),
        ("region,2019,2020", "r{k},{i},{j}"),
        ("region,2019", "r{k},{i}"),
        (",0,1,2", "{i},{j}.5,{i},{k}"),
    ],
)
def test_numbers_that_count_up_are_names_and_remarked_on(tmp_path: Path, head: str, row: str) -> None:
    rows = [row.format(i=i, j=3 * i * i, k=i % 3) for i in range(20)]
    path = table(tmp_path / "years.csv", head, *rows)
    report = check(path)
    assert report.total == 20
    assert "numbers as names" in [group.kind for group in report.problems]
    last = head.split(",")[-1]
    assert load(path, target=last if len(head) > 6 else 3).schema.target in ("class", "value")
    assert check(path, header=False).total == 21


def test_a_slip_in_the_first_row_makes_no_names_of_it(tmp_path: Path) -> None:
    rows = [f"{i},{5 * i},{i % 3}" for i in range(20)]
    for slip in ("?,5,1", "unknown,5,1"):
        assert check(table(tmp_path / "a.csv", slip, *rows)).problems[0].first == "a.csv line 1"
    assert check(table(tmp_path / "b.csv", "150,setosa,virginica", *rows)).total == 20


def test_a_first_row_of_numbers_that_does_not_count_up_is_data(tmp_path: Path) -> None:
    for head in ("1,2,4", "3.5,4.5,5.5", "0,0,1"):
        assert (
            check(table(tmp_path / "a.csv", head, *(f"{i},{5 * i},{i % 3}" for i in range(20)))).total == 21
        )
    assert check(table(tmp_path / "b.csv", "1,2,3", *(f"{i},{i + 1},{i + 2}" for i in range(20)))).total == 21


@pytest.mark.parametrize(
    ("name", "start", "step", "remarked"),
    [
        ("Unnamed: 0", 0, 1, True),
        ("", 1, 1, True),
        ("x", 5, 1, True),
        ("customer_id", 7, 3, True),
        ("x", 7, 3, False),
    ],
)
def test_a_column_that_counts_the_rows_is_remarked_on(
    tmp_path: Path, name: str, start: int, step: int, remarked: bool
) -> None:
    rows = [f"{start + step * i},{i * i % 71},{'ab'[i % 2]}" for i in range(20)]
    problems = check(table(tmp_path / "a.csv", f"{name},v,c", *rows)).problems
    assert ("index column" in [group.kind for group in problems]) == remarked
    if remarked:
        remedy = problems[0].items[0].detail.partition("data.drop=")[2].strip("'")
        assert not check(tmp_path / "a.csv", drop=remedy).problems


def test_plain_notation_reads_as_earlier_versions_did(tmp_path: Path) -> None:
    rows = [f"{i % 4} %,2024-01-0{1 + i % 3},${i % 5},{i % 3}" for i in range(40)]
    path = table(tmp_path / "old.csv", "a,b,c,d", *rows)
    assert load(path, notation="plain").hash.startswith("183b9072b98d1240")
    assert load(path).schema.columns[0] == "a"


def test_few_whole_numbers_are_classes_only_if_each_comes_often(tmp_path: Path) -> None:
    def report(count: int, different: int) -> tuple[str, list[str]]:
        rows = [f"{i * i % 97},{i * 7 % 331}.5,{i % different}" for i in range(count)]
        path = table(tmp_path / f"{count}-{different}.csv", "a,b,n", *rows)
        return load(path).schema.target, [group.kind for group in check(path).problems]

    assert report(40, 18) == ("value", ["whole numbers as values"])
    assert report(324, 18) == ("class", ["whole numbers as classes"])
    assert report(40, 2) == ("class", [])
    assert report(40, 40) == ("value", [])


def test_the_report_and_the_description_say_how_columns_were_read(tmp_path: Path) -> None:
    rows = [f"{i * i},{i} %,2024-01-{i:02d},{'' if i == 5 else 'uv'[i % 2]},{i % 2}" for i in range(1, 25)]
    path = table(tmp_path / "a.csv", "n,p,on,w,t", *rows)
    assert check(path, drop="n").columns == (
        ("n", "left out", "", ""),
        ("p", "percent", "0", "1 to 24"),
        ("on", "date, year first", "0", "2024-01-01 to 2024-01-24"),
        ("w", "2 words", "1", "u, v"),
        ("t", "target: 2 classes", "0", "0 to 1"),
    )
    said = load(path, missing="median").describe()
    assert "2 classes, target t; columns: number (1), percent (1), date (1), words (1), train" in said
    assert (
        "target p (values); columns: number (2), left out (2)"
        in load(path, target="p", drop=[2, 3]).describe()
    )


@pytest.mark.parametrize(
    ("cell", "read_as"), [("${i}.{i:03d}5", "amount in $"), ("2024-01-{day:02d} 10:{minute:02d}", "date")]
)
def test_a_slip_in_a_column_of_many_numbers_or_dates_is_a_bad_cell(
    tmp_path: Path, cell: str, read_as: str
) -> None:
    rows = [
        f"{cell.format(i=i, minute=i % 60, day=1 + i // 4)},{i * i % 31},{'xy'[i % 2]}" for i in range(100)
    ]
    path = table(tmp_path / "a.csv", "p,v,c", *rows, "free,3,x")
    report = check(path)
    assert [(group.count, group.first) for group in report.problems] == [(1, "a.csv line 102")]
    assert report.columns[0][1].startswith(read_as)
    assert len(load(path, bad="skip").skipped) == 1


def test_spaces_and_bars_divide_cells_where_nothing_else_does(tmp_path: Path) -> None:
    rows = [f"{i * i} {i * 7 % 31}  {i % 5}.5" for i in range(20)]
    for name, mark in (("a.csv", " "), ("b.csv", " | ")):
        path = table(
            tmp_path / name, *(row.replace("  ", " ").replace(" ", mark) for row in ("p q r", *rows))
        )
        assert load(path).schema.columns == ("p", "q")
    assert load(table(tmp_path / "c.csv", *rows), target="none").schema.columns == tuple(
        f"column {j}" for j in range(3)
    )


def test_a_title_above_the_table_is_a_bad_row_and_nothing_else(tmp_path: Path) -> None:
    path = table(
        tmp_path / "a.csv",
        "Sales of 2024",
        "",
        "n,p,c",
        *(f"{i * i},{i * 7 % 31},{'xy'[i % 2]}" for i in range(20)),
    )
    assert [(group.kind, group.first) for group in check(path).problems] == [("ragged row", "a.csv line 1")]
    assert load(path, bad="skip").schema.columns == ("n", "p")


def test_numbers_of_thousands_of_digits_are_no_names(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", f"{'9' * 5000},1,2", *(f"{i},{i * i},{i % 2}" for i in range(20)))
    assert check(path).problems[0].kind == "NaN or infinite"


def test_words_of_rows_that_are_left_out_leave_no_gap_to_fill(tmp_path: Path) -> None:
    rows = [
        f"{'rare' if i == 3 else ('u', 'v', '')[i % 3]},{'bad' if i == 3 else i * i},{i % 2}"
        for i in range(30)
    ]
    data = load(table(tmp_path / "a.csv", "w,n,c", *rows), missing="median", bad="skip")
    assert data.schema.columns == ("w=u", "w=v", "w missing", "n")
    gone = [f"{'only' if i == 3 else ''},{'bad' if i == 3 else i * i},{i % 2}" for i in range(30)]
    with pytest.raises(DataError, match=r"column 'w' is empty in every row that can be used\n.*data.drop=w"):
        load(table(tmp_path / "b.csv", "w,n,c", *gone), missing="median", bad="skip")


WRITTEN = {
    "percent": "{:.2f} %",
    "amount in $": "${:,.2f}",
    "number, decimal comma": "{:.2f}",
    "amount in €, decimal comma": "{:,.2f} €",
}


@pytest.mark.parametrize("read_as", WRITTEN)
@given(cents=st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=20))
def test_numbers_come_back_from_every_notation(read_as: str, cents: list[int]) -> None:
    values = [cent / 100 for cent in cents]
    cells = [WRITTEN[read_as].format(value) for value in values]
    if "comma" in read_as:
        cells = [cell.translate(str.maketrans(",.", ".,")) for cell in cells]
    found = recognise("a", cells, Hints("t.csv"))
    assert found.describe() == read_as
    assert found.codes(cells).tolist() == values
