"""Positions: known values, and the property each kind is chosen for."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn.positions import Distance, Learned, Rotary, sinusoids, slopes_of


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def at(*positions: int) -> jax.Array:
    return jnp.array(positions)


def test_sines_and_cosines_have_the_known_values() -> None:
    np.testing.assert_allclose(sinusoids(at(1), 4)[0], [0.841471, 0.540302, 0.0099998, 0.999950], atol=5e-7)
    table = sinusoids(jnp.arange(20), 8)
    np.testing.assert_allclose((table**2).sum(axis=1), 4, atol=1e-14)
    assert float(table[3] @ table[5]) == pytest.approx(2.563718, abs=5e-7)
    assert float(table[10] @ table[12]) == pytest.approx(2.563718, abs=5e-7)


def test_a_width_that_is_odd_has_no_pairs() -> None:
    with pytest.raises(ArgumentError, match="must be even"):
        sinusoids(at(0), 5)
    with pytest.raises(ArgumentError, match="in pairs"):
        Rotary().turned(jnp.ones((1, 3)), at(0))


def test_interleaved_rotation_has_the_known_values() -> None:
    turned = Rotary(layout="interleaved").turned(jnp.array([[1.0, 0, 1, 0]]), at(1))
    np.testing.assert_allclose(turned[0], [0.540302, 0.841471, 0.999950, 0.0099998], atol=5e-7)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotated_products_depend_on_the_distance_alone(layout: str) -> None:
    rotary = Rotary(layout=layout)
    q, k = np.random.default_rng(0).normal(size=(2, 1, 16))

    def product(m: int, n: int) -> float:
        return float(rotary.turned(jnp.asarray(q), at(m))[0] @ rotary.turned(jnp.asarray(k), at(n))[0])

    assert product(5, 2) == pytest.approx(product(105, 102), abs=1e-12)
    assert abs(product(5, 2) - product(5, 3)) > 1e-3
    assert product(7, 7) == pytest.approx(float(q[0] @ k[0]), abs=1e-12)


def test_the_two_layouts_are_one_rotation_up_to_the_order_of_entries() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 8)))
    order = np.arange(8).reshape(2, 4).T.reshape(-1)  # 0 4 1 5 ...
    half = Rotary().turned(x, at(0, 3, 9))
    interleaved = Rotary(layout="interleaved").turned(x[:, order], at(0, 3, 9))
    np.testing.assert_allclose(half[:, order], interleaved, atol=1e-14)


def test_two_bases_in_one_program_do_not_share_their_angles() -> None:
    x = jnp.ones((1, 8))
    near, far = (Rotary(base).turned(x, at(7)) for base in (100.0, 10000.0))
    assert float(jnp.abs(near - far).max()) > 0.1


def test_rotation_keeps_lengths_and_works_far_out_in_single_precision() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 8)), jnp.float32)
    turned = Rotary().turned(x, at(0, 10, 1000, 100_000))
    assert turned.dtype == jnp.float32
    np.testing.assert_allclose(jnp.linalg.norm(turned, axis=1), jnp.linalg.norm(x, axis=1), rtol=1e-5)


def test_rates_of_heads_fall_geometrically_also_when_they_are_no_power_of_two() -> None:
    assert slopes_of(4) == [2**-2, 2**-4, 2**-6, 2**-8]
    assert slopes_of(6) == [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]
    assert slopes_of(1) == [2**-8]
    bias = Distance().bias(2, at(4), at(1, 4))
    np.testing.assert_allclose(bias[:, 0], [[-3 / 16, 0], [-3 / 256, 0]])


def test_learned_positions_end_where_their_table_ends() -> None:
    table = Learned(6, 3, key=jax.random.key(0))
    np.testing.assert_array_equal(table(2, 3), table.weight[3:5])
    np.testing.assert_array_equal(jax.jit(lambda offset: table(2, offset))(jnp.array(3)), table.weight[3:5])
    for length, offset in ((7, 0), (2, 5)):
        with pytest.raises(ArgumentError, match="a table of 6"):
            table(length, offset)
