"""Several noise levels: the exact score of smoothed data at each, what diffusion learns, walks down the levels."""

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
from chainrule.models.diffusion.process import Level, noised
from chainrule.models.diffusion.targets import convert
from chainrule.models.latent.denoising_autoencoder import ManyLevels

KEY = jax.random.key(0)
POINTS = Schema("points", (2,))
CENTRES = np.array([[1.5, 0.0], [-1.0, 1.0], [-0.5, -1.5]])
NARROW = 0.2
COUNT = 3


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def build(schema: Schema = POINTS, **settings: Any) -> ManyLevels:
    own = {"noise_levels": COUNT, "sigma": 0.5, "sigma_max": 2.0, "width": 64, "depth": 1, "code": 16}
    model = models.build("denoising-autoencoder", schema, **{**own, **settings})
    assert isinstance(model, ManyLevels)
    return model


def mixture(count: int, seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return CENTRES[draw.integers(0, 3, count)] + NARROW * draw.normal(size=(count, 2))


def exact_mean(y: np.ndarray, sigma: float) -> np.ndarray:
    """E[x | y] of the mixture, from the posterior of each of its parts."""
    variance = NARROW**2 + sigma**2
    apart = y[:, None] - CENTRES[None]
    weights = np.exp(-np.square(apart).sum(axis=2) / (2 * variance))
    weights /= weights.sum(axis=1, keepdims=True)
    each = CENTRES[None] + NARROW**2 / variance * apart
    return (weights[:, :, None] * each).sum(axis=1)


def trained(model: Any, loss: Any, steps: int) -> Any:
    """The model after some steps on the mixture; `loss` is one of model, examples and key."""
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    optimizer = optax.adam(optax.cosine_decay_schedule(5e-3, steps))
    x = jnp.asarray(mixture(1024, 0), jnp.float32)

    @jax.jit
    def train(arrays: Any) -> Any:
        def step(carry: Any, key: jax.Array) -> Any:
            arrays, state = carry
            slope = jax.grad(lambda a: loss(eqx.combine(a, rest), x, key))(arrays)
            change, state = optimizer.update(slope, state)
            return (optax.apply_updates(arrays, change), state), None

        return jax.lax.scan(step, (arrays, optimizer.init(arrays)), jax.random.split(KEY, steps))[0][0]

    return eqx.combine(train(arrays), rest)


@pytest.fixture(scope="module")
def learned() -> ManyLevels:
    found = trained(build(), lambda model, x, key: model.loss(Batch(x), key)[0], 1200)
    assert isinstance(found, ManyLevels)
    return found


_denoised = eqx.filter_jit(lambda model, y, sigma: model.denoised(y, sigma))


def test_at_every_level_it_learns_the_exact_score_of_the_smoothed_mixture(learned: ManyLevels) -> None:
    draw = np.random.default_rng(1)
    for sigma in learned.sigmas:
        y = mixture(500, 2) + sigma * draw.normal(size=(500, 2))
        moved = np.asarray(_denoised(learned, jnp.asarray(y, jnp.float32), sigma)) - y
        exact = exact_mean(y, sigma) - y  # sigma² times the score, by Tweedie's formula
        assert np.square(moved - exact).sum() < 0.15**2 * np.square(exact).sum(), sigma


def test_its_loss_is_that_of_a_diffusion_model_whose_target_is_x0(learned: ManyLevels) -> None:
    """z = a x + s eps of diffusion, divided by a, is x + sigma eps: one denoiser serves both, and both scores."""
    x = jnp.asarray(mixture(200, 3), jnp.float32)
    eps = jax.random.normal(KEY, x.shape)
    sigma = float(learned.sigmas[1])
    a = 1 / np.sqrt(1 + sigma**2)  # a² + s² = 1
    level = Level(jnp.full(200, a), jnp.full(200, a * sigma))
    z = noised(x, eps, level)
    x0 = _denoised(learned, z / a, sigma)
    directly = _denoised(learned, x + sigma * eps, sigma)
    np.testing.assert_allclose(x0, directly, atol=1e-4)
    # The score of z as diffusion converts it, beside that of y = z / a by the change of variables.
    of_z = np.asarray(convert(x0, "x0", "score", z, level))
    np.testing.assert_allclose(
        of_z, np.asarray(learned.score(x + sigma * eps, sigma)) / a, rtol=1e-3, atol=1e-3
    )


@pytest.mark.slow
def test_a_diffusion_model_of_x0_learns_the_same_field(learned: ManyLevels) -> None:
    diffusion: Any = models.build(
        "diffusion", POINTS, target="x0", denoiser="mlp", width=64, depth=2, noise="cosine"
    )
    taught = trained(diffusion, lambda model, x, key: model.loss(Batch(x), key)[0], 2000)
    draw = np.random.default_rng(1)
    for sigma in learned.sigmas:
        y = mixture(500, 2) + sigma * draw.normal(size=(500, 2))
        a = 1 / np.sqrt(1 + sigma**2)
        theirs = np.asarray(
            eqx.filter_jit(taught.denoised)(jnp.asarray(a * y, jnp.float32), float(-2 * np.log(sigma)))
        )
        ours = np.asarray(_denoised(learned, jnp.asarray(y, jnp.float32), sigma))
        size = np.square(exact_mean(y, sigma) - y).sum()
        assert np.square(theirs - ours).sum() < 0.25**2 * size, sigma


def test_walks_down_the_levels_find_all_parts_of_the_mixture(learned: ManyLevels) -> None:
    drawn = np.asarray(learned.sample(KEY, 600, moves=40))
    nearest = np.square(drawn[:, None] - CENTRES[None]).sum(axis=2)
    np.testing.assert_allclose(np.bincount(nearest.argmin(axis=1), minlength=3) / 600, 1 / 3, atol=0.1)
    assert np.sqrt(nearest.min(axis=1)).mean() < 0.6
    with pytest.raises(ArgumentError, match="moves=0"):
        learned.sample(KEY, 3, moves=0)


def test_levels_are_spread_evenly_over_a_batch() -> None:
    model = build()
    np.testing.assert_allclose(model.sigmas, [0.5, 1.0, 2.0])
    x = jnp.zeros((30_000, 2))
    seen = np.asarray(eqx.filter_jit(model.seen)(x, KEY))
    assert seen.std() == pytest.approx(np.sqrt(np.square(model.sigmas).mean()), rel=0.02)
    _, sigma = eqx.filter_jit(model._noisy)(x[:31], KEY)
    counts = np.unique(np.asarray(sigma), return_counts=True)[1]
    assert sorted(counts) == [10, 10, 11]


def test_codes_are_those_of_the_least_noise_and_fields_are_drawn_at_several_levels() -> None:
    model = build()
    x = jnp.asarray(mixture(5, 0), jnp.float32)
    back = eqx.filter_jit(lambda model, x: model.decode(model.encode(x)))(model, x)
    np.testing.assert_allclose(back, _denoised(model, x, 0.5), atol=1e-5)
    data = cr.data.load("moons", n=200)
    drawn = [picture.name for picture in model.pictures(data, KEY)]
    assert drawn == ["moved"] + [f"{kind}-field-{i}" for i in (1, 2, 3) for kind in ("denoising", "exact")]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": "code"}, "use noise_levels=1, or noise=data"),
        ({"corruption": "masking"}, "use noise_levels=1, or corruption=gaussian"),
        ({"sigma_max": 0.1}, "use sigma_max=5, or noise_levels=1"),
    ],
)
def test_what_has_no_levels_is_refused_with_a_way_out(settings: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as found:
        build(**settings)
    assert message in str(found.value)
