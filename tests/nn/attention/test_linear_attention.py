"""Attention by features: known numbers, three forms that agree, and how random features miss the softmax's kernel."""

import math
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn.attention import EluPlusOne, FeatureMap, RandomFeatures, attend, linear_attention
from chainrule.nn.attention.features import directions, log_features
from tests.nn.attention.draws import distance, draw

FORMS = ("quadratic", "scan", "chunked")
X, Y = jnp.array([0.5, 0.0]), jnp.array([0.25, 0.5])


def test_the_weights_of_zero_are_the_features_of_the_keys() -> None:
    keys, values = jnp.array([0.0, 1, -1]).reshape(1, 1, 3, 1), jnp.array([1.0, 2, 3]).reshape(1, 1, 3, 1)
    features, _ = EluPlusOne().of_keys(keys)
    np.testing.assert_allclose(features.reshape(-1), [1, 2, 0.367879], atol=5e-7)
    for form in FORMS:
        out = linear_attention(jnp.zeros((1, 1, 1, 1)), keys, values, form=form)
        assert float(out[0, 0, 0, 0]) == pytest.approx(1.812309, abs=5e-7)


@pytest.mark.parametrize("features", [EluPlusOne(), RandomFeatures(draws=3)], ids=["elu", "random"])
def test_all_forms_agree_in_value_and_gradient_over_several_chunks(features: FeatureMap) -> None:
    q, k, v = (draw(2, 2, 150, 4, seed=seed) for seed in range(3))
    valid = jnp.arange(150)[None, :] >= jnp.array(
        [[0], [140]]
    )  # the whole first chunk of one example is padding

    @jax.jit
    def answers(q: jax.Array, k: jax.Array, v: jax.Array) -> list:
        found = []
        for form in FORMS:
            run = lambda *x, form=form: linear_attention(  # noqa: E731
                *x, features=features, causal=True, valid=valid, form=form
            )
            out, back = jax.vjp(run, q, k, v)
            found.append([out, *back(v)])
        return found

    quadratic, scan, chunked = answers(q, k, v)
    for one in (scan, chunked):
        assert max(distance(a, b) for a, b in zip(one, quadratic, strict=True)) < 1e-12
    assert distance(chunked[0][1, :, :140], 0) == 0  # there was nothing to see


def test_without_order_sums_over_all_keys_are_enough() -> None:
    q, k, v = draw(1, 2, 5, 4), draw(1, 2, 7, 4), draw(1, 2, 7, 3)
    run = jax.jit(
        lambda form: linear_attention(q, k, v, features=RandomFeatures(draws=6), form=form), static_argnums=0
    )
    assert distance(run("chunked"), run("quadratic")) < 1e-13
    with pytest.raises(ArgumentError, match="5 queries and 7 keys"):
        linear_attention(q, k, v, causal=True)


def test_large_queries_and_keys_do_not_overflow_in_single_precision() -> None:
    q, k, v = (30 * draw(1, 1, 300, 4, seed=seed).astype(jnp.float32) for seed in range(3))
    out = jax.jit(lambda *x: linear_attention(*x, features=RandomFeatures(), causal=True))(q, k, v)
    assert np.isfinite(out).all()


def estimates(kind: str, draws: int, repeats: int, *, orthogonal: bool = False) -> np.ndarray:
    """Independent estimates of exp(x · y)."""

    @jax.jit
    def means(key: jax.Array) -> jax.Array:
        one = lambda key: directions(key, draws, 2, orthogonal=orthogonal)  # noqa: E731
        w = jax.vmap(one)(jax.random.split(key, repeats)).reshape(-1, 2)
        x, y = (jnp.exp(log_features(point, w, kind == "hyperbolic")) for point in (X, Y))
        return (x * y).reshape(-1, repeats, draws).mean(axis=(0, 2))

    return np.asarray(means(jax.random.key(7)))


def test_random_features_are_unbiased_with_the_known_variance() -> None:
    kernel = math.exp(float(X @ Y))
    assert kernel == pytest.approx(1.133148, abs=5e-7)
    apart = float(jnp.square(X + Y).sum())
    for kind, known in (("plain", 1.6096), ("hyperbolic", 0.4477)):
        found = estimates(kind, 1, 1_000_000)
        factor = (1 - math.exp(-apart)) / 2 if kind == "hyperbolic" else 1
        assert kernel**2 * (math.exp(apart) - 1) * factor == pytest.approx(known, abs=5e-5)
        assert found.mean() == pytest.approx(kernel, rel=0.005)
        assert found.var() == pytest.approx(known, rel=0.05)


def test_the_error_falls_with_the_root_of_the_draws_and_right_angles_do_not_hurt() -> None:
    kernel = math.exp(float(X @ Y))
    error = lambda found: math.sqrt(np.square(found - kernel).mean())  # noqa: E731
    few, many = (error(estimates("hyperbolic", draws, 4000)) for draws in (4, 64))
    assert few / many == pytest.approx(4, rel=0.1)
    assert error(estimates("hyperbolic", 4, 4000, orthogonal=True)) <= few * 1.02


def test_directions_at_right_angles_are_still_standard_normal() -> None:
    w = directions(jax.random.key(0), 6, 4, orthogonal=True)
    products = np.asarray(w @ w.T)
    assert distance(products[:4, :4], np.diag(np.diag(products[:4, :4]))) < 1e-12
    draw_all = jax.jit(jax.vmap(lambda key: directions(key, 4, 4, orthogonal=True)))
    many = np.asarray(draw_all(jax.random.split(jax.random.key(1), 5000))).reshape(-1, 4)
    np.testing.assert_allclose(many.T @ many / len(many), np.eye(4), atol=0.06)
    assert (many**4).mean() == pytest.approx(3, rel=0.06)


def test_many_random_features_come_close_to_softmax_attention() -> None:
    q, k, v = (0.5 * draw(1, 2, 20, 4, seed=seed) for seed in range(3))
    exact = jax.jit(attend)(q, k, v)
    found = jax.jit(lambda draws: linear_attention(q, k, v, features=RandomFeatures(draws)), static_argnums=0)
    many, few = (distance(found(draws), exact) for draws in (4096, 16))
    assert many < 0.02
    assert many < few


def test_the_number_of_draws_follows_the_size_and_makes_sense() -> None:
    assert RandomFeatures(kind="plain").count(64) == round(64 * math.log(64))
    assert RandomFeatures().count(64) == 2 * round(64 * math.log(64))
    with pytest.raises(ArgumentError, match="at least one"):
        RandomFeatures(0)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["plain", "hyperbolic"])
def test_large_keys_lose_nothing_in_single_precision(
    kind: Literal["plain", "hyperbolic"], causal: bool
) -> None:
    rng = np.random.default_rng(0)
    features, size, time = RandomFeatures(draws=8, kind=kind), 4, 9
    q, k, v = (rng.normal(size=(1, 1, time, size)) for _ in range(3))
    k[0, 0, :5] *= 40  # their features are smaller than those of the other keys by factors beyond float32
    q[0, 0, 3] *= 30
    logs = [np.asarray(features.logs(jnp.asarray(x)), np.float64)[0, 0] for x in (q, k)]
    table = np.logaddexp.reduce(logs[0][:, None] + logs[1][None], axis=-1)
    table = np.where(np.tril(np.ones((time, time), bool)) | (not causal), table, -np.inf)
    weights = np.exp(table - np.logaddexp.reduce(table, axis=-1, keepdims=True))
    expected = weights @ v[0, 0]
    single = [jnp.asarray(x, jnp.float32) for x in (q, k, v)]
    for form in ("quadratic", "scan", "chunked"):
        attend = jax.jit(
            lambda *x, form=form: linear_attention(*x, features=features, causal=causal, form=form)
        )
        found = np.asarray(attend(*single))[0, 0]
        np.testing.assert_allclose(found, expected, atol=2e-3)
    if kind == "hyperbolic" and causal:
        slope = jax.jit(
            jax.grad(lambda *x: linear_attention(*x, features=features, causal=True).sum(), argnums=(0, 1, 2))
        )
        assert all(np.isfinite(np.asarray(one)).all() for one in slope(*single))
