"""Recomputation: what a reverse pass computes again is neither merged nor moved forward by the compiler."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.recomputation import hold, recomputed

WEIGHT = np.linspace(-0.5, 0.5, 64, dtype="f").reshape(8, 8)
X = np.linspace(-1.0, 1.0, 4000, dtype="f").reshape(500, 8)


def layer(x: Any, weight: Any = WEIGHT) -> Any:
    for _ in range(3):
        x = jnp.tanh(x @ weight) * jnp.sin(x)
    return x


def scratch(f: Any) -> int:
    found: Any = jax.jit(jax.grad(lambda x: f(x).sum())).lower(X).compile().memory_analysis()
    return int(found.temp_size_in_bytes)


def layers(f: Any, x: Any) -> Any:
    for _ in range(5):
        x = f(x)
    return x


def test_layers_computed_again_need_less_memory_where_the_barriers_of_jax_are_dropped() -> None:
    plain, again = scratch(lambda x: layers(layer, x)), scratch(lambda x: layers(recomputed(layer), x))
    assert again < 0.5 * plain


def test_a_policy_decides_what_is_stored() -> None:
    policies = jax.checkpoint_policies
    nothing, dots = (
        scratch(lambda x, p=p: layers(recomputed(layer, p), x))
        for p in (policies.nothing_saveable, policies.dots_saveable)
    )
    assert nothing < dots


def test_within_a_loop_arguments_are_stored_once() -> None:
    def looped(f: Any, x: Any) -> Any:
        return jax.lax.scan(lambda c, _: (f(c), None), x, None, length=8)[0]

    ours, jaxs = (
        scratch(lambda x: looped(recomputed(layer), x)),
        scratch(lambda x: looped(jax.checkpoint(layer), x)),
    )
    assert ours <= jaxs + 4 * X.nbytes


def test_only_what_moves_gets_a_cotangent() -> None:
    def f(weight: Any, x: Any, times: int) -> Any:
        return {"y": layer(x, weight) * times, "times": times + 1, "nothing": None}

    def loss(weight: Any, g: Any) -> Any:
        return g(weight, X[:4], times=2)["y"].sum()

    ours, plain = jax.jit(lambda w: [jax.grad(loss)(w, g) for g in (recomputed(f), f)])(WEIGHT)
    np.testing.assert_allclose(ours, plain, rtol=1e-5, atol=1e-6)
    program = jax.make_jaxpr(jax.grad(lambda w: loss(w, recomputed(f))))(WEIGHT)
    (pull,) = [one for one in program.eqns if one.primitive.name == "recomputed_pull"]
    assert [one.aval.shape for one in pull.outvars] == [(8, 8)]


@pytest.mark.parametrize("batched", [False, True])
def test_held_values_are_those_of_the_function_random_keys_too(batched: bool) -> None:
    def f(key: Any, x: Any) -> list[Any]:
        first, second = jax.random.split(key)
        return [first, x + jax.random.normal(second, x.shape), x, jnp.float32(3)]

    def held(key: Any, x: Any) -> list[Any]:
        return hold(f, [x], key, x)

    key, x = jax.random.key(1), X[:2]
    over = jax.vmap if batched else lambda f: f
    if batched:
        key, x = jax.random.split(key, 3), X[:6].reshape(3, 2, 8)
    ours, plain = jax.jit(lambda k, x: [over(g)(k, x) for g in (held, f)])(key, x)
    assert (jax.random.key_data(ours[0]) == jax.random.key_data(plain[0])).all()
    for a, b in zip(ours[1:], plain[1:], strict=True):
        np.testing.assert_array_equal(a, b)


def test_nan_and_empty_seeds_do_not_change_what_is_computed() -> None:
    held = jax.jit(lambda after, x: hold(lambda x: [2 * x], [after], x)[0])
    np.testing.assert_array_equal(held(np.full(3, np.nan, "f"), X[:1]), 2 * X[:1])
    np.testing.assert_array_equal(held(np.zeros((0, 2), "f"), X[:1]), 2 * X[:1])
