"""The score model: its score is the gradient of a log-density it can learn, and Langevin dynamics is how it draws."""

import functools
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import Batch, Schema
from chainrule.models.diffusion.denoisers.preconditioned import Preconditioned
from chainrule.models.diffusion.score import ScoreModel
from chainrule.probability.transport import sinkhorn_divergence

POINTS = Schema("points", (2,))
KEY = jax.random.key(0)


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@functools.cache
def build(**settings: object) -> ScoreModel:
    model = models.build("score", POINTS, **{"width": 16, "depth": 1, **settings})
    assert isinstance(model, ScoreModel)
    return model


def test_a_fresh_model_knows_the_score_of_standard_normal_data() -> None:
    # With nothing from the network, x0-hat is the best linear guess for data of unit variance.
    x = jnp.array([[1.0, -2.0], [0.5, 3.0]])
    score = eqx.filter_jit(build().score)
    for sigma in (0.1, 1.0, 8.0):
        np.testing.assert_allclose(score(x, sigma), -x / (1 + sigma**2), rtol=1e-4)


def test_preconditioning_keeps_the_network_at_unit_size() -> None:
    model = build()
    assert isinstance(model.denoiser, Preconditioned)
    level = model.schedule.level(jnp.linspace(0, 1, 512))
    x = jax.random.normal(KEY, (512, 2)) * jnp.sqrt(1 + jnp.square(level.s))[:, None]
    scaled = x / jnp.sqrt(1 + jnp.square(level.s))[:, None]
    assert float(jnp.square(scaled).mean()) == pytest.approx(1, abs=0.1)


def test_the_score_of_an_energy_is_its_gradient_and_has_no_curl() -> None:
    fresh = build(form="energy")
    arrays, rest = eqx.partition(fresh, eqx.is_inexact_array)
    draw = np.random.default_rng(0)
    moved = jax.tree.map(lambda a: a + jnp.asarray(0.3 * draw.normal(size=a.shape), a.dtype), arrays)
    x = jnp.array([[1.0, -2.0], [0.5, 3.0]])

    @eqx.filter_jit
    def look(model: ScoreModel) -> tuple[jax.Array, ...]:
        slope = jax.grad(lambda x: model.energy(x, 0.7).sum())(x)
        turn = jax.vmap(jax.jacfwd(lambda x: model.score(x[None], 0.7)[0]))(x)
        return model.score(x, 0.7), slope, turn, model.energy(x, 0.7)

    for model in (fresh, eqx.combine(moved, rest)):
        score, slope, turn, energy = look(model)
        np.testing.assert_allclose(score, -slope, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(turn[:, 0, 1], turn[:, 1, 0], rtol=1e-3, atol=1e-4)
        if model is fresh:  # that of standard normal data
            np.testing.assert_allclose(energy, (x**2).sum(axis=1) / 2 / (1 + 0.7**2), rtol=1e-5)
        else:
            assert not np.allclose(score, -x / (1 + 0.7**2), rtol=0.05)
    with pytest.raises(CapabilityError, match="train with form=energy"):
        build().energy(x, 0.7)


@pytest.mark.slow
def test_it_learns_the_score_of_two_far_modes_and_langevin_dynamics_finds_both() -> None:
    model = build(width=64, depth=2)
    draw = np.random.default_rng(0)
    side = np.where(draw.random(4000) < 0.2, -1.5, 1.5)
    data = jnp.asarray(
        np.stack([side, np.zeros(4000)], axis=1) + 0.3 * draw.normal(size=(4000, 2)), jnp.float32
    )
    optimizer = optax.adam(2e-3)
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)

    @jax.jit
    def train(arrays: object) -> object:
        def step(carry: tuple, key: jax.Array) -> tuple:
            arrays, state = carry
            batch = Batch(data[jax.random.randint(key, (256,), 0, len(data))])
            slope = jax.grad(lambda a: eqx.combine(a, rest).loss(batch, key)[0])(arrays)
            change, state = optimizer.update(slope, state)
            return (optax.apply_updates(arrays, change), state), None

        return jax.lax.scan(step, (arrays, optimizer.init(arrays)), jax.random.split(KEY, 600))[0][0]

    trained = eqx.combine(train(arrays), rest)
    out = np.asarray(trained.sample(KEY, 1000))
    assert 0.6 < (out[:, 0] > 0).mean() < 0.95
    assert out[out[:, 0] > 0].std(axis=0) == pytest.approx(np.array([0.3, 0.3]), abs=0.08)
    # Within a mode, samples of the flow are as near to held-out points as real ones are, up to a factor of three.
    flow = np.asarray(trained.sample(KEY, 1000, sampler="ddim", steps=30))
    flow, known = (x[x[:, 0] > 0] for x in (flow, np.asarray(data)))
    held_out, others = known[:300], [known[i : i + 300] for i in (300, 600, 900)]
    real = np.mean([sinkhorn_divergence(x, held_out) for x in others])
    assert sinkhorn_divergence(flow[:300], held_out) < 3 * real
    assert sinkhorn_divergence(0.8 * flow[:300], held_out) > 3 * real


def test_noise_runs_from_little_to_much() -> None:
    with pytest.raises(ArgumentError, match="from little to much"):
        build(low=2.0, high=1.0)
    with pytest.raises(ArgumentError, match=r"high=0.5: data of about unit size show through"):
        build(high=0.5)
