"""The softmax over what may be seen, and the table it makes of keys and values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn.attention import lookup, softmax
from tests.nn.attention.draws import distance, draw


def test_entries_are_positive_and_sum_to_one_and_a_constant_changes_nothing() -> None:
    x = draw(4, 7)
    p = softmax(x)
    assert float(p.min()) > 0
    np.testing.assert_allclose(p.sum(axis=-1), 1, atol=1e-14)
    assert distance(softmax(x + 1e4), p) < 1e-11
    assert distance(softmax(x, axis=0), softmax(x.T).T) < 1e-15


def test_large_factors_give_the_maximum_and_ties_share_evenly() -> None:
    assert distance(softmax(1e5 * jnp.array([0.3, 0.9, 0.1])), [0, 1, 0]) == 0
    assert distance(softmax(1e5 * jnp.array([0.9, 0.9, 0.1])), [0.5, 0.5, 0]) == 0


def test_its_jacobian_is_diag_p_minus_p_p() -> None:
    x = draw(5)
    p = softmax(x)
    expected = jnp.diag(p) - jnp.outer(p, p)
    assert distance(jax.jit(jax.jacfwd(softmax))(x), expected) < 1e-15
    assert distance(jax.jit(jax.jacrev(softmax))(x), expected) < 1e-15


def test_what_may_not_be_seen_has_no_weight_and_no_derivative() -> None:
    x, where = draw(5), jnp.array([True, False, True, True, False])
    p = softmax(x, where=where)
    assert distance(p[where], softmax(x[where])) < 1e-15
    assert distance(p[~where], 0) == 0
    jacobian = jax.jacrev(lambda x: softmax(x, where=where))(x)
    assert distance(jacobian[:, ~where], 0) == 0


def test_a_row_that_sees_nothing_is_zero_and_so_are_its_derivatives_of_both_orders() -> None:
    x, where = draw(2, 3), jnp.array([[False] * 3, [True] * 3])
    f = lambda x: (softmax(x, where=where)[0] ** 2).sum()  # noqa: E731
    assert distance(softmax(x, where=where)[0], 0) == 0
    assert distance(jax.jit(jax.grad(f))(x), 0) == 0
    assert distance(jax.jit(jax.hessian(f))(x), 0) == 0


def test_a_linear_table_of_basis_keys_adds_up_what_is_asked_for() -> None:
    keys, values = jnp.eye(6), draw(6, 2)
    found = lookup(keys[3] + 2 * keys[5], keys, values, kind="linear")
    assert distance(found, values[3] + 2 * values[5]) < 1e-15


def test_a_softmax_table_comes_close_to_the_value_of_a_strong_query() -> None:
    keys = jnp.eye(5)
    weights = lookup(10 * keys[3], keys, jnp.eye(5))
    assert float(weights[3]) == pytest.approx(0.9998184, abs=1e-7)


def test_a_table_with_more_keys_than_values_is_refused_with_both_numbers() -> None:
    with pytest.raises(ArgumentError, match="5 keys but 4 values"):
        lookup(draw(5), jnp.eye(5), draw(4, 2))
