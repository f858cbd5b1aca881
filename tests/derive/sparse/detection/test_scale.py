"""Large sparse functions: exact counts, and memory that grows with the number of entries."""

import tracemalloc

import jax
import jax.numpy as jnp
import pytest

from chainrule.derive.sparse.detection import detect


def _brusselator(side: int):
    def f(y: jax.Array) -> jax.Array:
        u, v = y.reshape(2, side, side)

        def laplace(w: jax.Array) -> jax.Array:
            around = jnp.roll(w, 1, 0) + jnp.roll(w, -1, 0) + jnp.roll(w, 1, 1) + jnp.roll(w, -1, 1)
            return around - 4 * w

        return jnp.stack([1 + u**2 * v - 4 * u + laplace(u), 3 * u - u**2 * v + laplace(v)]).reshape(-1)

    return f


@pytest.mark.parametrize("side", [3, 32, 100])
def test_the_brusselator_has_six_entries_in_every_row(side: int) -> None:
    found = detect(_brusselator(side), jnp.ones(2 * side * side))
    assert found.nnz == 12 * side * side
    assert (found.indptr[1:] - found.indptr[:-1] == 6).all()


def test_memory_grows_with_the_number_of_entries() -> None:
    peaks = []
    for side in (60, 120):
        x = jnp.ones(2 * side * side)
        f = _brusselator(side)
        detect(f, x)
        tracemalloc.start()
        detect(f, x)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 5 * peaks[0]


def test_a_long_chain_has_three_entries_in_every_row_of_its_hessian() -> None:
    size = 20_000
    found = detect(lambda x: jnp.sum((x[1:] - x[:-1] ** 2) ** 2), jnp.ones(size), of="hessian")
    assert found.nnz == 3 * size - 2


def test_a_broadcast_sum_is_held_once_until_it_is_needed() -> None:
    size = 50_000
    found = detect(lambda x: jnp.sum(x - jnp.mean(x)), jnp.ones(size))
    assert found.nnz == size
