"""The block and its cache: one token at a time gives what the whole sequence gives, for every kind of block."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core import tree
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.nn.attention import (
    Allowed,
    CrossAttention,
    EluPlusOne,
    FeatureMixing,
    KeysAndValues,
    Padding,
    RandomFeatures,
    SelfAttention,
    TransformerBlock,
)
from chainrule.nn.positions import Distance, Rotary
from tests.nn.attention.draws import distance, draw, randomised

KEY = jax.random.key(0)
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "modern": {
        "positions": Rotary(),
        "groups": 2,
        "norm": "rms",
        "activation": "swiglu",
        "bias": False,
        "window": 3,
    },
    "original": {"norm_at": "post", "activation": "relu", "positions": Distance()},
    "linear": {"mixing": FeatureMixing(EluPlusOne()), "groups": 2},
    "random features": {"mixing": FeatureMixing(RandomFeatures(draws=5)), "positions": Rotary()},
}


def block(causal: bool = True, **options: Any) -> TransformerBlock:
    found: TransformerBlock = randomised(TransformerBlock(8, heads=4, causal=causal, key=KEY, **options))
    return found


call = eqx.filter_jit(lambda one, x, **options: one(x, **options))
advance = eqx.filter_jit(TransformerBlock.advance)


def in_pieces(one: TransformerBlock, x: jax.Array, cache: Any, pieces: list[int]) -> np.ndarray:
    """The outputs of a block that reads so many tokens at a time."""
    out, at = [], 0
    for count in pieces:
        part, cache = advance(one, x[:, at : at + count], cache)
        out.append(part)
        at += count
    assert int(cache.position) == at == x.shape[1]
    return np.concatenate(out, axis=1)


@pytest.mark.parametrize("kind", KINDS)
def test_reading_in_pieces_is_reading_at_once(kind: str) -> None:
    one, x = block(**KINDS[kind]), draw(2, 9, 8)
    whole = call(one, x)
    assert distance(in_pieces(one, x, one.cache(batch=2, room=12), [4, 1, 4]), whole) < 1e-12
    single = jax.tree.map(lambda a: a.astype(jnp.float32) if eqx.is_inexact_array(a) else a, one)
    cache = single.cache(batch=2, room=12)
    assert distance(in_pieces(single, x.astype(jnp.float32), cache, [4, 1, 4]), whole) < 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_a_causal_block_never_looks_ahead(kind: str) -> None:
    one, x = block(**KINDS[kind]), draw(1, 5, 8)
    derivative = eqx.filter_jit(lambda one, x: jax.jacrev(one)(x))
    jacobian = np.asarray(derivative(one, x))[0, :, :, 0]
    for t in range(4):
        assert distance(jacobian[t, :, t + 1 :], 0) == 0
        assert np.abs(jacobian[t, :, max(0, t - 1)]).max() > 0


@pytest.mark.parametrize("pieces", [[1] * 9, [3, 1, 5], [9]])
def test_a_rolling_cache_is_attention_through_a_window(pieces: list[int]) -> None:
    one, windowed = (block(positions=Rotary(), window=window) for window in (None, 4))
    x = draw(2, 9, 8)
    cache = one.cache(batch=2, room=4, rolling=True)
    assert distance(in_pieces(one, x, cache, pieces), call(windowed, x)) < 1e-12


def test_rows_of_a_cache_can_be_repeated_and_a_cache_can_go_back() -> None:
    one, x = block(), draw(3, 6, 8)
    whole = call(one, x)
    _, cache = advance(one, x[:, :4], one.cache(batch=3, room=6))
    rows = jnp.array([2, 0, 2])
    forked, _ = advance(one, x[rows][:, 4:], cache.fork(rows))
    assert distance(forked, whole[rows][:, 4:]) < 1e-12
    _, further = advance(one, draw(3, 2, 8, seed=9), cache)
    back, _ = advance(one, x[:, 4:], further.rewind(4))
    assert distance(back, whole[:, 4:]) < 1e-12


def test_what_a_cache_cannot_do_is_said() -> None:
    one, linear = block(), block(**KINDS["linear"])
    x = draw(1, 4, 8)
    _, cache = advance(one, x, one.cache(batch=1, room=5))
    with pytest.raises(ArgumentError, match="room for 5 tokens holds 4; 4 more"):
        one.advance(x, cache)
    with pytest.raises(CapabilityError, match="overwritten"):
        one.cache(batch=1, room=5, rolling=True).rewind(0)
    with pytest.raises(CapabilityError, match="cannot forget"):
        linear.cache(batch=1, room=5).rewind(0)
    with pytest.raises(CapabilityError, match="cannot roll"):
        linear.cache(batch=1, room=5, rolling=True)
    with pytest.raises(ArgumentError, match="must not see what comes after"):
        block(causal=False).cache(batch=1, room=5)
    with pytest.raises(ArgumentError, match="cannot follow Allowed"):
        linear(x, mask=Allowed(jnp.ones((4, 4), bool)))


def test_padding_on_the_left_changes_nothing_for_what_follows() -> None:
    x, valid = draw(2, 8, 8), jnp.array([[False, False, True, True], [True] * 4])
    for kind in ("modern", "linear"):
        one = block(**KINDS[kind])
        out, cache = advance(one, x[:, :4], one.cache(batch=2, room=8), mask=Padding(valid))
        after, _ = advance(one, x[:, 4:], cache, mask=Padding(valid))
        short = call(one, x[:1, 2:])
        assert distance(np.concatenate([out[:1, 2:], after[:1]], axis=1), short) < 1e-12
        assert distance(np.asarray(call(one, x, mask=Padding(valid)))[:1, 2:], short) < 1e-12


def test_the_state_of_linear_attention_never_grows() -> None:
    one = block(**KINDS["linear"])
    small, large = one.cache(batch=1, room=10), one.cache(batch=1, room=100_000)
    assert tree.size(small) == tree.size(large)
    assert tree.size(block().cache(batch=1, room=100)) > tree.size(block().cache(batch=1, room=10))


def test_groups_share_keys_so_the_cache_is_smaller() -> None:
    cache = block(groups=2).cache(batch=1, room=7)
    assert isinstance(cache, KeysAndValues)
    assert cache.keys.shape == (1, 2, 7, 2)
    assert cache.room == 7


def test_weights_of_a_layer_are_those_it_mixes_by() -> None:
    for kind in KINDS:
        layer = block(**KINDS[kind]).attention
        weights = eqx.filter_jit(SelfAttention.weights)(layer, draw(2, 5, 8))
        assert weights.shape == (2, 4, 5, 5)
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-12)
        assert distance(np.triu(weights, 1), 0) == 0


def test_leading_axes_may_be_any() -> None:
    one, x = block(), draw(2, 3, 5, 8)
    whole = call(one, x)
    assert distance(whole[1], call(one, x[1])) < 1e-13
    assert distance(whole[0, 0], call(one, x[0, 0])) < 1e-13


def test_dropout_needs_a_key_and_is_off_without() -> None:
    still, one = block(), block(dropout=0.5)
    x = draw(2, 4, 8)
    without = call(still, x)
    assert distance(call(one, x), without) == 0
    first, second, again = (call(one, x, dropout_key=jax.random.key(seed)) for seed in (1, 2, 1))
    assert distance(first, without) > 0.1
    assert distance(first, second) > 0.1
    assert distance(first, again) == 0


def test_weights_start_small_and_smaller_where_they_write_into_the_sum() -> None:
    one = TransformerBlock(64, heads=4, layers=8, key=KEY)
    for layer, expected in (
        (one.attention.inward, 0.02),
        (one.widen, 0.02),
        (one.attention.outward, 0.005),
        (one.narrow, 0.005),
    ):
        assert float(layer.weight.std()) == pytest.approx(expected, rel=0.05)
        assert layer.bias is not None
        assert distance(layer.bias, 0) == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 12 * 48**2 + 13 * 48),
        ({"bias": False}, 12 * 48**2 + 2 * 48),
        ({"bias": False, "activation": "swiglu", "norm": "rms"}, 4 * 48**2 + 3 * 48 * 128 + 2 * 48),
        ({"cross": 10}, 12 * 48**2 + 13 * 48 + 2 * 48**2 + 2 * 48 + 10 * 96 + 96 + 2 * 48),
    ],
)
def test_parameters_are_counted(options: dict[str, Any], expected: int) -> None:
    assert tree.size(TransformerBlock(48, heads=4, key=KEY, **options)) == expected


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ArgumentError, match="mix examples"):
        block(norm="batch")
    with pytest.raises(ArgumentError, match='norm must be "layer" or "rms"'):
        block(norm="group")
    with pytest.raises(ArgumentError, match="a width of 8 cannot be split evenly"):
        SelfAttention(8, heads=3, key=KEY)
    with pytest.raises(ArgumentError, match="a width of 8 cannot be split evenly"):
        CrossAttention(8, heads=3, key=KEY)
    with pytest.raises(ArgumentError, match="4 heads cannot share evenly"):
        SelfAttention(8, heads=4, groups=3, key=KEY)
    with pytest.raises(ArgumentError, match="made without cross"):
        block().remember(draw(1, 2, 8))
    with pytest.raises(ArgumentError, match="needs a memory"):
        block(cross=8)(draw(1, 2, 8))
