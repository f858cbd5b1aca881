"""Flow matching beyond the promises every model keeps: its paths, its velocity, its pairs, and how its paths bend."""

from collections.abc import Callable, Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.optimize

import chainrule as cr
from chainrule import models
from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Lines, Scatter
from chainrule.data import Batch, Schema
from chainrule.models.diffusion import samplers, schedules
from chainrule.models.diffusion.denoisers.mixture import MixtureDenoiser
from chainrule.models.diffusion.flow_matching import FlowMatching, bending, shorter_pairs
from chainrule.models.diffusion.process import Rectified, noised

POINTS = Schema("points", (2,))
CLASSES = Schema("points", (2,), target="class", classes=("a", "b"))
KEY = jax.random.key(0)


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def build(schema: Schema = POINTS, **settings: object) -> FlowMatching:
    model = models.build("flow-matching", schema, **{"width": 8, "depth": 1, **settings})
    assert isinstance(model, FlowMatching)
    return model


def moved(model: FlowMatching) -> FlowMatching:
    """As if trained: a fresh network says zero."""
    noise = np.random.default_rng(0)
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    arrays = jax.tree.map(
        lambda a: jnp.asarray(np.asarray(a) + 0.2 * noise.normal(size=a.shape), a.dtype), arrays
    )
    return eqx.combine(arrays, rest)


@pytest.mark.parametrize("rest", [0.0, 0.1])
def test_paths_are_those_of_the_paper_with_time_turned_around(rest: float) -> None:
    path, t = schedules.RectifiedSchedule(Rectified(rest)), np.array([0.3, 0.9])
    noise, data = np.random.default_rng(0).normal(size=(2, 2, 3))
    level = path.level(jnp.asarray(1 - t))
    by_hand = (1 - (1 - rest) * t)[:, None] * noise + t[:, None] * data
    np.testing.assert_allclose(noised(jnp.asarray(data), jnp.asarray(noise), level), by_hand, rtol=1e-5)


@pytest.mark.parametrize("rest", [0.0, 0.1])
def test_the_loss_is_the_squared_error_of_the_velocity(rest: float) -> None:
    model, data = moved(build(path_noise=rest)), np.random.default_rng(1).normal(size=(16, 2))
    for_times, for_noise, _ = jax.random.split(KEY, 3)
    t = 1 - schedules.drawn_times(model.schedule, 16, for_times)[0]
    noise = np.asarray(jax.random.normal(for_noise, (16, 2)))
    x = (1 - (1 - rest) * np.asarray(t))[:, None] * noise + np.asarray(t)[:, None] * data
    said = eqx.filter_jit(model.velocity)(jnp.asarray(x, jnp.float32), t)
    by_hand = np.square(np.asarray(said) - (data - (1 - rest) * noise)).mean()
    found, _ = eqx.filter_jit(model.loss)(Batch(jnp.asarray(data, jnp.float32)), KEY)
    assert float(found) == pytest.approx(float(by_hand), rel=1e-4)


def test_the_best_velocity_of_a_gaussian_is_the_published_one() -> None:
    with jax.enable_x64(True):
        exact, m, s = MixtureDenoiser([1.0], [[2.0]], [0.25]), 2.0, 0.5
        for t, x in ((0.3, 1.0), (0.8, 2.5)):
            level = schedules.RectifiedSchedule().level(jnp.asarray(1 - t))
            found = -float(exact.value("u", jnp.array([[x]]), level)[0, 0])
            by_hand = m + (t * s**2 - (1 - t)) / ((1 - t) ** 2 + t**2 * s**2) * (x - t * m)
            assert found == pytest.approx(by_hand, rel=1e-10)
        level = schedules.RectifiedSchedule().level(jnp.asarray(0.7))
        assert -float(exact.value("u", jnp.array([[1.0]]), level)[0, 0]) == pytest.approx(1.5121951, abs=1e-7)


def test_euler_steps_of_the_velocity_are_steps_of_ddim() -> None:
    """One implementation: the sampler of diffusion on the rectified path is Euler's rule."""
    model = moved(build(path_noise=0.1))
    levels = model.levels(5)
    x = jnp.asarray(np.random.default_rng(2).normal(size=(4, 2)), jnp.float32)
    drawn = samplers.walk(model.denoiser, x, levels, samplers.DDIM(), KEY, trajectory=True)
    velocity = eqx.filter_jit(model.velocity)
    at = x
    for number in range(4):  # the last step, to no noise at all, takes away the rest of the path too
        at = at + (levels.a[number + 1] - levels.a[number]) * velocity(at, levels.a[number])
        np.testing.assert_allclose(drawn.path[number], at, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.diff(np.asarray(levels.a)), np.diff(np.asarray(levels.a))[0], rtol=0.01)


def test_pairs_are_a_permutation_almost_as_short_as_the_best() -> None:
    draw = np.random.default_rng(0)
    for size in (2, 64):
        noise, data = draw.normal(size=(2, 96, size)).astype(np.float32)
        found = np.asarray(jax.jit(shorter_pairs)(noise, data))
        assert sorted(found) == list(range(96))
        cost = np.square(noise[:, None] - data[None]).sum(axis=-1)
        rows, columns = scipy.optimize.linear_sum_assignment(cost)
        best, ours, any_ = cost[rows, columns].sum(), cost[found, np.arange(96)].sum(), np.trace(cost)
        assert best <= ours * (1 + 1e-5)
        assert ours - best < 0.15 * (any_ - best)


def test_pairs_stay_within_their_class() -> None:
    draw = np.random.default_rng(0)
    noise, data = draw.normal(size=(2, 64, 2)).astype(np.float32)
    kinds = draw.integers(0, 3, 64)
    found = np.asarray(jax.jit(shorter_pairs)(noise, data, kinds))
    np.testing.assert_array_equal(kinds[found], kinds)
    for kind in range(3):  # and are as short as those of the class alone
        mine = np.flatnonzero(kinds == kind)
        cost = np.square(noise[mine][:, None] - data[mine][None]).sum(axis=-1)
        best = cost[scipy.optimize.linear_sum_assignment(cost)].sum()
        ours = np.square(noise[found[mine]] - data[mine]).sum()
        assert ours <= best + 0.15 * (np.trace(cost) - best)


def test_straight_paths_do_not_bend() -> None:
    start, end = np.random.default_rng(0).normal(size=(2, 5, 3))
    straight = np.stack([(1 - t) * start + t * end for t in np.linspace(0, 1, 9)])
    np.testing.assert_allclose(bending(jnp.asarray(straight)), 0, atol=1e-9)
    half = np.linspace(0, np.pi, 2001)
    circle = np.stack([np.cos(half), np.sin(half)], axis=-1)[:, None]
    # On half a circle |v|² is pi² and the way 2 long: the mean of |v - way|² over 4 is pi²/4 - 1.
    with jax.enable_x64(True):
        assert float(bending(jnp.asarray(circle)).mean()) == pytest.approx(np.pi**2 / 4 - 1, rel=1e-4)


def test_transport_is_refused_where_noise_would_tell_of_the_condition() -> None:
    schema = Schema("points", (2,), target="value", target_shape=(3,))
    with pytest.raises(CapabilityError, match="tells of its value"):
        build(schema, coupling="transport")
    assert not build(schema, coupling="transport", conditional=False).conditional
    assert build(CLASSES, coupling="transport").classes == 2


def test_samplers_that_add_noise_are_for_noise_that_was_drawn_freely() -> None:
    free, chosen = build(), build(coupling="transport")
    assert not all(free.samplers().values())
    assert all(chosen.samplers().values())
    assert "runge-kutta" in chosen.samplers()
    with pytest.raises(CapabilityError, match="sampler=ddpm adds noise"):
        chosen.sample(KEY, 1, sampler="ddpm")
    assert chosen.likelihood_note
    assert not free.likelihood_note


def test_vectors_are_conditions_and_lead_with_guidance() -> None:
    model = moved(build(Schema("points", (2,), target="value", target_shape=(3,))))
    one, other = (model.sample(KEY, 2, condition=np.full(3, value), steps=2) for value in (0.0, 1.0))
    led = model.sample(KEY, 2, condition=np.full(3, 1.0), steps=2, guidance=3.0)
    assert one.shape == (2, 2)
    assert not np.allclose(one, other)
    assert not np.allclose(led, other)


def test_pictures_show_the_velocity_of_points_and_how_paths_bend_and_a_score_where_there_is_one() -> None:
    data = cr.data.load("moons")
    model = moved(build(CLASSES, coupling="transport"))
    found = {picture.name: picture for picture in model.pictures(data, KEY)}
    assert set(found) == {"velocity", "path-curvature", "error-by-level"}
    assert isinstance(found["velocity"], Scatter)
    assert isinstance(found["path-curvature"], Lines)
    always = build(CLASSES, condition_dropout=0.0)  # it knows no velocity of all data together
    assert [picture.name for picture in always.own_pictures()] == ["path-curvature"]


def taught(model: FlowMatching, draw: Callable[[jax.Array], jax.Array], steps: int) -> FlowMatching:
    """The model after so many steps, each on fresh examples, in one compiled loop."""
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    optimizer = optax.adam(optax.cosine_decay_schedule(1e-2, steps))

    def step(carry: tuple, key: jax.Array) -> tuple[tuple, None]:
        arrays, state = carry
        for_examples, key = jax.random.split(key)
        batch = Batch(draw(for_examples))
        slope = jax.grad(lambda arrays: eqx.combine(arrays, rest).loss(batch, key)[0])(arrays)
        change, state = optimizer.update(slope, state)
        return (optax.apply_updates(arrays, change), state), None

    jax.config.update("jax_disable_most_optimizations", False)  # here it is the loop that takes time
    keys = jax.random.split(KEY, steps)
    (arrays, _), _ = jax.jit(lambda start: jax.lax.scan(step, start, keys))((arrays, optimizer.init(arrays)))
    jax.config.update("jax_disable_most_optimizations", True)
    return eqx.combine(arrays, rest)


@pytest.mark.slow
def test_short_pairs_make_straighter_paths() -> None:
    moons = jnp.asarray(cr.data.load("moons").train.batch(np.arange(500)).x)
    curvature = {}
    for coupling in ("independent", "transport"):
        model = build(width=32, coupling=coupling)
        model = taught(model, lambda key: jax.random.choice(key, moons, (128,)), 500)
        found = eqx.filter_jit(lambda model: model.scores(Batch(jnp.zeros((512, 2))), KEY))(model)
        curvature[coupling] = float(found["path_curvature"].values.mean())
    assert curvature["transport"] < 0.7 * curvature["independent"]


@pytest.mark.slow
def test_a_trained_field_is_the_best_one_over_the_bulk() -> None:
    """Within two hundredths of its typical speed, where nine of ten paths are at a time."""
    mean, std = 2.0, 0.5
    model = build(Schema("points", (1,)), width=32)
    model = taught(model, lambda key: mean + std * jax.random.normal(key, (1024, 1)), 1500)
    bulk = np.linspace(-1.645, 1.645, 101)[:, None]
    velocity, wanted, found = eqx.filter_jit(model.velocity), [], []
    for t in (0.1, 0.3, 0.5, 0.7, 0.9):
        variance = (1 - t) ** 2 + t**2 * std**2
        x = t * mean + np.sqrt(variance) * bulk
        wanted.append(mean + (t * std**2 - (1 - t)) / variance * (x - t * mean))
        found.append(np.asarray(velocity(jnp.asarray(x, jnp.float32), t)))
    error = np.sqrt(np.square(np.array(found) - np.array(wanted)).mean(axis=(1, 2)))
    assert (error < 0.02 * np.sqrt(np.square(wanted).mean())).all(), error
