"""One long series as examples, and a generated one."""

from pathlib import Path

import numpy as np
import pytest

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
