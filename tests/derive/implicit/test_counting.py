"""One factorisation for all products of all orders, counted in the program itself."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from chainrule.derive import implicit

solve = implicit.root(lambda w, q: w**3 + w - q)


def at(q: jax.Array) -> jax.Array:
    """The solution as a function of q alone."""
    return solve(jnp.zeros(2), q)


def test_a_solution_without_derivatives_needs_no_factorisation_but_newtons() -> None:
    assert implicit.count(at, jnp.ones(2)) == (0, 0, 1)


def test_a_hundred_products_in_each_mode_share_one_factorisation() -> None:
    def products(q: jax.Array) -> list[Any]:
        _, push = jax.linearize(at, q)
        pull = jax.linear_transpose(push, q)
        return [push(q) for _ in range(100)] + [pull(q) for _ in range(100)]

    assert implicit.count(products, jnp.ones(2)) == (1, 200, 1)


def test_second_derivatives_share_it_in_every_nesting(second: Callable[..., Any]) -> None:
    assert implicit.count(second(at), jnp.ones(2)).factorisations == 1


def test_third_derivatives_share_it_and_so_do_batches_and_compiled_programs() -> None:
    third = jax.jacfwd(jax.jacrev(jax.jacfwd(at)))
    assert implicit.count(third, jnp.ones(2)).factorisations == 1
    assert implicit.count(jax.jit(jax.vmap(jax.hessian(at))), jnp.ones((5, 2))).factorisations == 1


def test_a_value_with_its_gradient_and_curvature_shares_it() -> None:
    def everything(q: jax.Array) -> Any:
        def loss(q: jax.Array) -> jax.Array:
            return jnp.sum(at(q) ** 2)

        (value, slope), _ = jax.jvp(jax.value_and_grad(loss), (q,), (q,))
        return value, slope

    assert implicit.count(everything, jnp.ones(2)).factorisations == 1


def test_a_derivative_that_is_thrown_away_counts_nothing() -> None:
    """Also where it is thrown away outside of a compiled function."""
    assert implicit.count(lambda q: jax.jvp(at, (q,), (q,))[0], jnp.ones(2)) == (0, 0, 1)
    both = jax.jit(lambda q: jax.jvp(at, (q,), (q,)))
    assert implicit.count(lambda q: both(q)[0], jnp.ones(2)) == (0, 0, 1)


def test_separate_solutions_are_counted_separately() -> None:
    assert implicit.count(lambda q: (jax.jacfwd(at)(q), jax.jacfwd(at)(q)), jnp.ones(2)).factorisations == 2


def test_factorisations_in_loops_count_as_often_as_the_loop_runs() -> None:
    def loop(q: jax.Array) -> Any:
        return jax.lax.scan(
            lambda c, x: (c + jax.grad(lambda z: jnp.sum(at(z)))(x), None), q, jnp.ones((4, 2))
        )

    assert implicit.count(loop, jnp.ones(2)).factorisations == 4


def test_a_branch_counts_as_its_dearer_side() -> None:
    def either(q: jax.Array) -> Any:
        return jax.lax.cond(q[0] > 0, jax.jacfwd(at), lambda q: jnp.zeros((2, 2)), q)

    assert implicit.count(either, jnp.ones(2)).factorisations == 1


@pytest.mark.parametrize("linear", ["gmres", implicit.Neumann(2)], ids=["gmres", "neumann"])
def test_ways_without_factors_count_none(linear: Any) -> None:
    free = implicit.fixed_point(lambda x, q: jnp.cos(x) * q, "picard", linear)
    assert implicit.count(jax.grad(lambda q: free(0.5, q)), 0.5).factorisations == 0
