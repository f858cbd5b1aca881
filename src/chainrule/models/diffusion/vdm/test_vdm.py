"""The variational diffusion model: what its loss is made of, what its schedule learns, and what it scores."""

import functools
import math
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.data import Batch, Schema
from chainrule.models.diffusion import bounds
from chainrule.models.diffusion.schedules.learned import LearnedSNR, by_variance
from chainrule.models.diffusion.vdm import VDM
from chainrule.train import score

KEY = jax.random.key(0)
DIGITS = Schema("image", (4, 4, 1), target="class", classes=("a", "b", "c"), levels=17)


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@functools.cache
def build(**settings: object) -> VDM:
    model = models.build("vdm", DIGITS, **{"denoiser": "mlp", "width": 8, "depth": 1, **settings})
    assert isinstance(model, VDM)
    return model


def batch(n: int = 64) -> Batch:
    draw = np.random.default_rng(0)
    x = draw.integers(0, 17, (n, 4, 4, 1)) / 16
    return Batch(jnp.asarray(x, jnp.float32), jnp.asarray(np.arange(n) % 3, jnp.int32))


def test_the_schedule_rises_strictly_from_end_to_end_before_and_after_it_is_moved() -> None:
    noise = np.random.default_rng(0)
    fresh = LearnedSNR(-7.0, 6.0, KEY)
    moved = jax.tree.map(lambda a: a + jnp.asarray(noise.normal(size=a.shape), a.dtype), fresh)
    times = jnp.linspace(0, 1, 10_001)
    with jax.enable_x64(True):
        for schedule in (fresh, moved):
            wide = jax.tree.map(lambda a: a.astype(jnp.float64), schedule)
            gamma = -np.asarray(wide.lam(times.astype(jnp.float64)))
            assert (np.diff(gamma) > 0).all()
            np.testing.assert_allclose(gamma[[0, -1]], wide.gammas, rtol=1e-12)


def test_the_interior_of_the_schedule_follows_the_square_and_all_else_the_mean() -> None:
    def loss(others: jax.Array, interior: jax.Array) -> jax.Array:
        return others * interior**2

    interior = jnp.array([1.0, 2.0])
    rest, inside = jax.grad(lambda a, b: by_variance(loss, a, b).mean(), argnums=(0, 1))(3.0, interior)
    assert float(rest) == pytest.approx((1 + 4) / 2)
    square = jax.grad(lambda b: jnp.square(loss(jnp.asarray(3.0), b)).mean())(interior)
    np.testing.assert_allclose(inside, square, rtol=1e-6)


@pytest.mark.slow  # second order through the schedule
def test_gradients_of_the_ends_are_those_of_the_bound() -> None:
    model = build()
    with jax.enable_x64(True):
        arrays, rest = eqx.partition(model, eqx.is_inexact_array)
        model = eqx.combine(jax.tree.map(lambda a: a.astype(jnp.float64), arrays), rest)
        examples = Batch(jnp.asarray(batch().x, jnp.float64), batch().y)

        @eqx.filter_jit
        def at(gammas: jax.Array) -> jax.Array:
            return eqx.tree_at(lambda m: m.noise.gammas, model, gammas).loss(examples, KEY)[0]

        gammas, steps = model.noise.gammas, 1e-5 * jnp.eye(2)
        sides = jax.lax.map(at, jnp.concatenate([gammas[None] + steps, gammas[None] - steps]))
        measured = (sides[:2] - sides[2:]) / 2e-5
        np.testing.assert_allclose(jax.grad(at)(gammas), measured, rtol=1e-5)


def test_the_loss_is_the_bound_in_bits_per_dimension() -> None:
    model, examples = build(condition_dropout=0.0, conditional=False), batch(256)
    loss = eqx.filter_jit(lambda key: model.loss(examples, key))
    values = [float(loss(jax.random.key(seed))[0]) for seed in range(20)]
    _, parts = loss(KEY)
    assert set(parts) == {"prior", "diffusion", "reconstruction"}
    nats = -eqx.filter_jit(model.elbo)(examples.x, KEY) + 16 * math.log(16)
    bits = float(nats.mean()) / (16 * math.log(2))
    assert np.mean(values) == pytest.approx(bits, rel=0.05)


def test_the_bound_comes_with_its_parts_and_given_the_class() -> None:
    model, examples = build(), batch(32)
    found = eqx.filter_jit(model.bound)(examples, KEY)
    assert (set(found.parts), set(found.given)) == (
        {"prior", "diffusion", "class"},
        {"class", "no_class"},
    )
    # A fresh network says the same whatever the class.
    np.testing.assert_allclose(found.given["no_class"], found.given["class"], rtol=1e-5)
    np.testing.assert_allclose(found.elbo, found.given["class"] - found.parts["class"], rtol=1e-5)


@pytest.mark.parametrize("continuous", [True, False])
def test_the_parts_of_the_bound_add_up_to_it_in_the_units_of_the_data(continuous: bool) -> None:
    import chainrule as cr

    noise = np.random.default_rng(0)
    images = noise.integers(0, 17, (60, 2, 2)).astype(np.uint8)
    points = noise.normal(size=(60, 3)) * [10.0, 0.1, 1000.0]  # standardised for the network
    data = cr.data.from_arrays(points) if continuous else cr.data.from_arrays(images, levels=17)
    found = score(models.build("vdm", data, denoiser="mlp", width=8, depth=1), data, "val")
    total, unit = ("nll_bound", "nats") if continuous else ("bits_per_dim_bound", "bits/dim")
    parts = [found[f"bound_{name}"] for name in ("prior", "diffusion", "reconstruction")]
    assert {part.unit for part in (*parts, found[total])} == {unit}
    assert all(part.stderr is not None for part in parts)
    assert sum(part.value for part in parts) == pytest.approx(found[total].value, rel=1e-5)
    assert ("bits_per_dim_bound" in found) == (not continuous)


@functools.cache
def moved_chain(timesteps: int) -> VDM:
    """A chain whose network and schedule are not those of the start."""
    noise = np.random.default_rng(0)
    arrays, rest = eqx.partition(build(timesteps=timesteps, conditional=False), eqx.is_inexact_array)
    shift = jax.tree.map(lambda a: a + jnp.asarray(0.1 * noise.normal(size=a.shape), a.dtype), arrays)
    return eqx.combine(shift, rest)


def test_the_loss_of_a_chain_is_the_discrete_bound_term_by_term() -> None:
    steps = 12
    model, one = moved_chain(steps), batch(1).x
    examples = Batch(jnp.repeat(one, steps, axis=0), None)  # each is looked at after another step
    _, for_noise, *_ = jax.random.split(KEY, 4)
    x0 = model.to_network_units(examples.x)
    eps = jax.random.normal(for_noise, x0.shape, x0.dtype)

    @eqx.filter_jit
    def by_hand(model: VDM) -> jax.Array:
        levels = model.noise.level(jnp.arange(steps + 1) / steps)
        return bounds.step_terms(model.denoiser, x0, jnp.broadcast_to(eps, (steps, *eps.shape)), levels)

    @eqx.filter_jit
    def looked_at(model: VDM) -> tuple[jax.Array, jax.Array, jax.Array]:
        even = (jax.random.uniform(jax.random.split(KEY, 4)[0]) + jnp.arange(steps) / steps) % 1
        return model._diffusion(x0, eps, even, None, 1.0), even, model.loss(examples, KEY)[1]["diffusion"]

    terms, (found, even, mean) = np.asarray(by_hand(model)), looked_at(model)
    numbers = np.floor(np.asarray(even) * steps).astype(int)
    assert sorted(numbers) == list(range(steps))
    np.testing.assert_allclose(found / steps, terms[numbers, np.arange(steps)], rtol=1e-4)
    total = terms[numbers, np.arange(steps)].sum() / (16 * math.log(2))
    assert float(mean) == pytest.approx(float(total), rel=1e-4)


def test_the_bound_of_a_chain_is_its_terms_and_tends_to_that_of_continuous_time() -> None:
    x = batch(64).x
    few, many = (eqx.filter_jit(moved_chain(steps).terms)(x, KEY) for steps in (4, 10_000))
    endless = eqx.filter_jit(
        eqx.tree_at(
            lambda m: (m.denoiser, m.noise), build(conditional=False), _parts(moved_chain(10_000))
        ).terms
    )(x, KEY)
    assert float(many.diffusion.mean()) == pytest.approx(float(endless.diffusion.mean()), rel=0.05)
    assert float(few.diffusion.mean()) > 1.2 * float(endless.diffusion.mean())
    np.testing.assert_allclose(many.prior, endless.prior, rtol=1e-5)


def _parts(model: VDM) -> tuple[object, object]:
    return model.denoiser, model.noise


def test_all_of_the_schedule_of_a_chain_follows_the_bound() -> None:
    model = moved_chain(6)
    examples = batch(6)

    @eqx.filter_jit
    def slope_and_difference(model: VDM) -> tuple[jax.Array, jax.Array]:
        def at(shift: jax.Array) -> jax.Array:
            bent = eqx.tree_at(lambda m: m.noise.bias, model, model.noise.bias + shift)
            return bent.loss(examples, KEY)[0]

        zero, small = jnp.zeros(()), jnp.asarray(1e-2)
        return jax.grad(at)(zero), (at(small) - at(-small)) / (2 * small)

    slope, difference = (float(v) for v in slope_and_difference(model))
    assert abs(slope) > 1e-4
    assert slope == pytest.approx(difference, rel=0.02)
