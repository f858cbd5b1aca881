"""Weights of the rows of a table: a column that is no feature."""

from pathlib import Path

import numpy as np
import pytest

from chainrule import data
from chainrule.core.errors import ArgumentError, DataError


@pytest.fixture
def table(tmp_path: Path) -> Path:
    noise = np.random.default_rng(0)
    rows = [
        f"{a:.3f},{b:.3f},{i % 4},{'yes' if a > b else 'no'}"
        for i, (a, b) in enumerate(noise.random((40, 2)))
    ]
    (tmp_path / "table.csv").write_text("a,b,count,kind\n" + "\n".join(rows) + "\n")
    return tmp_path / "table.csv"


def test_a_column_of_weights_is_no_feature_and_stays_with_its_rows(table: Path) -> None:
    found = data.load(table, weight="count")
    assert found.schema.columns == ("a", "b")
    whole = np.concatenate([found.split(name).arrays["weight"] for name in ("train", "val", "test")])
    ratios = np.sort(whole) / np.sort(whole)[-1] * 3
    np.testing.assert_allclose(ratios, np.sort(np.arange(40) % 4), atol=1e-5)
    assert found.train.arrays["weight"].mean() == pytest.approx(1, rel=1e-5)
    assert found.train.batch([0, 1]).weights.shape == (2,)
    assert data.load(table, weight=2).hash == found.hash
    assert data.load(table, drop=["count"]).hash != found.hash
    assert data.load(table, drop=["count"]).train.batch([0]).weights is None


def test_a_weight_that_is_none_makes_a_bad_row(table: Path) -> None:
    text = table.read_text().splitlines()
    text[3] = text[3].replace(",2,", ",-2,")
    text[5] = text[5].replace(",0,", ",many,")
    table.write_text("\n".join(text) + "\n")
    with pytest.raises(DataError, match=r"2 of 40 rows .*'-2' in column 'count' is no weight"):
        data.load(table, weight="count")
    kept = data.load(table, weight="count", bad="skip")
    assert sum(len(kept.split(name)) for name in ("train", "val", "test")) == 38


def test_a_column_that_cannot_be_a_weight_is_refused(table: Path) -> None:
    with pytest.raises(
        ArgumentError, match=r"weight='cuont': there is no such column \(did you mean 'count'"
    ):
        data.load(table, weight="cuont")
    with pytest.raises(ArgumentError, match="target and dropped"):
        data.load(table, weight="kind", target="kind")
    with pytest.raises(ArgumentError, match="windows of a series have no weights"):
        data.load(table, weight="count", series=4, target="none", drop=["kind"])
