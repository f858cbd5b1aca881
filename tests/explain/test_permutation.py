"""Permutations: sets are not noticed, entrywise maps follow, positions and order break the symmetry."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.explain import experiments
from chainrule.explain.methods.permutation import permutation_equivariance, permutation_invariance
from chainrule.nn.attention import SelfAttention

X = jnp.asarray(np.random.default_rng(0).normal(size=(2, 6, 8)), jnp.float32)


def test_attention_without_positions_follows_any_order_and_its_mean_does_not_notice() -> None:
    layer = jax.jit(lambda x: SelfAttention(8, heads=2, key=jax.random.key(0))(x))
    assert permutation_equivariance(layer, X).max() < 1e-5
    assert permutation_invariance(lambda x: layer(x).mean(axis=1), X).max() < 1e-5
    assert permutation_invariance(layer, X).min() > 0.1


def test_running_sums_depend_on_order() -> None:
    assert permutation_equivariance(lambda x: jnp.cumsum(x, axis=1), X).min() > 0.1


def test_one_answer_for_the_whole_sequence_has_no_order() -> None:
    with pytest.raises(ArgumentError, match="use permutation_invariance"):
        permutation_equivariance(lambda x: x.sum(axis=1), X)


def test_only_positions_and_masks_make_order_matter() -> None:
    numbers = experiments.run("permutation", width=8, length=6, repeats=2).numbers
    for name, found in numbers.items():
        assert (found["equivariance"] < 1e-4) == (name in ("attention", "block")), name
