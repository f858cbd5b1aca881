"""Series of numbers: densities that are densities, futures that follow the past, steps that stand out."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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


def test_a_step_depends_on_the_past_alone() -> None:
    slopes = jax.jacobian(lambda x: built().anomaly(x)[0])(X)[:, 0]  # by step, step and number
    seen = np.abs(np.asarray(slopes)).max(axis=-1)
    assert (seen[np.triu_indices(5, 1)] == 0).all()
    assert (seen[np.tril_indices(5)] > 0).all()


def test_the_density_of_the_second_step_integrates_to_one() -> None:
    model = built(Schema("sequence", (2, 1)))
    grid = jnp.linspace(-12, 12, 4001)
    series = jnp.stack([jnp.full_like(grid, 0.7), grid], axis=1)[..., None]
    density = np.exp(np.asarray(model.log_prob(series)))
    first = np.exp(-np.asarray(model.anomaly(series))[:, 0])
    assert np.trapezoid(density / first, np.asarray(grid)) == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(
        model.log_prob(X[:, :2, :1]), -model.anomaly(X[:, :2, :1]).sum(axis=1), rtol=1e-6
    )


def test_futures_begin_where_the_history_ends() -> None:
    model = built()
    futures = model.forecast(KEY, X, 1, futures=4000)
    longer = jnp.concatenate([X, jnp.zeros((3, 1, 2))], axis=1)
    mean, scale = model._gaussian(model.body(jnp.concatenate([jnp.zeros((3, 1, 2)), X], axis=1))[0][:, -1])
    np.testing.assert_allclose(futures[:, :, 0].mean(axis=0), mean, atol=0.08)
    np.testing.assert_allclose(futures[:, :, 0].std(axis=0), scale, rtol=0.08)
    expected = -jax.scipy.stats.norm.logpdf(jnp.zeros_like(mean), mean, scale).sum(axis=-1)
    np.testing.assert_allclose(model.anomaly(longer)[:, -1], expected, rtol=1e-5)


def test_drawn_series_have_the_density_they_are_drawn_from() -> None:
    model = built()
    drawn = model.sample(KEY, 4000)
    assert drawn.shape == (4000, 5, 2)
    # The mean of minus the log-density of draws is the entropy, whose Gaussian terms are known step by step.
    out, _ = model.body(jnp.concatenate([jnp.zeros((4000, 1, 2)), drawn[:, :-1]], axis=1))
    entropy = (0.5 * np.log(2 * np.pi * np.e) + np.log(np.asarray(model._gaussian(out)[1]))).sum(axis=(1, 2))
    assert float(-model.log_prob(drawn).mean()) == pytest.approx(float(entropy.mean()), abs=0.15)
    assert model.sample(KEY, 2, length=9).shape == (2, 9, 2)


def test_a_step_that_does_not_fit_stands_out() -> None:
    model = built()
    broken = X.at[0, 3, 1].set(40.0)
    before, after = model.anomaly(X)[0], model.anomaly(broken)[0]
    np.testing.assert_array_equal(before[:3], after[:3])
    assert int(after.argmax()) == 3


def test_nothing_to_forecast_is_refused() -> None:
    with pytest.raises(ArgumentError, match="steps=0"):
        built().forecast(KEY, X, 0)
    with pytest.raises(ArgumentError, match="length=0"):
        built().sample(KEY, 1, length=0)
