"""Multi-head attention and whole encoder and decoder layers against PyTorch, weights copied, in double precision."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.nn.attention import Allowed, CrossAttention, Padding, TransformerBlock
from tests.nn.attention.draws import distance, draw, randomised

WIDTH, HEADS, TIME, SOURCE = 8, 2, 5, 4
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def torch(oracle: Callable[[str], ModuleType]) -> ModuleType:
    return oracle("torch")


def copied(torch: ModuleType, theirs: Any, ours: dict[str, Any]) -> Any:
    """Their module with our weights in it, under their names."""
    weights = {name: torch.tensor(np.asarray(value)) for name, value in ours.items()}
    module = theirs.double().eval()
    module.load_state_dict(weights)
    return module


def linear(prefix: str, layer: Any) -> dict[str, Any]:
    return {f"{prefix}weight": layer.weight.T, f"{prefix}bias": layer.bias}


def norm(prefix: str, layer: Any) -> dict[str, Any]:
    return {f"{prefix}.weight": layer.scale, f"{prefix}.bias": layer.shift}


def of_block(one: TransformerBlock, last: str) -> dict[str, Any]:
    return (
        linear("self_attn.in_proj_", one.attention.inward)
        | linear("self_attn.out_proj.", one.attention.outward)
        | linear("linear1.", one.widen)
        | linear("linear2.", one.narrow)
        | norm("norm1", one.first_norm)
        | norm(last, one.second_norm)
    )


def of_cross(prefix: str, layer: CrossAttention) -> dict[str, Any]:
    joined = {
        "in_proj_weight": jnp.concatenate([layer.query.weight, layer.inward.weight], axis=1).T,
        "in_proj_bias": jnp.concatenate([layer.query.bias, layer.inward.bias]),
    }
    return {prefix + name: value for name, value in (joined | linear("out_proj.", layer.outward)).items()}


@pytest.mark.parametrize("norm_at", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_layer_with_a_mask_and_padding(norm_at: str, activation: str, torch: ModuleType) -> None:
    one = randomised(
        TransformerBlock(WIDTH, heads=HEADS, norm_at=norm_at, activation=activation, hidden=12, key=KEY)
    )
    layer = torch.nn.TransformerEncoderLayer(
        WIDTH, HEADS, 12, 0.0, activation=activation, batch_first=True, norm_first=norm_at == "pre"
    )
    theirs = copied(torch, layer, of_block(one, "norm2"))
    x = draw(2, TIME, WIDTH)
    allowed, valid = np.asarray(draw(TIME, TIME)) > -0.5, np.ones((2, TIME), bool)
    allowed[:, 0] = True
    valid[1, 3:] = False
    out = eqx.filter_jit(one)(x, mask=Allowed(jnp.asarray(allowed)) & Padding(jnp.asarray(valid)))
    expected = theirs(
        torch.tensor(np.asarray(x)),
        src_mask=torch.tensor(~allowed),
        src_key_padding_mask=torch.tensor(~valid),
    )
    assert distance(out, expected.detach().numpy()) < 1e-12


@pytest.mark.parametrize("norm_at", ["pre", "post"])
def test_a_decoder_layer(norm_at: str, torch: ModuleType) -> None:
    one = randomised(
        TransformerBlock(
            WIDTH,
            heads=HEADS,
            causal=True,
            cross=WIDTH,
            norm_at=norm_at,
            activation="relu",
            hidden=12,
            key=KEY,
        )
    )
    layer = torch.nn.TransformerDecoderLayer(
        WIDTH, HEADS, 12, 0.0, activation="relu", batch_first=True, norm_first=norm_at == "pre"
    )
    assert one.cross is not None
    weights = of_block(one, "norm3") | norm("norm2", one.cross_norm) | of_cross("multihead_attn.", one.cross)
    theirs = copied(torch, layer, weights)
    x, source = draw(2, TIME, WIDTH), draw(2, SOURCE, WIDTH, seed=1)
    valid = np.ones((2, SOURCE), bool)
    valid[0, 2:] = False
    memory = one.remember(source, mask=Padding(jnp.asarray(valid)))
    expected = theirs(
        torch.tensor(np.asarray(x)),
        torch.tensor(np.asarray(source)),
        tgt_mask=torch.nn.Transformer.generate_square_subsequent_mask(TIME).double(),
        memory_key_padding_mask=torch.tensor(~valid),
    )
    assert distance(eqx.filter_jit(one)(x, memory=memory), expected.detach().numpy()) < 1e-12
    advance = eqx.filter_jit(one.advance)
    first, cache = advance(x[:, :3], one.cache(batch=2, room=TIME), memory=memory)
    rest, _ = advance(x[:, 3:], cache, memory=memory)
    assert distance(np.concatenate([first, rest], axis=1), expected.detach().numpy()) < 1e-12


def test_attention_to_a_source_of_another_width_and_its_weights(torch: ModuleType) -> None:
    ours = randomised(CrossAttention(WIDTH, source=3, heads=HEADS, key=KEY))
    keys, values = jnp.split(ours.inward.weight, 2, axis=1)
    weights = {
        "q_proj_weight": ours.query.weight.T,
        "k_proj_weight": keys.T,
        "v_proj_weight": values.T,
        "in_proj_bias": jnp.concatenate([ours.query.bias, ours.inward.bias]),
        **linear("out_proj.", ours.outward),
    }
    layer = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, kdim=3, vdim=3)
    theirs = copied(torch, layer, weights)
    x, source = draw(2, TIME, WIDTH), draw(2, SOURCE, 3)
    s = torch.tensor(np.asarray(source))
    expected, table = theirs(torch.tensor(np.asarray(x)), s, s, average_attn_weights=False)
    memory = ours.remember(source)
    assert distance(eqx.filter_jit(ours)(x, memory), expected.detach().numpy()) < 1e-12
    assert distance(eqx.filter_jit(ours.weights)(x, memory), table.detach().numpy()) < 1e-12
