"""One long series as examples, and a generated one."""

from pathlib import Path

import numpy as np
import pytest

from chainrule.cli.arguments import Words
from chainrule.cli.training_request import parse_request
from chainrule.core.errors import DataError
from chainrule.data import load
from chainrule.data.generated.oscillations import OSCILLATIONS


def test_a_series_is_cut_into_windows_and_judged_on_what_came_last(tmp_path: Path) -> None:
    path = tmp_path / "year.npy"
    np.save(path, np.arange(103.0))
    data = load(path, series=5)
    assert (data.schema.kind, data.schema.shape, data.schema.target) == ("sequence", (5, 1), "none")
    back = [data.inverse(part.x)[..., 0] for part in (data.train, data.val, data.test)]
    assert np.allclose(np.concatenate(back), np.arange(100.0).reshape(20, 5), atol=1e-4)
    assert load(**data.source).hash == data.hash


def test_columns_of_a_table_are_the_features_of_a_series(tmp_path: Path) -> None:
    path = tmp_path / "weather.csv"
    path.write_text("wind,rain\n" + "".join(f"{i},{2 * i}\n" for i in range(40)))
    assert load(path, series=4).schema.shape == (4, 2)
    assert load(path, series=4, drop="rain").schema.shape == (4, 1)


def test_what_is_no_series_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((30, 3)), y=np.arange(30) % 2)
    with pytest.raises(DataError, match="a series has neither targets"):
        load(tmp_path / "a.npz", series=5)
    np.save(tmp_path / "b.npy", np.arange(9.0))
    with pytest.raises(DataError, match="9 rows make 2 examples of 4"):
        load(tmp_path / "b.npy", series=4)
    np.save(tmp_path / "c.npy", np.zeros((20, 4, 4)))
    with pytest.raises(DataError, match="image data have no rows in time"):
        load(tmp_path / "c.npy", series=4)


def test_the_generated_series_follows_its_law_from_the_first_step_on() -> None:
    data = load("cycles", n=4000, steps=32)
    x = np.concatenate([part.x for part in (data.train, data.val, data.test)])[..., 0].astype(np.float64)
    a, b = OSCILLATIONS["cycles"].coefficients
    noise = x[:, 2:] - a * x[:, 1:-1] - b * x[:, :-2]
    assert abs(noise.std() - 0.2) < 0.002
    variance = 0.04 * (1 - b) / ((1 + b) * ((1 - b) ** 2 - a**2))
    assert abs(x[:, 0].var() / variance - 1) < 0.12  # five standard errors of 4,000 squares
    assert abs(x[:, -1].var() / variance - 1) < 0.12


def _words(**options: str) -> Words:
    return Words(("wavenet",), {name.replace("__", "."): value for name, value in options.items()})


def test_a_model_of_series_takes_the_rows_of_a_table_as_one_series(tmp_path: Path) -> None:
    path = tmp_path / "series.csv"
    rows = np.random.default_rng(0).normal(size=400)
    lines = [f"2020-01-{1 + i % 28:02d},{i},{rows[i]:.6f},{2 * rows[i]:.6f}\n" for i in range(400)]
    path.write_text("day,step,wind,rain\n" + "".join(lines))
    request = parse_request(_words(data=str(path)))
    data = request.load()
    assert data.schema.shape == (16, 2), "neither the date nor the counter"
    assert request.chosen(data) == [
        "rows as one series, without day, step, 16 steps in an example; to change it: data.series=32"
    ]
    np.testing.assert_allclose(data.inverse(data.train.x)[..., 0].ravel()[:50], rows[:50], atol=1e-5)
    assert load(**data.source).hash == data.hash
    given = parse_request(_words(data=str(path), data__series="8", data__drop="day", data__target="none"))
    found = given.load()
    assert found.schema.shape == (8, 3)
    assert given.chosen(found) == []


def test_only_models_of_nothing_but_series_cut_a_table(tmp_path: Path) -> None:
    path = tmp_path / "series.csv"
    path.write_text("wind,rain\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(40)))
    table = parse_request(Words(("made",), {"data": str(path), "data.target": "none"})).load()
    assert table.schema.shape == (2,)
    np.save(tmp_path / "cut.npy", np.zeros((12, 6, 2)) + np.arange(12)[:, None, None])
    whole = parse_request(_words(data=str(tmp_path / "cut.npy"), data__kind="sequence")).load()
    assert whole.schema.shape == (6, 2)
    np.save(tmp_path / "long.npy", np.sin(np.arange(90.0)))
    assert parse_request(_words(data=str(tmp_path / "long.npy"))).load().schema.shape == (16, 1)
