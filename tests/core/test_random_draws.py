import equinox as eqx
import jax
import numpy as np
import pytest

from chainrule.core import random

KEY = jax.random.key(5)
SHAPES = [(), (1,), (7,), (3, 5), (3, 3, 4, 8), (4097,), (0, 3)]


@pytest.mark.parametrize("shape", SHAPES)
def test_draws_of_similar_size_share_a_program_and_keep_their_bits(shape: tuple[int, ...]) -> None:
    scale = 1 / 3
    for ours, theirs in (
        (random.normal(KEY, shape), jax.random.normal(KEY, shape)),
        (random.normal(KEY, shape, scale), scale * jax.random.normal(KEY, shape)),
        (
            random.uniform(KEY, shape, -scale, scale),
            jax.random.uniform(KEY, shape, minval=-scale, maxval=scale),
        ),
    ):
        assert ours.shape == shape
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_draws_can_be_recorded() -> None:
    found = eqx.filter_jit(lambda key: random.normal(key, (3, 2), 0.5))(KEY)
    np.testing.assert_allclose(found, random.normal(KEY, (3, 2), 0.5), rtol=1e-6)
    assert jax.eval_shape(lambda: random.uniform(KEY, (3, 2))).shape == (3, 2)
    assert jax.vmap(lambda key: random.normal(key, (4,)))(jax.random.split(KEY, 3)).shape == (3, 4)
