"""Numbers that count levels: whole numbers are kept as they are, in tables as in arrays and images."""

from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import DataError
from chainrule.data import load
from chainrule.data.loading.others import load_other
from tests.data.loading.test_others import like

BITS = (np.random.default_rng(0).random((60, 3)) < 0.4).astype(int)


def table(path: Path, cells: np.ndarray = BITS) -> Path:
    path.write_text("a,b,c\n" + "".join(",".join(map(str, row)) + "\n" for row in cells))
    return path


def arrays(path: Path, x: np.ndarray = BITS) -> Path:
    np.savez(path, x=x)
    return path


@pytest.mark.parametrize("kind", ["table", "points", "sequence"])
def test_zeros_and_ones_of_a_file_are_zeros_and_ones(tmp_path: Path, kind: str) -> None:
    x = BITS.reshape(20, 3, 3) if kind == "sequence" else BITS
    found = [load(arrays(tmp_path / "bits.npz", x), kind=kind, levels=2)]
    if kind != "sequence":
        found.append(load(table(tmp_path / "bits.csv"), kind=kind, target="none", levels=2))
    for data in found:
        assert data.schema.levels == 2
        seen = data.train.batch(np.arange(len(data.train))).x
        assert set(np.unique(seen)) == {0.0, 1.0}
        assert load(**data.source).hash == data.hash


def test_more_levels_lie_between_zero_and_one(tmp_path: Path) -> None:
    data = load(table(tmp_path / "stars.csv", 2 * BITS + 1), target="none", levels=5)
    assert set(np.unique(data.train.batch(np.arange(len(data.train))).x)) == {0.25, 0.75}
    assert data.inverse(np.array([[0.25, 0.75, 0.25]])).tolist() == [[1, 3, 1]]


def test_other_rows_are_read_by_the_same_levels(tmp_path: Path) -> None:
    data = load(table(tmp_path / "bits.csv"), target="none", levels=2)
    for name in ("other.csv", "other.tsv"):
        path = table(tmp_path / name, BITS[:7])
        path.write_text(path.read_text().replace(",", "\t" if name.endswith("tsv") else ","))
        assert load_other(path, like(data)).test.batch(np.arange(7)).x.tolist() == BITS[:7].tolist()


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        (BITS + 1, {}, r"levels=2 means whole numbers up to 1; found values from 1 to 2\s+use data.levels=3"),
        (BITS / 2, {}, "found values from 0 to 0.5, not all whole"),
        (
            np.where(BITS, "", "1"),
            {"missing": "median"},
            r"levels=2: some cells are missing\s.*data.missing=drop",
        ),
    ],
)
def test_what_is_no_level_is_refused(
    tmp_path: Path, cells: np.ndarray, options: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load(table(tmp_path / "cells.csv", cells), target="none", levels=2, **options)
