"""The embedding is a lookup, and backwards the product with the same table."""

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.nn import Embedding, LayerNorm


def test_a_lookup_is_the_product_with_one_hot_vectors() -> None:
    table = Embedding(7, 4, key=jax.random.key(0))
    index = jnp.array([[3, 1], [6, 3]])
    np.testing.assert_allclose(table(index), jax.nn.one_hot(index, 7) @ table.weight, rtol=1e-6)


def test_the_gradient_of_a_shared_table_is_the_sum_of_the_two_untied_gradients() -> None:
    table, index = Embedding(7, 4, key=jax.random.key(0)), jnp.array([3, 1, 6, 3])

    def loss(inward: Embedding, outward: Embedding) -> jax.Array:
        return jnp.square(outward.logits(jnp.tanh(inward(index)))).sum()

    tied = jax.grad(lambda table: loss(table, table))(table)
    inward, outward = jax.grad(loss, argnums=(0, 1))(table, table)
    np.testing.assert_allclose(tied.weight, inward.weight + outward.weight, rtol=1e-5)


def test_layer_normalisation_without_bias_has_one_array_and_no_shift() -> None:
    x = jax.random.normal(jax.random.key(1), (3, 8))
    plain, shifted = LayerNorm(8, bias=False), LayerNorm(8)
    assert len(jax.tree.leaves(plain)) == 1
    np.testing.assert_array_equal(plain(x), shifted(x))
