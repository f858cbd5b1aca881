"""Columns whose values lie on a grid: found, named, filled with noise, rounded back; others of few values refused."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError, ChainruleWarning, DataError
from chainrule.data import Batch, Data, from_arrays
from chainrule.models.flow import grids
from chainrule.models.flow.flow_model import FlowModel
from chainrule.train.scores import exact_likelihood
from chainrule.train.scoring import Evaluation

KEY = jax.random.key(0)
DRAW = np.random.default_rng(0)
COUNTS = DRAW.poisson(3.0, 300).astype(float)
LENGTHS = np.round(DRAW.normal(60, 2, 300), 1)
WEIGHTS = DRAW.normal(size=300)


def table() -> Data:
    return from_arrays(np.column_stack([COUNTS, LENGTHS, WEIGHTS]), name="mixed")


@pytest.mark.parametrize(
    ("values", "gap"),
    [
        (COUNTS, 1.0),
        (LENGTHS, 0.1),
        (10 * COUNTS + 3, 10.0),
        ((COUNTS > 3).astype(float), 1.0),
        (COUNTS / 255, 1 / 255),
        (1e5 + 250 * COUNTS, 250.0),
    ],
)
def test_values_that_come_again_and_are_equally_spaced_have_a_grid(values: np.ndarray, gap: float) -> None:
    scale = values.std()
    stored = ((values - values.mean()) / scale).astype(np.float32)  # as tables are kept
    found = grids.column_grid(stored.astype(np.float64) * scale + values.mean(), 1e-6 * scale)
    assert found is not None
    assert found.gap == pytest.approx(gap, rel=1e-3)
    assert found.first == pytest.approx(values.min(), abs=0.02 * gap)


def test_values_that_hardly_come_again_or_lie_anywhere_have_none() -> None:
    assert grids.column_grid(WEIGHTS, 1e-6) is None
    assert grids.column_grid(np.repeat([0.0, 0.137, 1.22], 50), 1e-9) is not None  # three places
    assert grids.column_grid(np.repeat([0.0, np.sqrt(2), np.pi], 50), 1e-9) is None


def test_a_flow_of_such_a_table_is_told_so_and_fills_the_gaps_with_noise() -> None:
    data = table()
    with pytest.warns(ChainruleWarning, match=r"column 0 \(1\), column 1 \(0.1\) are equally spaced"):
        model = cr.models.build("realnvp", data, layers=2, width=8)
    assert isinstance(model, FlowModel)
    assert model.config.grid[2] == (0.0, 0.0)
    again = cr.models.build("realnvp", data.schema, layers=2, width=8, grid=model.config.grid)
    np.testing.assert_array_equal(again.gaps, model.gaps)
    x = jnp.asarray(data.train.batch(np.arange(64)).x)
    raw = data.inverse(model.filled(x, KEY)) - data.inverse(x)
    assert 0.4 < np.abs(raw[:, 0]).max() <= 0.501
    assert 0.04 < np.abs(raw[:, 1]).max() <= 0.0501
    assert np.abs(raw[:, 2]).max() == 0
    drawn = data.inverse(model.sample(KEY, 32))
    np.testing.assert_allclose(drawn[:, 0], np.rint(drawn[:, 0]), atol=1e-3)
    np.testing.assert_allclose(10 * drawn[:, 1], np.rint(10 * drawn[:, 1]), atol=1e-2)
    assert np.abs(drawn[:, 2] - np.round(drawn[:, 2], 1)).max() > 1e-3
    judged = Evaluation(model, data, data.test, len(data.test), KEY, k=8)
    found = exact_likelihood.score.measure(judged)
    assert found["nll_bound"].kind == "bound, uniform dequantisation"
    assert found["nll_weighted_bound"].kind == "bound, uniform dequantisation, k=8 draws of noise"
    assert found["nll_weighted_bound"].value == pytest.approx(found["nll_bound"].value, abs=0.2)


def test_likelihoods_given_targets_are_in_units_of_the_data_as_those_without() -> None:
    data = from_arrays(10 * DRAW.normal(size=(60, 2)), DRAW.integers(0, 2, 60), name="wide")
    model = cr.models.build("maf", data, layers=1, width=4, blocks=1, conditional=True)
    assert isinstance(model, FlowModel)
    batch = data.test.batch(np.arange(len(data.test)))
    found = exact_likelihood.score.measure(Evaluation(model, data, data.test, len(data.test), KEY))
    assert found["nll"].unit == found["nll_given_condition"].unit == "nats"
    own = -eqx.filter_jit(lambda m, b: m.log_prob_given(b))(
        model, Batch(jnp.asarray(batch.x), jnp.asarray(batch.y))
    )
    expected = float(own.mean()) - data.scaling.log_volume(2)
    assert expected - float(own.mean()) > 3  # two entries ten times as wide
    assert found["nll_given_condition"].value == pytest.approx(expected, rel=1e-4)


def test_without_noise_the_density_of_whole_numbers_has_no_limit_and_with_it_it_has() -> None:
    """One entry: the best density of counts filled with noise costs their entropy, which is above zero."""
    data = from_arrays(COUNTS[:, None], name="counts")
    with pytest.warns(ChainruleWarning, match="equally spaced"):
        model = cr.models.build("maf", data, layers=1, width=8, blocks=1)
    assert isinstance(model, FlowModel)
    x = jnp.asarray(data.train.batch(np.arange(len(data.train))).x)
    values, counts = np.unique(np.asarray(x), return_counts=True)
    shares = counts / counts.sum()
    nats = eqx.filter_jit(lambda m, x: -m.log_prob(m.filled(x, KEY)).mean())(model, x)
    assert float(nats) - data.scaling.log_volume(1) > -(shares * np.log(shares)).sum()
    assert len(values) < 20


def test_few_values_at_unequal_distances_are_refused_by_name(tmp_path: Path) -> None:
    odd = np.array([0.0, np.sqrt(2), np.pi])[DRAW.integers(0, 3, 400)]
    lines = ["shape,weight", *(f"{a:.9f},{b:.9f}" for a, b in zip(odd, DRAW.normal(size=400), strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    data = cr.data.load(tmp_path / "rows.csv", target="none")
    with pytest.raises(DataError, match="column 'shape' has 3 distinct values") as refused:
        cr.models.build("realnvp", data, layers=2, width=8)
    assert "data.drop=shape" in str(refused.value)
    (tmp_path / "nameless.csv").write_text("\n".join(lines[1:]))
    data = cr.data.load(tmp_path / "nameless.csv", target="none")
    with pytest.raises(DataError, match="column 'column 0' has 3 distinct values") as refused:
        cr.models.build("realnvp", data, layers=2, width=8)
    assert "data.drop='column 0'   or" in str(refused.value), "a shell reads the name as one word"
    assert "data.target='column 0' conditional=true" in str(refused.value)


def test_a_column_that_is_always_the_same_is_refused_by_name(tmp_path: Path) -> None:
    lines = ["weight,shape", *(f"{value:.9f},3.0" for value in DRAW.normal(size=40))]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    with pytest.raises(DataError, match="column 'shape' is the same in all training examples") as refused:
        cr.models.build("maf", cr.data.load(tmp_path / "rows.csv", target="none"), layers=1, width=8)
    assert "data.drop=shape" in str(refused.value)
    data = cr.data.load(tmp_path / "rows.csv", target="none", drop="shape")  # as it says
    assert isinstance(cr.models.build("maf", data, layers=1, width=8), FlowModel)
    images = DRAW.random((20, 4, 4, 2)) * [1.0, 0.0]
    with pytest.raises(DataError, match="channel 1 is the same"):
        cr.models.build("realnvp", from_arrays(images), width=4, scales=1)


def test_a_column_that_others_add_up_to_is_refused_by_name(tmp_path: Path) -> None:
    parts = DRAW.normal(size=(60, 3)) * [1.0, 50.0, 1e-3]
    rows = np.column_stack([parts, 2 * parts[:, 0] - 1e3 * parts[:, 2] + 7])
    text = ["first,second,third,total", *(",".join(f"{value:.9f}" for value in row) for row in rows)]
    (tmp_path / "rows.csv").write_text("\n".join(text))
    with pytest.raises(
        DataError, match="column 'total' is a sum of multiples of 'first', 'third'"
    ) as refused:
        cr.models.build("maf", cr.data.load(tmp_path / "rows.csv", target="none"), layers=1, width=8)
    assert "data.drop=total" in str(refused.value)
    data = cr.data.load(tmp_path / "rows.csv", target="none", drop="total")  # as it says
    assert isinstance(cr.models.build("maf", data, layers=1, width=8), FlowModel)
    noisy = rows + 1e-2 * rows.std(axis=0) * DRAW.normal(size=rows.shape)
    assert grids.measured(from_arrays(noisy, kind="table")) == ()
    assert grids.measured(from_arrays(rows[:12], kind="table")) == ()  # too few rows to tell


def test_images_of_fractions_that_are_levels_are_asked_for_their_number() -> None:
    data = from_arrays(DRAW.integers(0, 256, (40, 4, 4, 1)) / 255.0)
    with pytest.raises(ArgumentError, match="shares of 255") as refused:
        cr.models.build("realnvp", data, width=4, scales=1)
    assert "data.levels=256" in str(refused.value)
    cr.models.build("realnvp", from_arrays(DRAW.random((40, 4, 4, 1))), width=4, scales=1)
