"""Optimisers against their textbook recursions and closed forms, in double precision."""

import math
from collections.abc import Callable
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.train.config import Optimizer
from chainrule.train.optimizers import directions, optimizer

STEPS = 20
_noise = np.random.default_rng(0)
PARAMS = {"matrix": _noise.normal(size=(3, 2)), "vector": _noise.normal(size=2)}
GRADS = {name: _noise.normal(size=(STEPS, *p.shape)) for name, p in PARAMS.items()}


def updates(settings: Optimizer, grads: Any = GRADS, params: Any = PARAMS) -> dict[str, np.ndarray]:
    """The update at learning rate one for each of a sequence of gradients; parameters do not move."""

    @jax.jit
    def follow(grads: Any, params: Any) -> Any:
        method = optimizer(settings)

        def step(state: Any, grad: Any) -> tuple[Any, Any]:
            update, state = method.update(grad, state, params)
            return state, update

        return jax.lax.scan(step, method.init(params), grads)[1]

    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, follow(*jax.tree.map(jnp.asarray, (grads, params))))


def momentum(grads: np.ndarray) -> list[np.ndarray]:
    v, found = 0.0, []
    for g in grads:
        v = 0.8 * v + g
        found.append(-v)
    return found


def nesterov(grads: np.ndarray) -> list[np.ndarray]:
    v, found = 0.0, []
    for g in grads:
        v = 0.8 * v + g
        found.append(-(g + 0.8 * v))
    return found


def adagrad(grads: np.ndarray) -> list[np.ndarray]:
    total, found = 0.0, []
    for g in grads:
        total = total + g**2
        found.append(-g / (np.sqrt(total) + 1e-3))
    return found


def rmsprop(grads: np.ndarray) -> list[np.ndarray]:
    r, found = 0.0, []
    for g in grads:
        r = 0.8 * r + 0.2 * g**2
        found.append(-g / (np.sqrt(r) + 1e-3))
    return found


def adam(grads: np.ndarray) -> list[np.ndarray]:
    m, v, found = 0.0, 0.0, []
    for t, g in enumerate(grads, start=1):
        m, v = 0.7 * m + 0.3 * g, 0.9 * v + 0.1 * g**2
        found.append(-(m / (1 - 0.7**t)) / (np.sqrt(v / (1 - 0.9**t)) + 1e-3))
    return found


def lion(grads: np.ndarray) -> list[np.ndarray]:
    m, found = 0.0, []
    for g in grads:
        found.append(-np.sign(0.7 * m + 0.3 * g))
        m = 0.9 * m + 0.1 * g
    return found


RECURSIONS: dict[str, Callable[[np.ndarray], list[np.ndarray]]] = {
    "sgd": lambda grads: [-g for g in grads],
    "momentum": momentum,
    "nesterov": nesterov,
    "adagrad": adagrad,
    "rmsprop": rmsprop,
    "adam": adam,
    "adamw": adam,
    "lion": lion,
}


def test_every_optimizer_is_checked_and_every_name_of_the_schema_is_an_optimizer() -> None:
    elsewhere = {
        "adagrad-full",
        "schedule-free",
        "lbfgs",
        "newton-cg",
    }  # test_directions.py, test_searching.py
    assert set(directions) == {*RECURSIONS, "muon", *elsewhere}
    assert set(get_args(Optimizer.model_fields["name"].annotation)) == set(directions)


@pytest.mark.parametrize("name", RECURSIONS)
def test_updates_follow_the_recursion(name: str) -> None:
    settings = Optimizer(name=name, momentum=0.8, betas=(0.7, 0.9), eps=1e-3, decay=0.0)
    found = updates(settings)
    for part, grads in GRADS.items():
        np.testing.assert_allclose(found[part], RECURSIONS[name](grads), rtol=1e-12, atol=1e-14)


def test_the_first_step_of_adam_is_the_gradient_over_its_size_plus_eps() -> None:
    grads = {"g": np.array([[1e-3, 1e-8, 5.0, 0.0]])}
    first = updates(Optimizer(name="adam"), grads, {"g": np.zeros(4)})["g"][0]
    np.testing.assert_allclose(first, [-0.99999, -0.5, -1.0, 0.0], rtol=1e-5)


def test_a_hundred_adagrad_steps_of_gradient_one_go_as_far_as_the_sum_of_inverse_roots() -> None:
    total = -updates(Optimizer(name="adagrad"), {"g": np.ones((100, 1))}, {"g": np.zeros(1)})["g"].sum()
    assert total == pytest.approx(18.5896, abs=5e-5)
    assert total <= 20


@pytest.mark.parametrize(
    ("settings", "lr", "expected"),
    [
        ({"name": "sgd"}, 0.01, 0.066990),
        ({"name": "momentum", "momentum": 0.669421}, 0.0330579, 6.2e-12),
    ],
)
def test_a_hundred_steps_on_an_ill_conditioned_bowl(settings: dict, lr: float, expected: float) -> None:
    scale = np.array([1.0, 100.0])

    @jax.jit
    def descend(x: jax.Array) -> jax.Array:
        method = optimizer(Optimizer(**settings))

        def step(carry: Any, _: None) -> tuple[Any, None]:
            x, state = carry
            update, state = method.update({"x": scale * x}, state, {"x": x})
            return (x + lr * update["x"], state), None

        return jax.lax.scan(step, (x, method.init({"x": x})), None, length=100)[0][0]

    with jax.enable_x64(True):
        x = np.asarray(descend(jnp.ones(2)))
    assert (scale * x**2).sum() / 2 == pytest.approx(expected, rel=0.02 if expected < 1e-6 else 1e-5)


@pytest.mark.parametrize("name", ["sgd", "adam", "lion"])
def test_decay_pulls_matrices_and_only_matrices_towards_zero_apart_from_the_gradient(name: str) -> None:
    plain, decayed = (updates(Optimizer(name=name, decay=decay)) for decay in (0.0, 0.3))
    pull = np.broadcast_to(0.3 * PARAMS["matrix"], plain["matrix"].shape)
    np.testing.assert_allclose(decayed["matrix"], plain["matrix"] - pull, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(decayed["vector"], plain["vector"])


def test_clipping_the_norm_shrinks_long_gradients_as_one_vector_and_leaves_short_ones() -> None:
    found = updates(Optimizer(name="sgd", clip=1.5))
    norms = np.sqrt(sum(np.square(g).sum(axis=tuple(range(1, g.ndim))) for g in GRADS.values()))
    assert norms.min() < 1.5 < norms.max()
    factor = np.minimum(1, 1.5 / norms)
    for name, g in GRADS.items():
        expected = -g * factor.reshape(-1, *[1] * (g.ndim - 1))
        np.testing.assert_allclose(found[name], expected, rtol=1e-12)


def test_clipping_values_cuts_every_entry_before_the_norm_is_taken() -> None:
    found = updates(Optimizer(name="sgd", clip_value=0.5))
    for name, g in GRADS.items():
        np.testing.assert_allclose(found[name], -np.clip(g, -0.5, 0.5), rtol=1e-12)
    both = updates(Optimizer(name="sgd", clip_value=0.5, clip=0.1))
    norms = np.sqrt(sum(np.square(u).sum(axis=tuple(range(1, u.ndim))) for u in both.values()))
    np.testing.assert_allclose(norms, np.full(STEPS, 0.1), rtol=1e-12)


def test_clipping_comes_before_the_moments_of_adam() -> None:
    found = updates(Optimizer(name="adam", clip_value=0.5, betas=(0.7, 0.9), eps=1e-3))
    np.testing.assert_allclose(found["vector"], adam(np.clip(GRADS["vector"], -0.5, 0.5)), rtol=1e-12)


def nesterov_adam(grads: np.ndarray) -> list[np.ndarray]:
    m, v, found = 0.0, 0.0, []
    for t, g in enumerate(grads, start=1):
        m, v = 0.7 * m + 0.3 * g, 0.9 * v + 0.1 * g**2
        ahead = 0.7 * m / (1 - 0.7 ** (t + 1)) + 0.3 * g / (1 - 0.7**t)
        found.append(-ahead / (np.sqrt(v / (1 - 0.9**t)) + 1e-3))
    return found


def test_muon_moves_matrices_along_an_almost_orthogonal_direction_and_the_rest_by_nesterov_adam() -> None:
    found = updates(Optimizer(name="muon", betas=(0.7, 0.9), eps=1e-3))
    first = found["matrix"][0]
    values = np.linalg.svd(first, compute_uv=False)
    assert ((values > 0.6) & (values < 1.3)).all()  # five Newton-Schulz steps come near one, not all the way
    assert np.vdot(first, GRADS["matrix"][0]) < 0
    np.testing.assert_allclose(found["vector"], nesterov_adam(GRADS["vector"]), rtol=1e-10)


@pytest.mark.parametrize("name", [*RECURSIONS, "muon"])
def test_a_zero_gradient_moves_nothing(name: str) -> None:
    zeros = {part: np.zeros((2, *p.shape)) for part, p in PARAMS.items()}
    for found in updates(Optimizer(name=name, decay=0.0), zeros).values():
        assert not found.any()


def test_numbers_out_of_range_are_refused() -> None:
    for settings in ({"lr": 0.0}, {"momentum": 1.0}, {"eps": 0.0}, {"decay": -1.0}, {"clip": 0.0}):
        with pytest.raises(ValueError, match=next(iter(settings))):
            Optimizer(**settings)
    with pytest.raises(ValueError, match="betas"):
        Optimizer(betas=(0.9, 1.0))
    assert math.isclose(Optimizer().lr, 3e-4)


def test_an_unknown_direction_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ArgumentError, match=r"unknown optimizer 'adma' \(did you mean 'adam'\?\)"):
        directions["adma"]
