"""Attention by three routes, under every kind of mask: the same numbers, the same derivatives, the known symmetries."""

import functools
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn.attention import (
    Allowed,
    Causal,
    Mask,
    PackedDocuments,
    Padding,
    Window,
    attend,
    attention_weights,
    chunked,
    fused,
)
from chainrule.nn.positions import Distance
from tests.nn.attention.draws import distance, draw

BATCH, HEADS, TIME, SIZE = 2, 4, 11, 6
BIAS = functools.partial(Distance().bias, HEADS)


compiled = jax.jit(attend)


def tensors(groups: int = HEADS) -> tuple[Any, Any, Any]:
    return (
        draw(BATCH, HEADS, TIME, SIZE),
        draw(BATCH, groups, TIME, SIZE, seed=1),
        draw(BATCH, groups, TIME, SIZE, seed=2),
    )


def masks() -> dict[str, tuple[Mask | None, np.ndarray]]:
    """Every kind of rule, and the table it means, written out."""
    i, j = np.arange(TIME)[:, None], np.arange(TIME)[None, :]
    valid = np.arange(TIME)[None, :] < np.array([[TIME], [7]])
    documents = np.array([[0] * 4 + [1] * 7, [0] * 2 + [1] * 3 + [2] * 6])
    table = np.asarray(draw(TIME, TIME)) > 0
    table[3] = False  # one that sees nothing
    everything = np.ones((BATCH, 1, TIME, TIME), bool)
    same = (documents[:, :, None] == documents[:, None, :])[:, None]
    return {
        "none": (None, everything),
        "causal": (Causal(), everything & (j <= i)),
        "window": (Window(3, 1), everything & (i - j < 3) & (j - i <= 1)),
        "padding": (Padding(jnp.asarray(valid)), everything & valid[:, None, None, :]),
        "packed": (PackedDocuments(jnp.asarray(documents)), everything & same),
        "boolean": (Allowed(jnp.asarray(table)), everything & table),
        "all at once": (
            Causal() & Window(4) & Padding(jnp.asarray(valid)) & PackedDocuments(jnp.asarray(documents)),
            (j <= i) & (i - j < 4) & valid[:, None, None, :] & same,
        ),
    }


def written_out(q: Any, k: Any, v: Any, seen: np.ndarray, extra: Any) -> np.ndarray:
    """Attention in NumPy, by the book."""
    k, v = (np.repeat(np.asarray(x), q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = np.einsum("bhqd,bhkd->bhqk", np.asarray(q), k) / np.sqrt(q.shape[-1]) + np.asarray(extra)
    powers = np.exp(scores) * seen
    total = powers.sum(axis=-1, keepdims=True)
    return np.einsum("bhqk,bhkd->bhqd", powers / np.where(total == 0, 1, total), v)


def by_path(mask: Mask | None) -> list[Any]:
    """Attention by all three paths; blocks are small enough that there are several."""
    return [
        lambda q, k, v: attend(q, k, v, mask=mask, bias=BIAS, path="plain"),
        lambda q, k, v: chunked.attend(q, k, v, mask, BIAS, SIZE**-0.5, block=4),
        lambda q, k, v: attend(q, k, v, mask=mask, bias=BIAS, path="fused"),
    ]


@pytest.mark.parametrize("name", masks())
def test_all_paths_follow_the_mask(name: str) -> None:
    mask, seen = masks()[name]
    q, k, v = tensors(groups=2)
    plain, blocks, library = jax.jit(lambda *x: [f(*x) for f in by_path(mask)])(q, k, v)
    expected = written_out(q, k, v, seen, BIAS(jnp.arange(TIME), jnp.arange(TIME))[None])
    assert distance(plain, expected) < 1e-12
    assert distance(blocks, expected) < 1e-12
    assert distance(library, expected) < 1e-6  # it computes scores in single precision


def test_all_paths_have_the_same_gradient_and_none_comes_from_a_query_that_sees_nothing() -> None:
    mask = masks()["all at once"][0]
    assert mask is not None
    mask = mask & masks()["boolean"][0]
    target = draw(BATCH, HEADS, TIME, SIZE, seed=3)

    @jax.jit
    def gradients(q: Any, k: Any, v: Any, target: Any) -> Any:
        return [jax.vjp(f, q, k, v)[1](target) for f in by_path(mask)]

    plain, blocks, library = gradients(*tensors(groups=2), target)
    assert max(distance(a, b) for a, b in zip(plain, blocks, strict=True)) < 1e-12
    assert max(distance(a, b) for a, b in zip(plain, library, strict=True)) < 2e-6
    for one in (plain, blocks, library):
        assert all(np.isfinite(x).all() for x in one)
        assert distance(one[0][:, :, 3], 0) == 0  # sees nothing
    only_blind = jnp.zeros_like(target).at[:, :, 3].set(1)
    assert all(distance(x, 0) == 0 for one in gradients(*tensors(groups=2), only_blind) for x in one)


def test_second_derivatives_through_blocks_are_those_of_the_plain_path() -> None:
    q, k, v = (x[:1, :1, :5] for x in tensors())
    plain = lambda q: (attend(q, k, v, mask=Causal(), path="plain") ** 2).sum()  # noqa: E731
    blocks = lambda q: (chunked.attend(q, k, v, Causal(), None, SIZE**-0.5, block=2) ** 2).sum()  # noqa: E731
    direction = jnp.ones_like(q)
    product = lambda f: jax.jit(lambda q: jax.jvp(jax.grad(f), (q,), (direction,))[1])(q)  # noqa: E731
    assert distance(product(plain), product(blocks)) < 1e-12


def test_weights_are_rows_over_keys_and_what_a_causal_mask_hides_lies_above_the_diagonal() -> None:
    q, k, v = tensors()
    weights, mixed = jax.jit(
        lambda q, k, v: (attention_weights(q, k, mask=Causal()), attend(q, k, v, mask=Causal()))
    )(q, k, v)
    np.testing.assert_allclose(np.asarray(weights).sum(axis=-1), 1, atol=1e-14)
    assert distance(np.triu(weights, 1), 0) == 0
    assert distance(np.asarray(weights) @ np.asarray(v), mixed) < 1e-14


def test_without_positions_and_masks_order_does_not_matter() -> None:
    q, k, v = tensors()
    order = np.random.default_rng(0).permutation(TIME)
    plain = compiled(q, k, v)
    assert distance(compiled(q, k[:, :, order], v[:, :, order]), plain) < 1e-12
    assert distance(compiled(q[:, :, order], k, v), plain[:, :, order]) < 1e-12
    assert distance(compiled(q[:, :, order], k[:, :, order], v[:, :, order]), plain[:, :, order]) < 1e-12


def test_the_sizes_of_a_decoder_that_looks_at_a_source() -> None:
    source, target = draw(2, 3), draw(3, 4)
    query, key, value = target @ draw(4, 4, seed=1), source @ draw(3, 4), source @ draw(3, 5)
    assert attention_weights(query, key).shape == (3, 2)
    assert attend(query, key, value).shape == (3, 5)
    assert (
        distance(attend(query, key, value, path="chunked"), attend(query, key, value, path="plain")) < 1e-14
    )


def test_the_scale_can_be_chosen() -> None:
    q, k, v = tensors()
    scaled = jax.jit(functools.partial(attend, scale=1.0))
    assert distance(scaled(q, k, v), compiled(q * SIZE**0.5, k, v)) < 1e-13


def test_single_precision_stays_close_and_half_precision_computes_scores_in_single() -> None:
    q, k, v = tensors()
    exact = compiled(q, k, v)
    single = [x.astype(jnp.float32) for x in (q, k, v)]
    assert distance(compiled(*single), exact) < 1e-6
    half = [x.astype(jnp.bfloat16) for x in (q, k, v)]
    assert jax.eval_shape(attend, *half).dtype == jnp.bfloat16
    assert jax.eval_shape(attention_weights, *half[:2]).dtype == jnp.float32


def test_dropped_weights_leave_the_mean_and_need_the_plain_path() -> None:
    q, k, v = tensors()
    keys = jax.random.split(jax.random.key(0), 400)
    drop = lambda key: attend(q, k, v, dropout=0.3, dropout_key=key)  # noqa: E731
    mean = jax.jit(lambda keys: jax.lax.map(drop, keys).mean(axis=0))(keys)
    assert distance(mean, compiled(q, k, v)) < 0.15
    still = jax.jit(functools.partial(attend, dropout=0.3))
    assert distance(still(q, k, v), compiled(q, k, v)) == 0
    with pytest.raises(ArgumentError, match="plain path only"):
        attend(q, k, v, dropout=0.3, dropout_key=keys[0], path="chunked")


@pytest.mark.parametrize(
    ("platform", "capability", "expected"),
    [
        ("gpu", "9.0", True),
        ("gpu", "10.0", True),
        ("gpu", "7.5", False),
        ("gpu", "gfx942", False),
        ("cpu", "", False),
    ],
)
def test_the_kernel_of_the_gpu_is_used_only_where_there_is_one(
    platform: str, capability: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = SimpleNamespace(platform=platform, compute_capability=capability)
    monkeypatch.setattr(jax, "devices", lambda: [device])
    half, odd = jnp.zeros((1, 1, 4, 8), jnp.bfloat16), jnp.zeros((1, 1, 4, 6), jnp.bfloat16)
    assert fused.fast(half, half, Causal(), None) is expected
    assert not fused.fast(half.astype(jnp.float32), half, None, None)
    assert not fused.fast(odd, odd, None, None)
    assert not fused.fast(half[..., :3, :], half[..., :3, :], None, None)
    assert not fused.fast(half, half, Window(2), None)


def test_shapes_that_do_not_belong_together_are_named() -> None:
    q, k, v = tensors()
    with pytest.raises(ArgumentError, match="11 keys but 10 values"):
        attend(q, k, v[:, :, :10])
    with pytest.raises(ArgumentError, match="4 heads of queries cannot share 3"):
        attend(q, k[:, :3], v[:, :3])
    with pytest.raises(ArgumentError, match="leading axes"):
        attend(q, k[0], v[0])
    with pytest.raises(ArgumentError, match="tells examples apart"):
        attend(q[0], k[0], v[0], mask=Padding(jnp.ones((2, TIME), bool)), path="plain")
    with pytest.raises(ArgumentError, match=r"values of size 5"):
        attend(q, k, v[..., :5], path="fused")
    with pytest.raises(ArgumentError, match="back counts the position itself"):
        Window(0)
    with pytest.raises(ArgumentError, match=r"there are \(11, 11\)"):
        attend(q, k, v, mask=Allowed(jnp.ones((3, 3), bool)))
