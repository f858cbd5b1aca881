"""The denoising auto-encoder: its optimum, its score and its bound on Gaussian data, where all are known."""

import functools
import warnings
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import chainrule as cr
from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.data import Batch, Schema
from chainrule.models.latent.denoising_autoencoder import AutoEncoder, CodeNoise, Corrupted, DataNoise
from chainrule.models.latent.denoising_field import denoising_field, exact_denoiser
from chainrule.models.protocol import CanSample, HasBound

POINTS = Schema("points", (2,))
KEY = jax.random.key(0)
COVARIANCE = np.array([[1.0, 0.6], [0.6, 0.5]])


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@functools.cache
def build(schema: Schema = POINTS, **settings: Any) -> AutoEncoder:
    model = models.build("denoising-autoencoder", schema, **{"width": 8, "depth": 0, "code": 2, **settings})
    assert isinstance(model, AutoEncoder)
    return model


def linear(model: AutoEncoder, gain: np.ndarray) -> AutoEncoder:
    """The model with D(E(y)) = y @ gain."""
    layers = (model.encoder.layers[0].weight, model.decoder.layers[0].weight)
    values = (jnp.eye(2, dtype=layers[0].dtype), jnp.asarray(gain, layers[1].dtype))
    return eqx.tree_at(lambda m: (m.encoder.layers[0].weight, m.decoder.layers[0].weight), model, values)


def test_a_linear_one_learns_the_closed_form_and_with_it_the_score_of_the_noised_data() -> None:
    sigma = 0.5
    model = build(sigma=sigma)
    draw = np.random.default_rng(0)
    x = draw.normal(size=(2048, 2))
    x = x @ np.linalg.inv(np.linalg.cholesky(np.cov(x.T, bias=True))).T  # white to the last digit
    batch = Batch(jnp.asarray(x @ np.linalg.cholesky(COVARIANCE).T, jnp.float32))
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    optimizer = optax.adam(optax.cosine_decay_schedule(0.03, 1200))

    @jax.jit
    def train(arrays: Any) -> Any:
        def step(carry: Any, key: jax.Array) -> Any:
            arrays, state = carry
            slope = jax.grad(lambda a: eqx.combine(a, rest).loss(batch, key)[0])(arrays)
            change, state = optimizer.update(slope, state)
            return (optax.apply_updates(arrays, change), state), None

        return jax.lax.scan(step, (arrays, optimizer.init(arrays)), jax.random.split(KEY, 1200))[0][0]

    trained = eqx.combine(train(arrays), rest)
    assert isinstance(trained, DataNoise)
    noised = COVARIANCE + sigma**2 * np.eye(2)
    y = np.array([[1.0, 0.5], [-1.0, 2.0], [0.0, 1.0]], np.float32)
    denoised, score = eqx.filter_jit(lambda model, y: (model.denoised(y), model.score(y)))(
        trained, jnp.asarray(y)
    )
    np.testing.assert_allclose(denoised, y @ np.linalg.inv(noised) @ COVARIANCE, atol=0.03)
    np.testing.assert_allclose(score, -y @ np.linalg.inv(noised), atol=0.03 / sigma**2)
    # What is left of the error is the trace of the covariance of clean data given noisy ones.
    left = np.trace(COVARIANCE - COVARIANCE @ np.linalg.inv(noised) @ COVARIANCE) / 2
    assert float(eqx.filter_jit(trained.loss)(batch, KEY)[0]) == pytest.approx(left, rel=0.05)


@pytest.mark.parametrize("noise", ["data", "code"])
def test_the_bound_exceeds_the_cost_by_the_divergence_of_the_noise_from_the_posterior(noise: str) -> None:
    """p(x) = N(0, G'G + tau²) for a linear decoder, and the posterior of the latent variable is Gaussian too."""
    sigma, tau, gain = 0.4, 0.3, np.diag([0.8, 0.5])
    model = linear(build(noise=noise, sigma=sigma, tau=tau), gain)
    assert isinstance(model, DataNoise | CodeNoise)
    x = np.array([[0.7, -1.2], [0.1, 0.4]])
    keys = jax.random.split(KEY, 4000)
    draws = eqx.filter_jit(
        lambda keys: jax.vmap(lambda key: model.elbo(jnp.asarray(x, jnp.float32), key))(keys)
    )
    found = np.asarray(draws(keys), np.float64)
    spread = np.diag(gain) ** 2 + tau**2
    exact = -0.5 * (x**2 / spread + np.log(2 * np.pi * spread)).sum(axis=1)
    variance = 1 / (1 + np.diag(gain) ** 2 / tau**2)
    mean = variance * np.diag(gain) * x / tau**2
    gap = 0.5 * ((sigma**2 + (x - mean) ** 2) / variance - 1 - np.log(sigma**2 / variance)).sum(axis=1)
    error = found.std(axis=0) / np.sqrt(len(keys))
    np.testing.assert_array_less(np.abs(found.mean(axis=0) - (exact - gap)), 4 * error + 1e-4)
    terms = eqx.filter_jit(model.terms)(jnp.asarray(x, jnp.float32), KEY)
    np.testing.assert_allclose(
        terms.prior, 0.5 * ((x**2).sum(axis=1) + 2 * (sigma**2 - 1 - np.log(sigma**2))), rtol=1e-5
    )


def test_each_rung_can_do_what_its_noise_allows() -> None:
    rungs = {
        "code": build(noise="code"),
        "data": build(noise="data"),
        "masking": build(corruption="masking", share=0.5),
    }
    assert {name: type(rung) for name, rung in rungs.items()} == {
        "code": CodeNoise,
        "data": DataNoise,
        "masking": Corrupted,
    }
    assert not isinstance(rungs["masking"], HasBound | CanSample)
    batch = Batch(jnp.array([[0.7, -1.2], [0.1, 0.4]]))
    same = {name: eqx.filter_jit(linear(rung, np.eye(2)).loss)(batch, KEY)[0] for name, rung in rungs.items()}
    noise = jax.random.normal(KEY, (2, 2))
    assert float(same["data"]) == pytest.approx(float(jnp.square(0.3 * noise).mean()), rel=1e-5)
    assert float(same["code"]) > float(same["data"])  # codes are drawn to zero
    # What a copy loses is what was masked.
    hidden = np.asarray(rungs["masking"].seen(batch.x, KEY)) == 0
    assert float(same["masking"]) == pytest.approx(np.square(np.asarray(batch.x) * hidden).mean(), rel=1e-5)
    for name in ("code", "data"):
        assert rungs[name].sample(KEY, 3).shape == (3, 2)  # type: ignore[attr-defined]
    with pytest.raises(ArgumentError, match="moves=0"):
        rungs["data"].sample(KEY, 3, moves=0)  # type: ignore[attr-defined]


def test_corruptions_change_the_share_of_the_entries_that_was_asked_for() -> None:
    pixels = Schema("image", (8, 8, 1), levels=17)
    x = np.full((200, 8, 8, 1), 0.5, np.float32)
    masked = np.asarray(build(pixels, corruption="masking", share=0.3).seen(jnp.asarray(x), KEY))
    assert set(np.unique(masked)) == {0.0, 0.5}
    assert (masked == 0).mean() == pytest.approx(0.3, abs=0.02)
    salted = np.asarray(build(pixels, corruption="salt-pepper", share=0.3).seen(jnp.asarray(x), KEY))
    assert set(np.unique(salted)) == {0.0, 0.5, 1.0}
    for value in (0.0, 1.0):
        assert (salted == value).mean() == pytest.approx(0.15, abs=0.02)


def test_what_makes_no_sense_is_refused_with_a_way_out() -> None:
    with pytest.raises(
        ArgumentError, match=r"corruption=salt-pepper: these data have no least(.|\n)*masking"
    ):
        build(corruption="salt-pepper")
    with pytest.raises(ArgumentError, match=r"corruption=masking: the noise of a code is Gaussian"):
        build(noise="code", corruption="masking")
    with pytest.raises(ArgumentError, match=r"noise='none': without noise it is the model autoencoder"):
        build(noise="none")


def test_noise_on_pixels_reaches_three_tenths_of_their_range_unless_told() -> None:
    pixels = Schema("image", (8, 8, 1), levels=17)
    assert build(pixels).config.sigma == 0.6  # the network sees them from -1 to 1
    assert build(pixels, sigma=0.2).config.sigma == 0.2
    assert build(pixels, noise="code").config.sigma == build().config.sigma == 0.3
    model = build(pixels)
    x = np.full((200, 8, 8, 1), 0.5, np.float32)
    assert np.asarray(model.seen(jnp.asarray(x), KEY)).std() == pytest.approx(0.3, rel=0.02)


def test_langevin_moves_at_the_one_level_draw_the_data_of_an_exact_denoiser() -> None:
    sigma, noised = 0.5, COVARIANCE + 0.25 * np.eye(2)
    gain = np.linalg.inv(noised) @ COVARIANCE
    model = linear(build(sigma=sigma), gain)
    out = np.asarray(model.sample(KEY, 4000, moves=300, size=0.05))  # type: ignore[attr-defined]
    np.testing.assert_allclose(np.cov(out.T), gain.T @ noised @ gain, atol=0.06)


def test_it_learns_the_exact_score_of_a_smoothed_mixture() -> None:
    """Three narrow Gaussians: smoothed by the noise, their score is known in closed form."""
    sigma, narrow = 0.5, 0.2
    centres = np.array([[1.5, 0.0], [-1.0, 1.0], [-0.5, -1.5]])
    draw = np.random.default_rng(0)
    x = centres[draw.integers(0, 3, 1024)] + narrow * draw.normal(size=(1024, 2))
    model = build(sigma=sigma, depth=1, width=64, code=16)
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    optimizer = optax.adam(optax.cosine_decay_schedule(5e-3, 1000))
    batch = Batch(jnp.asarray(x, jnp.float32))

    @jax.jit
    def train(arrays: Any) -> Any:
        def step(carry: Any, key: jax.Array) -> Any:
            arrays, state = carry
            slope = jax.grad(lambda a: eqx.combine(a, rest).loss(batch, key)[0])(arrays)
            change, state = optimizer.update(slope, state)
            return (optax.apply_updates(arrays, change), state), None

        return jax.lax.scan(step, (arrays, optimizer.init(arrays)), jax.random.split(KEY, 1000))[0][0]

    trained = eqx.combine(train(arrays), rest)
    assert isinstance(trained, DataNoise)
    y = x[:500] + sigma * draw.normal(size=(500, 2))
    variance = narrow**2 + sigma**2
    apart = centres[None] - y[:, None]
    weights = np.exp(-np.square(apart).sum(axis=2) / (2 * variance))
    weights /= weights.sum(axis=1, keepdims=True)
    exact = (weights[:, :, None] * apart).sum(axis=1) / variance
    found = np.asarray(eqx.filter_jit(trained.score)(jnp.asarray(y, jnp.float32)))
    assert np.square(found - exact).sum() < 0.15**2 * np.square(exact).sum()


def test_the_field_in_the_plane_says_how_near_the_exact_score_it_is() -> None:
    data = cr.data.load("moons", n=200)
    points = jnp.asarray(data.train.x, jnp.float32)
    best = denoising_field(exact_denoiser(points, 0.3), data, 0.3, KEY)
    assert best.cosine == pytest.approx(1, abs=1e-5)
    assert best.error < 1e-4
    still = denoising_field(lambda y: y, data, 0.3, KEY)
    assert (still.cosine, still.error) == (0.0, pytest.approx(1.0))
    # The score of a mixture, by differentiating its log-density.
    y = np.array([[0.3, -0.2], [1.0, 1.0]], np.float32)
    log_density = lambda one: jax.nn.logsumexp(-jnp.square(points - one[None]).sum(axis=1) / (2 * 0.09))  # noqa: E731
    exact = (exact_denoiser(points, 0.3)(jnp.asarray(y)) - y) / 0.09
    np.testing.assert_allclose(exact, jax.vmap(jax.grad(log_density))(y), rtol=1e-3, atol=1e-3)


def test_levels_of_images_cost_what_a_gaussian_in_bins_gives_them() -> None:
    schema = Schema("image", (2, 2, 1), levels=17)
    model = build(schema, tau=100.0)
    assert isinstance(model, DataNoise)
    x = jnp.asarray(np.random.default_rng(0).integers(1, 16, (3, 2, 2, 1)) / 16, jnp.float32)
    # With so wide a decoder every inner level has probability 1/8 / sqrt(2 pi tau²).
    np.testing.assert_allclose(
        eqx.filter_jit(model.terms)(x, KEY).reconstruction,
        -4 * np.log(0.125 / np.sqrt(2 * np.pi * 1e4)),
        rtol=1e-3,
    )


@pytest.mark.parametrize(("sigma", "message"), [(1e-3, "in the gaps"), (20.0, "little of them is left")])
def test_noise_that_cannot_teach_the_score_of_the_data_is_warned_of(sigma: float, message: str) -> None:
    data = cr.data.load("moons", n=200)
    with pytest.warns(UserWarning, match=message):
        cr.models.build("denoising-autoencoder", data, sigma=sigma, width=4, depth=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cr.models.build("denoising-autoencoder", data, width=4, depth=1)
        cr.models.build("denoising-autoencoder", data, noise="code", sigma=sigma, width=4, depth=1)
