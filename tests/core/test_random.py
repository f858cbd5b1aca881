"""Keys depend on (seed, purpose, step) and on nothing else."""

import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Key


def bits(key: Key) -> tuple[int, ...]:
    return tuple(np.asarray(jax.random.key_data(key)).tolist())


@given(st.integers(0, 2**32 - 1), st.text(min_size=1))
def test_the_same_words_give_the_same_key(seed: int, purpose: str) -> None:
    assert bits(random.key(seed, purpose)) == bits(random.named(random.key(seed), purpose))


def test_the_key_of_a_purpose_never_changes_between_versions() -> None:
    # Runs are resumed and repeated across versions; a new value here breaks them all.
    assert bits(random.key(0, "init")) == (3020537540, 2946840664)
    assert bits(random.at(random.key(7), 12)) == (4175731086, 1265433085)


def test_seeds_purposes_and_steps_give_different_keys() -> None:
    keys = [random.key(seed, purpose) for seed in range(5) for purpose in ("", "init", "noise", "data")]
    keys += [random.at(random.key(0), step) for step in range(20)]
    assert len({bits(key) for key in keys}) == len(keys)


def test_a_step_may_be_traced() -> None:
    parent = random.key(3, "noise")
    traced = jax.jit(random.at)(parent, 5)
    assert bits(traced) == bits(random.at(parent, 5))


@pytest.mark.parametrize("seed", [-1, 2**32, 2**40])
def test_a_seed_jax_would_cut_short_is_refused(seed: int) -> None:
    with pytest.raises(ArgumentError, match=f"seed={seed}: a seed is between 0 and 4294967295"):
        random.key(seed)
