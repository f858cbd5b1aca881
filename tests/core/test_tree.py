"""A tree of arrays behaves like one long vector, and its leaves have names."""

from typing import Any, final

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as npst

from chainrule.core import tree

# Few shapes, because every new one is compiled; no subnormal numbers, because XLA may flush them to zero.
SHAPES = st.sampled_from([(), (0,), (3,), (2, 3)])
ARRAYS = npst.arrays(np.float32, SHAPES, elements=st.floats(-100, 100, width=32, allow_subnormal=False))
TREES = st.recursive(
    ARRAYS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner)
)


def flat(a: Any) -> np.ndarray:
    """The same tree as one float64 vector, by NumPy."""
    leaves = [np.asarray(leaf, dtype=np.float64).ravel() for leaf in jax.tree.leaves(a)]
    return np.concatenate([np.zeros(0), *leaves])


@given(TREES)
def test_norm_and_inner_product_are_those_of_the_vector(a: Any) -> None:
    b = jax.tree.map(lambda leaf: 0.5 * leaf + 1, a)
    np.testing.assert_allclose(tree.norm(a), np.linalg.norm(flat(a)), rtol=1e-5, atol=1e-18)
    scale = 1 + np.linalg.norm(flat(a)) * np.linalg.norm(flat(b))
    np.testing.assert_allclose(tree.dot(a, b), flat(a) @ flat(b), atol=1e-5 * scale)


@given(TREES)
def test_sums_and_scalings_are_those_of_the_vector(a: Any) -> None:
    double = tree.add(a, a)
    np.testing.assert_array_equal(flat(double), flat(tree.scale(2.0, a)))
    np.testing.assert_array_equal(flat(tree.subtract(double, a)), flat(a))
    assert jax.tree.structure(double) == jax.tree.structure(a)


@given(TREES)
def test_size_and_bytes_count_every_entry(a: Any) -> None:
    assert tree.size(a) == flat(a).size
    assert tree.nbytes(a) == 4 * flat(a).size


@given(TREES)
def test_every_leaf_has_a_name_of_its_own(a: Any) -> None:
    names = tree.names(a)
    assert len(set(names)) == len(names) == len(jax.tree.leaves(a))


def test_leaves_that_are_not_numbers_are_left_out_of_norms() -> None:
    mixed = {
        "w": jnp.array([3.0, 4.0]),
        "count": jnp.array(7),
        "f": jnp.sin,
        "key": jax.random.key(0),
        "gap": None,
    }
    assert float(tree.norm(mixed)) == 5.0
    assert float(tree.dot(mixed, mixed)) == 25.0


def test_complex_leaves_have_a_real_norm_and_a_sesquilinear_product() -> None:
    a = [jnp.array([3j, 4.0])]
    assert float(tree.norm(a)) == 5.0
    assert complex(tree.dot(a, [jnp.ones(2)])) == 4 - 3j


def test_trees_of_different_structure_do_not_mix() -> None:
    with pytest.raises(ValueError, match=r"[Dd]ict"):
        tree.add({"a": jnp.ones(2)}, {"b": jnp.ones(2)})


def test_bytes_are_counted_before_anything_is_allocated() -> None:
    shapes = jax.eval_shape(lambda: {"w": jnp.ones((1000, 1000), jnp.bfloat16), "key": jax.random.key(0)})
    assert tree.nbytes(shapes) == 2_000_000 + 8


def test_casting_changes_floating_leaves_only() -> None:
    before = {"w": jnp.ones(2), "count": jnp.arange(2), "key": jax.random.key(0), "name": "layer"}
    after = tree.cast(before, jnp.bfloat16)
    assert after["w"].dtype == jnp.bfloat16
    assert after["count"].dtype == jnp.int32
    assert after["key"].dtype == before["key"].dtype
    assert after["name"] == "layer"


@final
class Layer(eqx.Module):
    weight: jax.Array
    width: int = eqx.field(static=True)


def test_names_follow_fields_keys_and_positions() -> None:
    model = {"layers": [Layer(jnp.ones(2), 2), Layer(jnp.ones(2), 2)], "scale": (jnp.ones(()),)}
    assert tree.names(model) == ["layers.0.weight", "layers.1.weight", "scale.0"]
    assert tree.names(jnp.ones(2)) == ["value"]
    assert tree.names({}) == []


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf, -jnp.inf])
def test_the_first_leaf_that_is_not_finite_is_named(bad: float) -> None:
    good = {"a": jnp.ones(2), "b": [jnp.ones(2), jnp.arange(3)]}
    assert tree.first_nonfinite(good) is None
    assert tree.first_nonfinite({**good, "b": [jnp.array([1.0, bad]), jnp.array(bad)]}) == "b.0"


def test_arithmetic_can_be_differentiated_and_compiled() -> None:
    a = {"w": jnp.array([1.0, 2.0])}
    gradient = jax.jit(jax.grad(lambda t: tree.dot(t, t)))(a)
    np.testing.assert_array_equal(gradient["w"], [2.0, 4.0])
