"""Series of numbers: densities that are densities, futures that follow the past, steps that stand out."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.data.schema import Schema
from chainrule.models.autoregressive.series_rnn import SeriesRNN

PAIRS = Schema("sequence", (5, 2))
X = jnp.asarray(np.random.default_rng(0).normal(size=(3, 5, 2)), jnp.float32)
KEY = jax.random.key(0)


def built(schema: Schema = PAIRS, **settings: Any) -> SeriesRNN:
    model = models.build("series-rnn", schema, **{"width": 6, **settings})
    assert isinstance(model, SeriesRNN)
    return model


anomaly = eqx.filter_jit(SeriesRNN.anomaly)
log_prob = eqx.filter_jit(SeriesRNN.log_prob)


@eqx.filter_jit
def gaussian(model: SeriesRNN, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean and scale of every step given those before it."""
    return model._gaussian(model.body(jnp.pad(x, ((0, 0), (1, 0), (0, 0))))[0])


def test_a_step_depends_on_the_past_alone() -> None:
    model = built()
    slopes = jax.jit(jax.jacobian(lambda x: model.anomaly(x)[0]))(X)
    seen = np.abs(np.asarray(slopes)[:, 0]).max(axis=-1)  # by step and step
    assert (seen[np.triu_indices(5, 1)] == 0).all()
    assert (seen[np.tril_indices(5)] > 0).all()


def test_the_density_of_the_second_step_integrates_to_one() -> None:
    model = built(Schema("sequence", (2, 1)))
    grid = np.linspace(-12, 12, 4001, dtype=np.float32)
    series = jnp.asarray(np.stack([np.full_like(grid, 0.7), grid], axis=1)[..., None])
    total, each = np.asarray(log_prob(model, series)), -np.asarray(anomaly(model, series))
    assert np.trapezoid(np.exp(total - each[:, 0]), grid) == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(total, each.sum(axis=1), rtol=1e-6)


def test_futures_begin_where_the_history_ends() -> None:
    model = built()
    futures = np.asarray(model.forecast(KEY, X, 1, futures=4000))
    longer = jnp.asarray(np.concatenate([X, np.zeros((3, 1, 2), np.float32)], axis=1))
    mean, scale = (np.asarray(part)[:, -1] for part in gaussian(model, X))
    np.testing.assert_allclose(futures[:, :, 0].mean(axis=0), mean, atol=0.08)
    np.testing.assert_allclose(futures[:, :, 0].std(axis=0), scale, rtol=0.08)
    expected = -scipy.stats.norm.logpdf(0, mean, scale).sum(axis=-1)
    np.testing.assert_allclose(anomaly(model, longer)[:, -1], expected, rtol=1e-5)


def test_drawn_series_have_the_density_they_are_drawn_from() -> None:
    model = built()
    drawn = model.sample(KEY, 4000)
    assert drawn.shape == (4000, 5, 2)
    # The mean of minus the log-density of draws is the entropy, whose Gaussian terms are known step by step.
    scale = np.asarray(gaussian(model, drawn)[1])[:, :-1]
    entropy = (0.5 * np.log(2 * np.pi * np.e) + np.log(scale)).sum(axis=(1, 2))
    assert float(-np.asarray(log_prob(model, drawn)).mean()) == pytest.approx(float(entropy.mean()), abs=0.15)
    assert model.sample(KEY, 2, length=9).shape == (2, 9, 2)


def test_a_step_that_does_not_fit_stands_out() -> None:
    model = built()
    broken = X.at[0, 3, 1].set(40.0)
    before, after = (np.asarray(anomaly(model, x))[0] for x in (X, broken))
    np.testing.assert_array_equal(before[:3], after[:3])
    assert int(after.argmax()) == 3


def test_nothing_to_forecast_is_refused() -> None:
    with pytest.raises(ArgumentError, match="steps=0"):
        built().forecast(KEY, X, 0)
    with pytest.raises(ArgumentError, match="length=0"):
        built().sample(KEY, 1, length=0)
