"""The hidden Markov model as a model: what a run learns, levels, forecasts."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import report
from chainrule.core.errors import CapabilityError
from chainrule.data import Data
from chainrule.data.schema import Schema
from chainrule.models.text.hmm import HMM, HMMConfig
from chainrule.probability import HiddenMarkov, Normal

TRUTH = HiddenMarkov(
    [0.5, 0.5], [[0.95, 0.05], [0.1, 0.9]], Normal(np.array([-1.0, 2.0]), np.array([0.5, 0.25]))
)


@pytest.fixture(scope="module")
def series() -> Data:
    y = np.asarray(TRUTH.sample(jax.random.key(0), 40, (60,)).y, np.float32)
    return cr.data.from_arrays(y[..., None], kind="sequence")


@pytest.fixture(scope="module")
def run(series: Data, tmp_path_factory: pytest.TempPathFactory) -> cr.Run:
    model = cr.models.build("hmm", series, states=2)
    return cr.fit(model, series, run=tmp_path_factory.mktemp("runs") / "hmm")


def test_a_run_converges_to_the_states_that_made_the_data(run: cr.Run, series: Data) -> None:
    assert "converged" in run.status["message"]
    hidden = run.model.hidden()  # type: ignore[attr-defined]
    order = np.argsort(np.asarray(hidden.emission.mean)[:, 0])
    np.testing.assert_allclose(
        np.asarray(hidden.transition)[np.ix_(order, order)], TRUTH.transition, atol=0.05
    )


def test_the_likelihood_of_a_run_is_that_of_the_chain(run: cr.Run, series: Data) -> None:
    model, x = run.model, np.asarray(series.val.x[:3])
    exact = model.hidden().log_prob(x)  # type: ignore[attr-defined]
    compiled = jax.jit(lambda x: model.log_prob(x))(x)  # type: ignore[attr-defined]
    np.testing.assert_allclose(compiled, exact, rtol=1e-4)
    assert run.score("val")["nll"].unit == "nats"


def test_quantiles_of_a_forecast_are_those_of_draws(run: cr.Run, series: Data) -> None:
    model, x = run.model, np.asarray(series.val.x[:1])
    low, middle, high = model.forecast_quantiles(jax.random.key(0), jnp.asarray(x), 2, (0.1, 0.5, 0.9))[
        :, 0, :, 0
    ]  # type: ignore[attr-defined]
    hidden = model.hidden()  # type: ignore[attr-defined]
    weights = hidden.predict(x[0], 2)[1]
    mean, scale = np.asarray(hidden.emission.mean)[:, 0], np.sqrt(np.asarray(hidden.emission.variance)[:, 0])
    draws = np.random.default_rng(0)
    state = draws.choice(2, 40_000, p=weights / weights.sum())
    drawn = mean[state] + scale[state] * draws.standard_normal(len(state))
    below = [(drawn < edge).mean() for edge in (low[1], middle[1], high[1])]
    np.testing.assert_allclose(below, [0.1, 0.5, 0.9], atol=0.01)


def test_pictures_can_be_drawn(run: cr.Run, series: Data) -> None:
    found = run.model.pictures(series, jax.random.key(0))  # type: ignore[attr-defined]
    assert [one.name for one in found] == ["states", "posterior", "emissions", "transitions", "stays"]
    assert all(report.draw(one).startswith("<svg") for one in found)


def test_levels_are_emitted_as_levels() -> None:
    symbols = HiddenMarkov([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], [[0.8, 0.2, 0.0], [0.0, 0.3, 0.7]])
    y = np.asarray(symbols.sample(jax.random.key(1), 30, (40,)).y)
    schema = Schema("sequence", (30, 1), levels=3)
    model = HMM(HMMConfig(states=2), schema, jax.random.key(0))
    x = (y / 2).astype(np.float32)[..., None]
    losses = []
    for step in range(8):
        model, metrics = model.iterate(cr.data.batches.Batch(x=x), jax.random.key(step))
        losses.append(float(metrics["loss"]))
    hidden = model.hidden()
    np.testing.assert_allclose(
        np.asarray(model.log_prob(jnp.asarray(x))), hidden.log_prob(y) + 30 * np.log(2), rtol=1e-4
    )
    assert np.diff(losses).max() < 1e-6
    assert losses[-1] < np.log(3) - np.log(2)
    drawn = np.asarray(model.sample(jax.random.key(2), 5))
    assert set(np.unique(drawn)) <= {0.0, 0.5, 1.0}
    assert set(np.unique(model.forecast_quantiles(jax.random.key(0), jnp.asarray(x[:2]), 3, (0.1, 0.9)))) <= {
        0.0,
        0.5,
        1.0,
    }


def test_series_of_levels_are_compressed_at_their_likelihood() -> None:
    pytest.importorskip("constriction", reason="`pip install 'chainrule[compress]'` brings the coders")
    symbols = HiddenMarkov([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], [[0.8, 0.2, 0.0], [0.0, 0.3, 0.7]])
    y = np.asarray(symbols.sample(jax.random.key(1), 30, (40,)).y).astype(np.uint8)
    model = HMM(HMMConfig(states=2), Schema("sequence", (30, 1), levels=3), jax.random.key(0))
    probs = jnp.array([[0.8, 0.2, 0.0], [0.0, 0.3, 0.7]])
    moved = (jnp.array([[0.9, 0.1], [0.2, 0.8]]), probs)
    model = eqx.tree_at(lambda m: (m.transition, m.emission.probs), model, moved)
    blob = cr.information.compress(model, y[..., None])
    np.testing.assert_array_equal(cr.information.decompress(model, blob)[..., 0], y)
    bits = model.code().by_example(y.astype(np.int32))["likelihood"].sum(axis=1)
    np.testing.assert_allclose(bits, -symbols.log_prob(y) / np.log(2), rtol=1e-5)
    strange = np.full((1, 30, 1), [2], np.uint8)
    strange[0, ::2] = 0  # rarely, but never refused
    np.testing.assert_array_equal(
        cr.information.decompress(model, cr.information.compress(model, strange)), strange
    )
    numbers = HMM(HMMConfig(states=2), Schema("sequence", (8, 2)), jax.random.key(0))
    with pytest.raises(CapabilityError, match="continuous numbers"):
        numbers.code()


def test_several_features_of_levels_are_refused() -> None:
    with pytest.raises(CapabilityError, match="one level at each step"):
        HMM(HMMConfig(), Schema("sequence", (8, 2), levels=4), jax.random.key(0))
