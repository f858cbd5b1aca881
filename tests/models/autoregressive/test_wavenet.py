"""WaveNet: causality, the receptive field, queues against whole passes, mu-law."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.io import wavfile

import chainrule as cr
from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data.schema import Schema
from chainrule.models.autoregressive.wavenet import WaveNet
from chainrule.models.autoregressive.wavenet.model import influence
from chainrule.models.autoregressive.wavenet.mu_law import MuLawOutput, decode, encode, error_bound, expand

KEY = jax.random.key(0)
PAIRS = Schema("sequence", (40, 2))


def built(schema: Schema = PAIRS, **settings: Any) -> WaveNet:
    model = models.build("wavenet", schema, **{"width": 4, "layers": 3, "components": 2, **settings})
    assert isinstance(model, WaveNet)
    return model


def wide(model: WaveNet) -> WaveNet:
    """In double precision."""
    return jax.tree.map(lambda leaf: leaf.astype(np.float64) if eqx.is_inexact_array(leaf) else leaf, model)


def series(n: int, steps: int, features: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).normal(size=(n, steps, features)))


@pytest.mark.parametrize(
    "settings", [{"kernel": 3, "cycles": 2}, {"output": "mu-law", "levels": 16}], ids=["mixture", "mu-law"]
)
def test_queues_give_the_distributions_of_whole_passes(settings: dict[str, Any]) -> None:
    model, x = wide(built(**settings)), series(3, 40, 2)

    @eqx.filter_jit
    def stepwise(model: WaveNet, x: jax.Array) -> jax.Array:
        def move(carry: Any, now: jax.Array) -> Any:
            return model.step(carry[1], now), carry[0]

        last, found = jax.lax.scan(move, model.begun(x[:, :5]), jnp.swapaxes(x[:, 5:], 0, 1))
        return jnp.concatenate([jnp.swapaxes(found, 0, 1), last[0][:, None]], axis=1)

    longer = jnp.concatenate([x, jnp.zeros((3, 1, 2))], axis=1)
    whole = np.asarray(eqx.filter_jit(WaveNet.parameters)(model, longer))[:, 5:]
    np.testing.assert_allclose(stepwise(model, x), whole, atol=1e-12)


def test_a_step_of_the_queues_costs_a_column_of_a_pass() -> None:
    model = built(Schema("sequence", (256, 1)), layers=8)
    x = jnp.zeros((1, 256, 1), jnp.float32)
    queues = model.begun(x[:, :3])[1]
    arrays, static = eqx.partition(model, eqx.is_array)

    def flops(f: Any, *arguments: Any) -> float:
        return jax.jit(f).lower(arrays, *arguments).compile().cost_analysis()["flops"]

    one = flops(lambda m, q, x: eqx.combine(m, static).step(q, x)[0], queues, x[:, 0])
    whole = flops(lambda m, x: eqx.combine(m, static).parameters(x), x)
    assert whole > 200 * one  # 256 columns


def test_the_receptive_field_is_that_of_the_formula() -> None:
    model = built(Schema("sequence", (1100, 1)), layers=10, width=2)
    assert model.receptive_field == 1024
    seen = np.asarray(influence(wide(model), series(2, 1100, 1))) > 0
    assert seen[:1024].all()
    assert not seen[1024:].any()
    assert built(kernel=3, cycles=2).receptive_field == 1 + 2 * 2 * (1 + 2 + 4)


def test_a_step_depends_on_the_past_alone() -> None:
    model = wide(built())
    slopes = jax.jit(jax.jacobian(lambda x: model.parameters(x)[0].sum(axis=(1, 2))))(series(1, 12, 2))
    seen = np.abs(np.asarray(slopes)[:, 0]).max(axis=-1)
    steps = np.arange(12)
    lag = steps[:, None] - steps[None]
    np.testing.assert_array_equal(seen > 0, (lag >= 1) & (lag <= model.receptive_field))


def test_a_short_series_gets_as_many_layers_as_see_all_of_it() -> None:
    def layers(steps: int, **settings: Any) -> int:
        model = models.build("wavenet", Schema("sequence", (steps, 1)), width=2, **settings)
        assert isinstance(model, WaveNet)
        return model.config.layers

    assert (layers(64), layers(65), layers(5000), layers(64, layers=9)) == (6, 7, 10, 9)


def test_futures_begin_where_the_history_ends_and_have_the_density_they_are_drawn_from() -> None:
    model = wide(built(output="mu-law", levels=8, limit=2.0))
    history = series(2, 9, 2)
    futures = np.asarray(model.forecast(KEY, history, 1, futures=4000))[:, :, 0]
    parameters = eqx.filter_jit(lambda m: m.begun(history)[0])(model)
    p = np.asarray(jax.nn.softmax(parameters))
    level = np.asarray(model.output.level(jnp.asarray(futures)))
    shares = np.stack([(level == one).mean(axis=0) for one in range(8)], axis=-1)
    assert np.abs((shares - p) / np.sqrt(p / 4000)).max() < 5
    np.testing.assert_allclose(futures.mean(axis=0), model.output.mean(parameters), atol=0.15)
    # The mean of minus the log-density of draws is the entropy of the last step.
    each = jnp.broadcast_to(parameters, (4000, *parameters.shape))
    entropy = -np.asarray(model.output.log_prob(each, jnp.asarray(futures))).mean(axis=0)
    sizes = np.diff(2.0 * expand(np.linspace(-1, 1, 9), 8))
    expected = -(p * np.log(p / sizes)).sum(axis=-1) + (p[..., 0] + p[..., -1])
    np.testing.assert_allclose(entropy, expected, atol=0.1)


def density(output: MuLawOutput, parameters: np.ndarray, x: np.ndarray) -> np.ndarray:
    every = np.broadcast_to(parameters, (len(x), len(parameters)))
    return np.exp(np.asarray(output.log_prob(jnp.asarray(every), jnp.asarray(x))))


def test_densities_over_levels_integrate_to_one() -> None:
    parameters = np.random.default_rng(1).normal(size=16)
    x = np.linspace(-30, 30, 20_001)
    assert np.trapezoid(density(MuLawOutput(16, 3.0, 0), parameters, x), x) == pytest.approx(1, abs=2e-3)
    for grid in (256, 65_536):
        bound, points = MuLawOutput(16, 1.0, grid), np.linspace(0, 1, grid)
        assert density(bound, parameters, points).sum() / (grid - 1) == pytest.approx(1)
        many = jnp.asarray(np.broadcast_to(parameters, (500, 16)))
        drawn = np.asarray(bound.sample(many, KEY)) * (grid - 1)
        np.testing.assert_allclose(drawn, np.rint(drawn), atol=1e-6)
        assert drawn.min() >= 0
        assert drawn.max() <= grid - 1
    # Levels that no value of the data falls into are never drawn and cost nothing.
    sparse = MuLawOutput(256, 1.0, 16)
    assert density(sparse, np.zeros(256), np.linspace(0, 1, 16)).sum() / 15 == pytest.approx(1)


@pytest.mark.parametrize("levels", [2, 255, 256, 65_536])
def test_mu_law_keeps_within_its_error_bound_and_levels_come_back(levels: int) -> None:
    x = np.concatenate([np.linspace(-1, 1, 20_001), np.random.default_rng(0).normal(scale=1e-4, size=999)])
    gap = np.abs(decode(encode(x, levels), levels) - x)
    assert (gap <= error_bound(x, levels) + 1e-15).all()
    assert (gap > 0.4 * error_bound(x, levels)).any(), "the bound is not far off"
    every = np.arange(levels)
    np.testing.assert_array_equal(encode(decode(every, levels), levels), every)
    for bad in (1.0001, -2.0, np.nan):
        with pytest.raises(ArgumentError, match=r"outside of \[-1, 1\]"):
            encode(np.array([0.0, bad]), levels)


def test_nothing_to_draw_is_refused() -> None:
    model = built()
    for call, match in (
        (lambda: model.forecast(KEY, series(1, 3, 2), 0), "steps=0"),
        (lambda: model.sample(KEY, 1, length=0), "length=0"),
        (lambda: model.sample(KEY, 1, temperature=-1.0), "temperature=-1"),
    ):
        with pytest.raises(ArgumentError, match=match):
            call()
    with pytest.raises(CapabilityError, match=r"output=mixture: .* only 256 values"):
        built(Schema("sequence", (8, 1), levels=256), output="mixture")


@pytest.mark.parametrize("levels", [16, 2**16])
def test_series_of_levels_are_coded_at_their_likelihood(levels: int) -> None:
    """By fewer cells than there are values, and by more."""
    pytest.importorskip("constriction")
    schema = Schema("sequence", (12, 2), levels=levels)
    model = built(schema, levels=64)
    symbols = np.random.default_rng(0).integers(0, levels, (5, 24)).astype(np.int32)
    code = model.code().with_rows(4)
    costs = code.by_example(symbols)["likelihood"].sum(axis=1)
    x = jnp.asarray((symbols / (levels - 1)).reshape(5, 12, 2), jnp.float32)
    exact = (24 * np.log(levels - 1) - np.asarray(model.log_prob(x))) / np.log(2)
    np.testing.assert_allclose(costs, exact, rtol=1e-3)
    coded = code.encode(symbols, (0, 0), lambda done: None)
    assert 32 * len(coded.words) == pytest.approx(exact.sum(), abs=64)
    np.testing.assert_array_equal(code.decode(coded, 5, (0, 0), lambda done: None), symbols)


def test_densities_of_numbers_are_no_code() -> None:
    with pytest.raises(CapabilityError, match="continuous numbers"):
        built().code()


def test_folders_of_sound_are_read_as_levels_of_mu_law_between_the_limits(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(4):
        wavfile.write(
            tmp_path / f"{number}.wav",
            8000,
            (9000 * rng.normal(size=600)).clip(-32768, 32767).astype(np.int16),
        )
    data = cr.data.load(tmp_path, length=64)
    model = cr.models.build("wavenet", data, width=4, layers=3)
    assert model.output == MuLawOutput(256, 1.0, 0)
    x = jnp.asarray(data.test.batch(np.arange(2)).x)
    assert np.array_equal(model.output.level(x), encode(np.asarray(x)))
    assert np.isfinite(model.log_prob(x)).all()
    drawn = np.asarray(model.sample(jax.random.key(0), 2, length=20))
    assert drawn.shape == (2, 20, 1)
    files = cr.data.kinds.of(data.schema).write_playable(tmp_path, data.schema, drawn)
    assert wavfile.read(files["sound 1"])[1].shape == (20,)
