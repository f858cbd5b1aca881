"""Values that NumPy moves for the suite arrive as they do in a compiled program."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

GIVEN = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)


def moved(x: jax.Array, row: jax.Array) -> dict[str, Any]:
    return {
        "copy": jnp.array(x),
        "reshape": x.reshape(6, 4),
        "squeeze": x[:1].squeeze(0),
        "new axis": x[..., None],
        "transpose": jnp.transpose(x, (2, 0, 1)),
        "slice": x[:, ::2, 1:],
        "row by number": x[1],
        "row by array": jax.lax.dynamic_index_in_dim(x, row),
        "beyond the end": jax.lax.dynamic_slice(x, (row, row + 7, row - 9), (1, 2, 2)),
        "concatenate": jnp.concatenate([x, 2 * x], axis=1),
        "broadcast": jnp.broadcast_to(x[0], (5, 3, 4)),
        "nothing": x[:0],
        "half as wide": x.astype(jnp.bfloat16).reshape(-1),
        "truth": (x > 0).reshape(-1),
        "zeros": jnp.zeros((3, 2)),
        "full": jnp.full((2,), jnp.nan),
        "numbers": jnp.arange(5),
        "numbers of a type": jnp.arange(5.0, dtype=jnp.bfloat16),
        "identity": jnp.eye(3),
        "list": jnp.array([1, 2]),
        "array of NumPy": jnp.asarray(np.arange(3)),
        "scalar": jnp.asarray(2.0)[None],
        "keys": jax.random.key_data(jax.random.split(jax.random.key(0), 3).reshape(3, 1)[0]),
    }


@pytest.mark.parametrize("wide", [False, True])
def test_moved_values_are_those_of_a_compiled_program(wide: bool) -> None:
    with jax.enable_x64(wide):
        x, row = jnp.asarray(GIVEN), jnp.asarray(1)
        expected = jax.jit(moved)(x, row)
        for name, found in moved(x, row).items():
            assert (found.dtype, found.weak_type) == (expected[name].dtype, expected[name].weak_type), name
            np.testing.assert_array_equal(found, expected[name], err_msg=name)


def test_what_was_copied_is_free_to_change_and_to_be_given_away() -> None:
    given = np.zeros(64, np.float32)
    first, second = jnp.asarray(given), jnp.array(given)
    given[:] = 1
    assert not first.any()
    assert not second.any()
    copy, row = jnp.array(first), first.reshape(8, 8)[0]
    moved = jax.jit(lambda x: x + 1, donate_argnums=0)(first)
    assert first.is_deleted()
    assert moved.all()
    assert not copy.any()
    assert not row.any()
