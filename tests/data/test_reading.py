"""Rows that come later are read exactly as the training rows were."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import DataError
from chainrule.data import Data, load
from chainrule.data.readers.table import new_rows
from chainrule.data.reading import TableReading
from tests.data import corpus

HEAD = ["id", "price", "share", "on", "colour", "species"]


def body(count: int = 24) -> list[list[object]]:
    return [
        [
            7 * i,
            f"{i},50 €",
            f"{2 * i} %",
            f"2024-{1 + i % 12:02d}-{1 + i:02d}",
            ("red", "white", "")[i % 3],
            ("rose", "iris")[i % 2],
        ]
        for i in range(count)
    ]


@pytest.fixture(name="shop", scope="module")
def _shop(tmp_path_factory: pytest.TempPathFactory) -> Data:
    rows = [";".join(map(str, row)) for row in [HEAD, *body()]]
    path = corpus.write(tmp_path_factory.mktemp("shop") / "shop.csv", "\n".join(rows).encode())
    return load(path, drop="id", missing="median")


def reading_of(data: Data) -> TableReading:
    assert data.reading is not None
    return data.reading


def test_a_plan_encodes_training_rows_into_the_training_features(shop: Data) -> None:
    cells = [[str(cell) for cell in row] for row in body()]
    found = reading_of(shop).encode(HEAD, cells)
    assert not found.faults
    assert reading_of(shop).features == shop.schema.columns
    x = shop.scaling.inverse(
        np.concatenate([s.x for s in (shop.train, shop.val, shop.test)]).astype(np.float64)
    )
    assert sorted(found.x.round(3).tolist()) == sorted(x.round(3).tolist())
    decoded = reading_of(shop).decode_target(HEAD, cells)
    assert decoded is not None
    assert [shop.schema.classes[k] for k in decoded.y] == [row[-1] for row in body()]


def test_a_plan_survives_its_json(shop: Data) -> None:
    stored = json.loads(json.dumps(reading_of(shop).to_json(), allow_nan=False))
    assert TableReading.from_json(stored) == shop.reading
    for damage in ({"read_as": "code"}, {"read_as": "date", "order": "backwards"}, {"fill": "x"}):
        broken = {**stored, "columns": [{**stored["columns"][1], **damage}]}
        with pytest.raises((ValueError, KeyError)):
            TableReading.from_json(broken)


def test_columns_are_found_by_name_and_need_no_target(shop: Data) -> None:
    reading = reading_of(shop)
    names = ["colour", "on", "remark", "share", "price"]
    found = reading.encode(names, [["red", "2024-02-01", "new", "3%", "1.234,5"]])
    straight = reading.encode(HEAD, [["0", "1234,50 €", "3 %", "2024-02-01", "red", ""]])
    assert found.x.tolist() == straight.x.tolist()
    assert found.notes == ("columns not known from training: remark",)
    assert reading.decode_target(names, [["red"] * 5]) is None
    with pytest.raises(DataError, match=r"no column 'share' \(did you mean 'shares'\?\)"):
        reading.encode(["colour", "on", "price", "shares"], [])


def test_a_row_that_cannot_be_read_is_named_and_costs_only_itself(shop: Data) -> None:
    rows = [
        ["0", "5 €", "1 %", "2024-01-31", "red", "rose"],
        ["0", "five", "1 %", "2024-01-31", "red", "rose"],
        ["0", "5 €", "1 %", "2024-02-31", "blue", "tulip"],
        ["0", "", "", "", "", ""],
    ]
    found = reading_of(shop).encode(HEAD, rows)
    assert {row: fault.kind for row, fault in found.faults.items()} == {
        1: "non-numeric cell",
        2: "not a date",
    }
    assert np.isfinite(found.x).all(axis=1).tolist() == [True, False, False, True]
    labels = reading_of(shop).decode_target(HEAD, rows)
    assert labels is not None
    assert labels.y.tolist() == [1, 1, -1, -1]
    assert labels.faults[2].reason.startswith("unknown word: 'tulip'")


def test_missing_cells_become_the_median_of_training_rows_and_are_marked(tmp_path: Path) -> None:
    rows = [[i, "" if i % 5 == 0 else i * i, "ab"[i % 2]] for i in range(60)]
    path = corpus.csv(tmp_path / "gaps.csv", [["a", "b", "c"], *rows])
    data = load(path, missing="median")
    assert data.schema.columns == ("a", "b", "b missing")
    assert not data.skipped
    raw = np.array([float(row[1]) if row[1] != "" else np.nan for row in rows])
    x = data.scaling.inverse(data.train.x.astype(np.float64))
    known = raw[x[:, 0].round().astype(int)]
    assert np.allclose(x[:, 1], np.where(np.isnan(known), np.nanmedian(known), known), atol=1e-3)
    assert x[:, 2].round().tolist() == np.isnan(known).tolist()
    assert reading_of(data).columns[1].fill == (np.nanmedian(known),)
    assert load(path, missing="mean").hash != data.hash == load(path, missing="median", seed=5).hash
    with pytest.raises(DataError, match=r"12 of 60 rows cannot be read.*\n.*\n.*data.missing=median"):
        load(path)
    with pytest.raises(DataError, match=r"gaps.csv line 2: column 'b'"):
        load(path, missing="error", bad="skip")


def test_numbers_name_classes_however_they_are_written(tmp_path: Path) -> None:
    path = corpus.csv(tmp_path / "n.csv", [["a", "b", "k"], *([i, i * i, 1 + i % 3] for i in range(30))])
    decoded = reading_of(load(path)).decode_target(["k"], [["2"], ["2.0"], ["4"], [""]])
    assert decoded is not None
    assert decoded.y.tolist() == [1, 1, -1, -1]
    assert [decoded.faults[row].kind for row in (2, 3)] == ["unknown class", "missing value"]
    values = reading_of(load(path, target="b")).decode_target(["b"], [["2.5"], ["x"]])
    assert values is not None
    assert values.y[0] == 2.5
    assert np.isnan(values.y[1])


def test_a_new_table_is_read_in_pieces_with_its_bad_rows(shop: Data, tmp_path: Path) -> None:
    text = "colour;price;share;on\nred;1,5;2%;2024-01-01\nred;1\nwhite;2,5 €;3 %;2024-01-02\n"
    (piece,) = new_rows(corpus.write(tmp_path / "new.csv", text.encode()), reading_of(shop))
    assert [line for line, _ in piece.rows] == [2, 4]
    assert piece.problems[3].reason == "ragged row: 2 cells instead of 4"
    found = reading_of(shop).encode(piece.names, [cells for _, cells in piece.rows])
    assert found.x[:, 0].tolist() == [1.5, 2.5]
    with pytest.raises(DataError, match=r"(?s)without the names.*its first row must hold: price, share, on"):
        next(new_rows(corpus.write(tmp_path / "bare.csv", b"1,2,3,4\n"), reading_of(shop)))


def test_a_table_without_names_goes_by_positions(tmp_path: Path) -> None:
    rows = [[i / 3, "ab"[i % 2], i * i] for i in range(30)]
    reading = reading_of(load(corpus.csv(tmp_path / "n.csv", rows), target=1))
    assert reading.names(["1", "a", "2"]) == (["column 0", "column 1", "column 2"], 0)
    assert reading.names(["1", "2"]) == (["column 0", "column 2"], 0)
    with pytest.raises(DataError, match="4 columns"):
        reading.names(["1", "2", "3", "4"])


def test_the_plan_is_no_part_of_the_hash(tmp_path: Path) -> None:
    data = load(corpus.flowers(tmp_path / "flowers.csv"))
    assert data.hash.startswith("f2e23475dbea6954")
    assert replace(data, reading=None).hash == data.hash
