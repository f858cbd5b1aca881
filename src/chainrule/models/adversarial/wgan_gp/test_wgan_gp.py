"""Critics whose answers are known: linear ones, on sets that differ by a shift."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pydantic
import pytest
import scipy.optimize

import chainrule as cr
from chainrule.core.errors import ArgumentError
from chainrule.models.adversarial.games import games
from chainrule.models.adversarial.networks import DecisionContext, Discriminator
from chainrule.models.adversarial.penalties import one_centred, scores_and_slopes
from chainrule.models.adversarial.stages import Stage
from chainrule.models.adversarial.wgan.model import clipped
from chainrule.nn import Linear, NoNorm, SpectralNorm

KEY = jax.random.key(0)
SHIFT = np.array([3.0, 4.0], np.float32)
REAL = np.random.default_rng(0).normal(size=(32, 2)).astype(np.float32)


def linear(weight: np.ndarray, *, spectral: bool = False) -> Discriminator:
    """The critic w.x of vectors: a stage that changes nothing, and a head."""
    size = len(weight)
    same = eqx.tree_at(lambda layer: layer.weight, Linear(size, size, key=KEY, bias=False), jnp.eye(size))
    head: Any = eqx.tree_at(
        lambda layer: layer.weight, Linear(size, 1, key=KEY, bias=False), jnp.asarray(weight)[:, None]
    )
    head = SpectralNorm(head, key=KEY) if spectral else head
    return Discriminator((Stage(same, NoNorm(size), "identity"),), head, DecisionContext())


def trained(
    critic: Discriminator,
    loss: Callable[[Discriminator], jax.Array],
    rate: float,
    steps: int,
    project: Any = None,
) -> Discriminator:
    """The critic after gradient descent on the weights of its head."""

    def where(c: Discriminator) -> Any:
        return c.head.layer.weight if isinstance(c.head, SpectralNorm) else c.head.weight

    def step(_: int, weight: jax.Array) -> jax.Array:
        moved = weight - rate * jax.grad(lambda w: loss(eqx.tree_at(where, critic, w)))(weight)
        return moved if project is None else project(moved)

    final = jax.jit(lambda w: jax.lax.fori_loop(0, steps, step, w))(where(critic))
    return eqx.tree_at(where, critic, final)


def gap(critic: Discriminator) -> jax.Array:
    return critic(jnp.asarray(REAL)).mean() - critic(jnp.asarray(REAL + SHIFT)).mean()


def wasserstein(critic: Discriminator) -> jax.Array:
    real, fake = (critic.advance(jnp.asarray(x), None)[0] for x in (REAL, REAL + SHIFT))
    return games["wasserstein"].discriminator(real, fake, 1.0)


def test_the_norm_of_a_slope_runs_over_all_entries_of_an_image() -> None:
    weight = np.full(3 * 8 * 8, 3 / np.sqrt(3 * 8 * 8), np.float32)
    x = jax.random.normal(KEY, (5, 8, 8, 3))
    _, slopes, _ = scores_and_slopes(linear(weight), x, None)
    assert slopes.shape == x.shape
    assert float(one_centred(slopes)) == pytest.approx(4.0, rel=1e-5)
    channels_only = np.mean((np.linalg.norm(np.asarray(slopes), axis=-1) - 1) ** 2)
    assert channels_only == pytest.approx(0.390625, rel=1e-4)


def test_a_penalised_linear_critic_ends_steeper_than_one_and_its_gap_is_no_distance() -> None:
    cost = np.linalg.norm(REAL[:, None] - (REAL + SHIFT)[None], axis=-1)
    pairs = scipy.optimize.linear_sum_assignment(cost)  # of equal weights the best plan is a pairing
    assert cost[pairs].mean() == pytest.approx(5.0, rel=1e-5)

    data = cr.data.load("ring", n=100)
    model = cr.models.build("wgan-gp", data, lam=10.0, width=4, depth=1)
    real, fake = jnp.asarray(REAL), jnp.asarray(REAL + SHIFT)

    def loss(critic: Discriminator) -> jax.Array:
        whole = eqx.tree_at(lambda m: m.discriminator, model, critic)
        judged = whole.judged(real, fake, None)
        return (
            games["wasserstein"].discriminator(judged.real, judged.fake, 1.0)
            + whole.charge(judged, real, fake, None, KEY)[0]
        )

    critic = trained(linear(np.array([0.1, -0.2], np.float32)), loss, 0.02, 400)
    assert isinstance(critic.head, Linear)
    assert float(jnp.linalg.norm(critic.head.weight)) == pytest.approx(1.25, rel=1e-4)
    assert float(gap(critic)) == pytest.approx(6.25, rel=1e-4)


def test_a_spectrally_normalised_linear_critic_finds_the_distance() -> None:
    critic = trained(linear(np.array([0.1, -0.2], np.float32), spectral=True), wasserstein, 0.1, 400)
    for _ in range(20):  # of one row the power iteration is exact after one move
        _, critic = critic.advance(jnp.asarray(REAL), None)
    assert float(gap(critic)) == pytest.approx(5.0, rel=1e-3)


def test_a_clipped_linear_critic_ends_in_a_corner() -> None:
    start = linear(np.array([0.001, -0.002], np.float32))
    critic = trained(start, wasserstein, 0.01, 100, lambda w: clipped(w, 0.01))
    assert isinstance(critic.head, Linear)
    np.testing.assert_allclose(np.abs(critic.head.weight).ravel(), [0.01, 0.01], rtol=1e-5)
    assert float(gap(critic)) == pytest.approx(0.07, rel=1e-4)


def test_batch_normalisation_in_the_critic_is_refused() -> None:
    data = cr.data.load("ring", n=100)
    with pytest.raises((ArgumentError, pydantic.ValidationError), match="couples the examples"):
        cr.models.build("wgan-gp", data, critic_norm="batch")
    model = cr.models.build("wgan-gp", data, critic_norm="layer", width=8, depth=1)
    x = jnp.asarray(data.train.x[:4])
    np.testing.assert_allclose(model.judge(x)[:2], model.judge(x[:2]), atol=1e-5)


def test_images_and_vectors_have_settings_of_their_own() -> None:
    ring, digits = cr.data.load("ring", n=100), cr.data.load("digits")
    entry = cr.models.entry("wgan-gp")
    assert cr.models.build("wgan-gp", ring).config.lam == 1
    image = cr.models.build("wgan-gp", digits, channels=2).config
    assert (image.lam, image.n_critic) == (10, 5)
    assert entry.training_for(ring.schema)["optimizer"]["lr"] == 5e-4
    assert entry.training_for(digits.schema)["optimizer"]["lr"] == 1e-4
    assert entry.training_for(digits.schema)["optimizer"]["betas"] == (0.0, 0.9)
