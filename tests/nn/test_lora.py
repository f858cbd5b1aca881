"""Low-rank adapters on trees of layers: nothing at first, counted, merged exactly, taken apart again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core import tree
from chainrule.core.errors import ArgumentError
from chainrule.nn import GRU, Conv, Linear, lora

KEY = jax.random.key(0)


def network() -> dict:
    keys = jax.random.split(KEY, 5)
    return {
        "dense": Linear(6, 4, key=keys[0]),
        "conv": Conv(2, 3, 5, 3, key=keys[1]),
        "apart": Conv(2, 4, 4, 3, groups=4, key=keys[2]),
        "rnn": GRU(3, 4, key=keys[3]),
        "stacked": jax.vmap(lambda key: Linear(4, 4, key=key))(jax.random.split(keys[4], 3)),
    }


def learnt(model: dict) -> dict:
    """With adapters that have moved."""
    return jax.tree.map(
        lambda leaf, thin: (
            leaf + 0.1 * np.arange(leaf.size).reshape(leaf.shape).astype(np.float32) if thin else leaf
        ),
        model,
        lora.marks(model),
    )


def test_adapters_add_nothing_at_first_and_rank_times_inputs_plus_outputs_numbers() -> None:
    plain = network()
    model = lora.adapted(plain, 2, key=KEY)
    for (name, before), (_, after) in zip(
        tree.named_leaves(plain), tree.named_leaves(lora.merged(model)), strict=True
    ):
        np.testing.assert_array_equal(before, after, err_msg=name)
    added = tree.size(model) - tree.size(plain)
    dense, kernel, gates, stacked = (6 + 4), (27 + 5), (3 + 12) + (4 + 12), 3 * (4 + 4)
    assert added == 2 * (dense + kernel + gates + stacked)
    assert tree.names(model["apart"]) == ["weight", "bias"]


def test_a_large_matrix_gets_few_numbers() -> None:
    layer = {"w": Linear(4096, 4096, key=KEY, initializer="zero", bias=False)}
    model = jax.eval_shape(lambda: lora.adapted(layer, 8, key=KEY))
    assert tree.size(model) - 4096**2 == 65_536


def test_a_merged_weight_is_the_weight_and_alpha_over_rank_times_the_product() -> None:
    model = learnt(lora.adapted(network(), 2, alpha=6.0, key=KEY))
    whole = lora.merged(model)
    dense = model["dense"].weight
    np.testing.assert_allclose(
        whole["dense"].weight,
        np.asarray(dense.base) + 3 * np.asarray(dense.down) @ np.asarray(dense.up),
        rtol=1e-5,
    )
    one = model["stacked"].weight
    expected = one.base[1] + 3 * np.asarray(one.down[1]) @ np.asarray(one.up[1])
    np.testing.assert_allclose(whole["stacked"].weight[1], expected, rtol=1e-5)


def test_an_adapted_convolution_is_a_narrow_one_followed_by_a_matrix() -> None:
    """The same by another route: A as a convolution to two channels, B at every pixel."""
    plain = network()["conv"]
    model = learnt(lora.adapted({"conv": plain}, 2, key=KEY))
    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 5, 5, 3)), jnp.float32)
    narrow = Conv(2, 3, 2, 3, bias=False, key=KEY)
    narrow = jax.tree.unflatten(jax.tree.structure(narrow), [model["conv"].weight.down])
    expected = plain(x) + 2 * narrow(x) @ model["conv"].weight.up
    np.testing.assert_allclose(lora.merged(model)["conv"](x), expected, rtol=1e-4, atol=1e-4)


def test_half_the_strength_is_half_of_what_was_learnt_and_none_the_very_bits() -> None:
    model = learnt(lora.adapted(network(), 2, key=KEY))
    plain, half, whole = (lora.merged(model, s)["dense"].weight for s in (0.0, 0.5, 1.0))
    np.testing.assert_array_equal(plain, network()["dense"].weight)
    np.testing.assert_allclose(half, (plain + whole) / 2, rtol=1e-6)


def test_taken_apart_again_a_model_keeps_its_adapters_and_takes_the_rest() -> None:
    model = lora.adapted(network(), 2, key=KEY)
    moved = jax.tree.map(lambda leaf: leaf + 1 if isinstance(leaf, jnp.ndarray) else leaf, lora.merged(model))
    found = lora.apart(model, moved)
    np.testing.assert_array_equal(found["dense"].weight.base, model["dense"].weight.base)
    np.testing.assert_array_equal(found["dense"].bias, model["dense"].bias + 1)


def test_layers_are_chosen_by_name_and_left_out_by_name() -> None:
    model = lora.adapted(network(), 1, key=KEY, layers=["*"], without=["rnn", "conv"])
    assert {name.split(".")[0] for name in tree.names(model) if name.endswith(".up")} == {"dense", "stacked"}


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (
            ["dens"],
            "lora.layers=dens: no dense, recurrent or convolution layer has such a name .did you mean 'dense'",
        ),
        (["apart"], "layers that can be adapted: conv, dense, rnn"),
    ],
)
def test_a_name_that_means_no_layer_is_told(layers: list[str], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        lora.adapted(network(), 1, key=KEY, layers=layers)


def test_a_model_without_layers_is_told_so() -> None:
    with pytest.raises(ArgumentError, match="no dense, recurrent or convolution layer to adapt"):
        lora.adapted({"table": jnp.ones((3, 3))}, 1, key=KEY)
