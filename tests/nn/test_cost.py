"""The cost model: its formula, known parameter counts, and what XLA counts for a block that was really built."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from chainrule.core import tree
from chainrule.core.errors import ArgumentError
from chainrule.nn import TransformerBlock
from chainrule.nn.attention import Softmax
from chainrule.nn.cost import TransformerSizes, cost


def test_known_models_have_their_known_parameters() -> None:
    assert cost(TransformerSizes(12, 768, 12, 1024, 50257)).parameters == 124_439_808
    assert cost(TransformerSizes(4, 128, 4, 64, 65, bias=False)).parameters == 804_096
    assert cost(TransformerSizes(6, 384, 6, 256, 65, bias=False)).parameters == 10_745_088


def test_a_layer_takes_twelve_n_d_d_and_two_n_n_d_multiply_adds() -> None:
    n, d, layers, vocabulary = 96, 64, 3, 50
    found = cost(TransformerSizes(layers, d, 4, n, vocabulary)).multiply_adds
    assert sum(found.values()) == layers * (12 * n * d**2 + 2 * n**2 * d) + n * d * vocabulary


def test_the_quadratic_part_overtakes_at_six_times_the_width() -> None:
    sizes = TransformerSizes(2, 64, 4, 1024, 65)
    for time, sign in ((6 * 64 - 1, -1), (6 * 64 + 1, 1)):
        found = dict(cost(sizes, time).multiply_adds)
        found.pop("logits")
        quadratic = found.pop("scores and means")
        assert (quadratic - sum(found.values())) * sign > 0


def test_groups_shrink_the_cache() -> None:
    assert cost(TransformerSizes(2, 64, 8, 100, 65)).cache == 2 * 2 * 100 * 64
    assert cost(TransformerSizes(2, 64, 8, 100, 65, groups=2)).cache == 2 * 2 * 100 * 16


@pytest.mark.parametrize("gated", [False, True])
def test_xla_counts_what_the_formula_says(gated: bool) -> None:
    n, d = 128, 128
    options = {"activation": "swiglu", "hidden": 2 * d, "groups": 2} if gated else {}
    plain = Softmax(path="plain")  # XLA counts only the operations that it compiles itself
    block = TransformerBlock(
        d, heads=4, causal=True, bias=not gated, mixing=plain, key=jax.random.key(0), **options
    )
    sizes = TransformerSizes(
        1,
        d,
        4,
        n,
        0,
        groups=2 if gated else None,
        hidden=2 * d if gated else None,
        gated=gated,
        bias=not gated,
    )
    expected = cost(sizes)
    counted = eqx.filter_jit(block).lower(jnp.zeros((n, d))).compile().compiled.cost_analysis()["flops"]
    assert counted == pytest.approx(expected.flops, rel=0.02)
    tables = d * (1 + (not gated)) + n * d  # the last norm and the positions are no part of a block
    assert tree.size(block) == expected.parameters - tables


def test_the_summary_can_be_read() -> None:
    text = str(cost(TransformerSizes(12, 768, 12, 1024, 50257)))
    assert "124,439,808" in text
    assert "18,874,368 numbers, 72.0 MiB" in text
    with pytest.raises(ArgumentError, match="do not divide evenly"):
        TransformerSizes(1, 64, 5, 10, 10)
