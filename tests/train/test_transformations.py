"""Directions of our own against their definitions, in double precision: whole-matrix AdaGrad, adaptive clipping, the
average without a schedule, groups of parameters."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.linalg

from chainrule.core.errors import ArgumentError
from chainrule.data import Batch, load
from chainrule.models import build
from chainrule.train.config import Optimizer, TrainConfig
from chainrule.train.optimizers import check_groups, check_method, for_groups, optimizer
from chainrule.train.transformations import clip_adaptive, slow_weights

_noise = np.random.default_rng(2)
STEPS = 12
CENTRE = {"matrix": _noise.normal(size=(3, 2)), "vector": _noise.normal(size=2)}
NAMES = ["head.bias", "head.weight", "body.0.weight"]


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def bowl(params: Any) -> jax.Array:
    """A quadratic around `CENTRE`, with steps of different steepness."""
    return sum((k + 1) * jnp.square(params[name] - CENTRE[name]).sum() for k, name in enumerate(CENTRE))


def start() -> dict[str, jax.Array]:
    return {name: jnp.zeros(value.shape) for name, value in CENTRE.items()}


def test_whole_matrix_adagrad_divides_by_the_root_of_the_sum_of_outer_products() -> None:
    method = optimizer(Optimizer(name="adagrad-full", eps=1e-3))
    params, total = {"x": jnp.zeros(2), "y": jnp.zeros((1, 2))}, np.zeros((4, 4))
    state = method.init(params)
    for g in np.random.default_rng(0).normal(size=(6, 4)):
        update, state = method.update({"x": jnp.asarray(g[:2]), "y": jnp.asarray(g[None, 2:])}, state, params)
        total += np.outer(g, g)
        root = scipy.linalg.sqrtm(total + 1e-15 * np.eye(4)).real
        expected = -np.linalg.solve(root + 1e-3 * np.eye(4), g)
        found = np.concatenate([update["x"], update["y"][0]])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_regret_of_whole_matrix_adagrad_stays_below_its_bound() -> None:
    rate, targets = 0.5, np.random.default_rng(1).normal(size=(60, 3))
    method = optimizer(Optimizer(name="adagrad-full", eps=1e-8))
    x, best = np.zeros(3), targets.mean(axis=0)
    state, outer, regret, farthest = method.init(jnp.zeros(3)), np.zeros((3, 3)), 0.0, 0.0
    update = jax.jit(method.update)
    for target in targets:
        g = x - target
        regret += (np.square(x - target).sum() - np.square(best - target).sum()) / 2
        farthest = max(farthest, float(np.linalg.norm(x - best)))
        outer += np.outer(g, g)
        step, state = update(jnp.asarray(g), state, jnp.asarray(x))
        x = x + rate * np.asarray(step)
    bound = (farthest**2 / (2 * rate) + rate) * np.sqrt(np.linalg.eigvalsh(outer)).sum()
    assert 0 < regret <= bound


def test_whole_matrix_adagrad_takes_rounding_for_what_it_is_where_no_gradient_ever_points() -> None:
    noise = np.random.default_rng(0)
    seen = np.linalg.qr(noise.normal(size=(40, 40)))[0][:, :5]  # the quadratic has rank 5 of 40
    hessian = jnp.asarray(seen @ np.diag([1e4, 1e2, 1, 1, 1e-1]) @ seen.T, jnp.float32)
    start = jnp.asarray(noise.normal(size=40), jnp.float32)
    method = optimizer(Optimizer(name="adagrad-full"))

    def step(carry, _):
        x, state = carry
        update, state = method.update(hessian @ x, state, x)
        return (x + jnp.float32(0.3) * update, state), x @ hessian @ x / 2

    (x, _), values = jax.jit(lambda x: jax.lax.scan(step, (x, method.init(x)), None, 100))(start)
    assert values[-1] < 0.02 * values[0]
    unseen = np.asarray(x - start, np.float64)
    unseen -= seen @ (seen.T @ unseen)
    assert np.linalg.norm(unseen) < 0.05 * np.linalg.norm(np.asarray(x - start))


@pytest.fixture
def single() -> Iterator[None]:
    with jax.enable_x64(False):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("single")
def test_whole_matrix_adagrad_fits_moons_in_single_precision() -> None:
    data = load("moons")
    batch = Batch(jnp.asarray(data.train.x[:256]), jnp.asarray(data.train.y[:256]))
    params, static = eqx.partition(build("mlp", data, width=16, depth=2), eqx.is_inexact_array)
    loss = jax.value_and_grad(lambda p: eqx.combine(p, static).loss(batch, jax.random.key(0))[0])
    method = optimizer(Optimizer(name="adagrad-full"))

    def step(carry, _):
        params, state = carry
        value, grads = loss(params)
        update, state = method.update(grads, state, params)
        return (jax.tree.map(lambda p, u: p + 0.3 * u, params, update), state), value

    _, values = jax.jit(lambda p: jax.lax.scan(step, (p, method.init(p)), None, 100))(params)
    assert values.dtype == jnp.float32
    assert values[-1] < 0.1 * values[0]


def test_whole_matrix_adagrad_is_refused_for_many_parameters() -> None:
    with pytest.raises(ArgumentError, match="501 parameters would need a matrix of as many rows"):
        optimizer(Optimizer(name="adagrad-full")).init(jnp.zeros(501))


@pytest.mark.parametrize("shape", [(6, 4), (3, 3, 2, 4), (5,)])
def test_adaptive_clipping_is_that_of_optax_unit_by_unit(shape: tuple[int, ...]) -> None:
    noise = np.random.default_rng(3)
    grads, params = (jnp.asarray(scale * noise.normal(size=shape)) for scale in (0.05, 1.0))
    ours, _ = clip_adaptive(0.02).update(grads, optax.EmptyState(), params)
    theirs, _ = optax.adaptive_grad_clip(0.02).update(grads, optax.EmptyState(), params)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert not np.allclose(ours, grads)


def test_adaptive_clipping_is_applied_before_the_step() -> None:
    params = {"w": jnp.ones((4, 1))}
    method = optimizer(Optimizer(name="sgd", clip_adaptive=0.01))
    update, _ = method.update({"w": jnp.full((4, 1), 3.0)}, method.init(params), params)
    np.testing.assert_allclose(update["w"], np.full((4, 1), -0.01), rtol=1e-12)


def test_the_average_without_a_schedule_is_that_of_optax() -> None:
    rates = 0.1 * np.minimum(1, np.arange(STEPS) / 4)  # a warm-up that starts at rate zero
    settings = Optimizer(name="schedule-free", betas=(0.8, 0.99), eps=1e-6)
    ours = optimizer(settings)
    base = optax.adam(lambda count: jnp.asarray(rates)[count], b1=0.0, b2=0.99, eps=1e-6)
    theirs = optax.contrib.schedule_free(base, lambda count: jnp.asarray(rates)[count - 1], b1=0.8)
    a, b = start(), start()
    state_a, state_b = ours.init(a), theirs.init(b)
    for rate in rates:
        update, state_a = ours.update(jax.grad(bowl)(a), state_a, a, rate=jnp.asarray(rate))
        a = jax.tree.map(lambda p, u, rate=rate: p + rate * u, a, update)
        update, state_b = theirs.update(jax.grad(bowl)(b), state_b, b)
        b = optax.apply_updates(b, update)
        for name in a:
            np.testing.assert_allclose(a[name], b[name], rtol=1e-6, atol=1e-8)
    slow = slow_weights(a, state_a, 0.8)
    expected = optax.contrib.schedule_free_eval_params(state_b, b)
    for name in slow:
        np.testing.assert_allclose(slow[name], expected[name], rtol=1e-6, atol=1e-8)
    assert float(bowl(slow)) < float(bowl(start()))


def test_a_group_moves_as_its_own_settings_say_and_the_rest_as_before() -> None:
    general = Optimizer(name="adam", lr=0.1, decay=0.2)
    groups = for_groups(general, {"vector": {"lr": 0.01, "name": "momentum"}})
    together = optimizer(general, groups)
    alone = {
        "matrix": optimizer(general),
        "vector": optimizer(Optimizer(name="momentum", lr=0.01, decay=0.2)),
    }
    a, b = start(), start()
    state, states = together.init(a), {name: method.init({name: b[name]}) for name, method in alone.items()}
    for _ in range(STEPS):
        update, state = together.update(jax.grad(bowl)(a), state, a)
        a = jax.tree.map(lambda p, u: p + 0.1 * u, a, update)
        slopes = jax.grad(bowl)(b)
        for name, method in alone.items():
            one, states[name] = method.update({name: slopes[name]}, states[name], {name: b[name]})
            b[name] = b[name] + {"matrix": 0.1, "vector": 0.01}[name] * one[name]
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=1e-12)


def test_patterns_of_the_command_line_arrive_with_their_dots() -> None:
    config = TrainConfig.parse(groups={"body": {"0": {"lr": 0.1}}, "*": {"bias": {"decay": 0.0}}})
    assert config.groups == {"body.0": {"lr": 0.1}, "*.bias": {"decay": 0.0}}
    assert TrainConfig.parse(**config.model_dump()) == config


@pytest.mark.parametrize(
    ("general", "groups", "message"),
    [
        ({}, {"tail": {"lr": 0.1}}, "groups.tail: no parameter has such a name"),
        ({"name": "lbfgs"}, {"head": {"lr": 0.1}}, "groups.head: lbfgs moves all parameters together"),
        ({}, {"head": {"name": "adagrad-full"}}, "groups.head: adagrad-full moves all parameters together"),
        ({}, {"head": {"lrr": 0.1}}, "unknown setting 'groups.head.lrr'"),
    ],
)
def test_groups_that_make_no_sense_are_refused(general: dict, groups: dict, message: str) -> None:
    settings = Optimizer(**general)
    with pytest.raises(ArgumentError, match=message):
        check_groups(settings, for_groups(settings, groups), NAMES)


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"optimizer": {"name": "lbfgs"}}, "set batch=100"),
        (
            {"optimizer": {"name": "newton-cg", "clip": 1.0, "decay": 0.1}, "batch": 100},
            "optimizer.clip=none",
        ),
        ({"optimizer": {"name": "schedule-free"}, "ema": 0.9}, "set schedule.name=constant ema=0"),
        (
            {"optimizer": {"name": "sgd"}, "schedule": {"name": "1cycle", "cycle_momentum": True}},
            "set schedule.cycle_momentum=false",
        ),
    ],
)
def test_a_method_says_what_it_cannot_be_combined_with(settings: dict, remedy: str) -> None:
    config = TrainConfig.parse(**settings)
    with pytest.raises(ArgumentError, match="cannot be used with these settings") as raised:
        check_method(config, [config.optimizer], 100)
    assert remedy in raised.value.remedy


def test_parity_with_a_library_that_lacks_the_method_is_refused() -> None:
    with pytest.raises(ArgumentError, match="PyTorch has no lion"):
        TrainConfig.parse(optimizer={"name": "lion", "parity": "torch"})
