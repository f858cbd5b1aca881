"""Forecasts for series of one's own."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import chainrule as cr
from chainrule.core.errors import ArgumentError, DataError
from chainrule.train import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A trained AR(2); what it says is known in closed form."""
    data = cr.data.load("cycles", n=40, steps=20)
    model = cr.models.build("ar", data, start="given")
    return cr.fit(model, data, steps=30, run=tmp_path_factory.mktemp("runs") / "ar", batch=16)


@pytest.fixture(scope="module")
def series(run: Run) -> np.ndarray:
    return np.asarray(run.data.inverse(run.data.test.x)[0])


def test_a_series_goes_on_with_the_intervals_of_the_model(run: Run, series: np.ndarray) -> None:
    found = run.predict(series, horizon=5, level=0.8)
    process = run.model.process  # type: ignore[attr-defined]
    scale = 1 / float(np.asarray(run.scaling.factor).ravel()[0])
    expected = process.forecast(jnp.asarray(run.data.test.x[:1, :, 0]), 5, level=0.8)
    assert found.names == ("+1", "+2", "+3", "+4", "+5")
    for name, values in (("prediction", expected.mean), ("low", expected.low), ("high", expected.high)):
        shift = float(np.asarray(run.scaling.shift).ravel()[0])
        assert found[name] == pytest.approx(values[0] * scale + shift, rel=1e-4, abs=1e-4)
    assert (found["high"] - found.prediction)[0] == pytest.approx(
        scipy.stats.norm.ppf(0.9) * np.sqrt(float(process.variance)) * scale, rel=1e-4
    )


def test_every_way_to_give_a_series_is_the_same(run: Run, series: np.ndarray, tmp_path: Path) -> None:
    expected = run.predict(series, horizon=3)
    np.save(tmp_path / "series.npy", series[:, 0])
    longer = np.concatenate(
        [np.full((50, 1), np.nan), series]
    )  # what came before the last steps does not matter
    for given in (series[:, 0], series.tolist(), tmp_path / "series.npy", longer):
        assert run.predict(given, horizon=3).prediction == pytest.approx(expected.prediction)
    assert "read: the last 20 of 70 steps" in run.predict(longer, horizon=3).notes[1]
    both = run.predict(np.stack([series, series]), horizon=3)
    assert both.names == ("0 +1", "0 +2", "0 +3", "1 +1", "1 +2", "1 +3")
    assert both.prediction == pytest.approx(np.tile(expected.prediction, 2))
    assert len(run.predict(series)) == 20


def test_what_is_no_series_of_the_run_is_refused(run: Run, series: np.ndarray) -> None:
    with pytest.raises(ArgumentError, match=r"shape 20×2: the run was trained on series of 1 number a step"):
        run.predict(np.concatenate([series, series], axis=1))
    with pytest.raises(ArgumentError, match="a series of 1 steps: the model goes on from 2 at least"):
        run.predict(series[:1])
    with pytest.raises(ArgumentError, match="horizon=0: forecast at least one step"):
        run.predict(series, horizon=0)
    gap = series.copy()
    gap[17] = np.nan
    with pytest.raises(DataError, match="step 18 of 20 is missing or no number"):
        run.predict(gap)
