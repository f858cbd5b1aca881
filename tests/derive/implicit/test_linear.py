"""Every way of solving with the Jacobian gives the derivatives of dense LU, at any order, from one factorisation."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.derive import implicit
from chainrule.derive.implicit import linear
from chainrule.derive.sparse import Pattern
from tests.tiers import tiers

N = 6


def chain(w: jax.Array, q: jax.Array) -> jax.Array:
    """A tridiagonal Jacobian that is not symmetric and depends on w and q."""
    left = jnp.concatenate([jnp.zeros(1, w.dtype), w[:-1]])
    right = jnp.concatenate([w[1:], jnp.zeros(1, w.dtype)])
    return 4 * w + q * w**3 - 2 * left - right - 1


def energy(w: jax.Array, q: jax.Array) -> jax.Array:
    """A strictly convex function with a tridiagonal Hessian."""
    return jnp.sum(jnp.cosh(w - q)) + jnp.sum(jnp.diff(w) ** 2)


def jacobi(r: jax.Array, w: jax.Array, q: jax.Array) -> jax.Array:
    """The inverse of the diagonal of the chain's Jacobian."""
    return r / (4 + 3 * q * w**2)


WAYS: dict[str, Any] = {
    "banded": "banded",
    "banded, given": implicit.Banded(1, 1),
    "banded, wider": implicit.Banded(lower=3),
    "sparse": "sparse",
    "sparse, given": implicit.Sparse(Pattern(*np.nonzero(np.tri(N, k=1) - np.tri(N, k=-2)), (N, N))),
    "gmres, preconditioned": implicit.Krylov("gmres", restart=2, preconditioner=jacobi),
    "bicgstab": implicit.Krylov("bicgstab", rtol=1e-14),
    "least squares": linear.LeastSquares(),
}
CONVEX = ("cholesky", "sparse", "cg")


def known(w: jax.Array) -> Callable[..., Any]:
    """A solver that knows the answer, so that nothing but the derivative is compiled."""
    return lambda _f, _w0, *_params: w


@pytest.fixture(scope="module")
def expected() -> Any:
    """By differentiating twelve steps of Newton's method."""

    def unrolled(q: jax.Array) -> jax.Array:
        w = jnp.zeros(N)
        for _ in range(12):
            w = w - jnp.linalg.solve(jax.jacfwd(chain)(w, q), chain(w, q))
        return w

    q = jnp.linspace(0.5, 1.5, N)
    return jax.jit(lambda q: (unrolled(q), jax.jacfwd(unrolled)(q), jax.jacfwd(jax.jacfwd(unrolled))(q)))(q)


@pytest.mark.parametrize(
    "way", tiers(["lu", *WAYS], slow=["banded, wider", "gmres, preconditioned", "sparse, given"])
)
def test_first_derivatives_equal_those_of_an_unrolled_solver(way: str, expected: Any) -> None:
    solve = implicit.root(chain, known(expected[0]), WAYS.get(way, way))

    def both_modes(q: jax.Array) -> tuple[jax.Array, jax.Array]:
        _, push = jax.linearize(lambda q: solve(jnp.zeros(N), q), q)
        pull = jax.linear_transpose(push, q)
        return jax.vmap(push, out_axes=1)(jnp.eye(N)), jax.vmap(lambda u: pull(u)[0])(jnp.eye(N))

    for found in jax.jit(both_modes)(jnp.linspace(0.5, 1.5, N)):
        np.testing.assert_allclose(found, expected[1], rtol=1e-11, atol=1e-12)


def test_second_derivatives_by_a_banded_factor_are_the_same_in_every_nesting(
    second: Callable[..., Any], expected: Any
) -> None:
    solve = implicit.root(chain, known(expected[0]), "banded")
    found = jax.jit(second(lambda q: solve(jnp.zeros(N), q)))(jnp.linspace(0.5, 1.5, N))
    np.testing.assert_allclose(found, expected[2], rtol=1e-11, atol=1e-12)


def test_second_derivatives_by_a_sparse_factor_are_the_same(expected: Any) -> None:
    solve = implicit.root(chain, known(expected[0]), "sparse")
    found = jax.jit(jax.jacrev(jax.jacrev(lambda q: solve(jnp.zeros(N), q))))(jnp.linspace(0.5, 1.5, N))
    np.testing.assert_allclose(found, expected[2], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("way", ["banded", "sparse", "gmres"])
def test_newtons_method_uses_the_same_way(way: str, expected: Any) -> None:
    found = implicit.root(chain, linear=way)(jnp.zeros(N), jnp.linspace(0.5, 1.5, N))
    np.testing.assert_allclose(found, expected[0], rtol=1e-12)


@pytest.fixture(scope="module")
def lowest() -> jax.Array:
    """The minimiser of the energy."""
    return implicit.minimum(energy, "newton")(jnp.zeros(N), jnp.linspace(-1, 1, N))


@pytest.mark.parametrize("way", CONVEX)
def test_minimisers_may_use_the_same_ways(way: str, lowest: jax.Array) -> None:
    q = jnp.linspace(-1, 1, N)
    found = jax.jit(jax.jacrev(implicit.minimum(energy, known(lowest), way), argnums=1))(jnp.zeros(N), q)
    hessian = jax.jit(jax.hessian(energy))(lowest, q)
    bends = np.cosh(np.asarray(lowest) - np.asarray(q))
    np.testing.assert_allclose(found, np.linalg.solve(hessian, np.diag(bends)), atol=1e-10)


@pytest.mark.parametrize("way", ["banded", "sparse"])
def test_a_batch_of_problems_equals_the_problems_one_by_one(way: str) -> None:
    gradient = jax.jit(jax.grad(lambda q: jnp.sum(implicit.root(chain, linear=way)(jnp.zeros(N), q) ** 2)))
    batch = np.stack([np.linspace(0.5, 1.5, N), np.linspace(2, 1, N)])
    for q, found in zip(batch, jax.vmap(gradient)(batch), strict=True):
        np.testing.assert_allclose(found, gradient(q), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("way", ["banded", "sparse"])
def test_factors_on_the_host_work_in_single_precision(way: str, expected: Any) -> None:
    with jax.enable_x64(False):
        solve = implicit.root(chain, known(jnp.asarray(expected[0], jnp.float32)), way)
        found = jax.jit(jax.jacrev(solve, argnums=1))(jnp.zeros(N), jnp.linspace(0.5, 1.5, N))
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, expected[1], atol=2e-6)


@pytest.mark.parametrize("way", ["lu", "banded"])
def test_derivatives_may_inherit_the_factor_of_newtons_last_step(way: str, expected: Any) -> None:
    solve = implicit.root(chain, implicit.Newton(inherit=True), way)
    q = jnp.linspace(0.5, 1.5, N)
    both = jax.jit(lambda q: (jax.jacrev(solve, 1)(jnp.zeros(N), q), jax.hessian(solve, 1)(jnp.zeros(N), q)))
    for found, wanted in zip(both(q), expected[1:], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)
    assert implicit.count(jax.hessian(solve, 1), jnp.zeros(N), q).factorisations == 0


def test_a_first_guess_that_is_the_solution_still_has_a_factor_to_hand_on() -> None:
    solve = implicit.root(lambda w, a: w**2 - a, implicit.Newton(inherit=True))
    assert jax.grad(solve, argnums=1)(2.0, 4.0) == 0.25
    stats = solve.details(2.0, 4.0).stats
    assert int(stats.steps) == int(stats.factorisations) == 1


def test_many_solves_with_one_host_factor_are_one_call() -> None:
    solve = implicit.root(chain, linear="sparse")
    program = jax.jacrev(lambda q: solve(jnp.zeros(N), q))
    assert implicit.count(program, jnp.ones(N)).solves == 1


def test_a_sparse_factor_that_was_dropped_is_made_again() -> None:
    from chainrule.derive.implicit.linear import sparse

    solve = implicit.root(chain, linear="sparse")
    q = jnp.linspace(0.5, 1.5, N)
    value, push = jax.linearize(lambda q: solve(jnp.zeros(N), q), q)
    before = push(q)
    sparse._factors.clear()
    np.testing.assert_array_equal(push(q), before)
    assert value.shape == (N,)


def test_the_band_is_found_from_the_program_whatever_the_parameters_are() -> None:
    """A parameter that happens to be zero must not hide a diagonal."""

    def coupled(w: jax.Array, strength: jax.Array) -> jax.Array:
        return 3 * w + strength * jnp.roll(w, 2).at[:2].set(0) - 1

    solve = implicit.root(coupled, linear="banded")
    slope = jax.jit(jax.jacrev(solve, argnums=1))
    slopes = [np.asarray(slope(np.zeros(N), s)) for s in (0.0, 0.5)]
    dense = jax.jit(jax.jacrev(implicit.root(coupled), argnums=1))(np.zeros(N), 0.5)
    np.testing.assert_allclose(slopes[1], dense, rtol=1e-12)
    assert np.any(slopes[0] != 0)


def test_a_large_banded_problem_needs_memory_in_proportion_to_its_size() -> None:
    def scratch(n: int) -> int:
        solve = implicit.root(chain, linear="banded")
        gradient = jax.grad(lambda q: jnp.sum(solve(jnp.zeros(n), q) ** 2))
        product = jax.jit(lambda q: jax.jvp(gradient, (q,), (q,))[1])
        found = product.lower(jnp.ones(n)).compile().memory_analysis()
        assert found is not None
        return int(found.temp_size_in_bytes)

    small, large = scratch(1_000), scratch(100_000)
    assert large < 150 * small
    assert large < 100_000 * 1_000  # a dense Jacobian alone would take eight hundred times that


@pytest.mark.parametrize("terms", [0, 1, 4])
def test_the_neumann_series_errs_by_what_it_leaves_out(terms: int) -> None:
    matrix = 0.3 * np.array([[1.0, 0.5], [-0.5, 0.8]])

    def g(x: jax.Array, q: jax.Array) -> jax.Array:
        return matrix @ x + q

    solve = implicit.fixed_point(
        g, lambda _g, _x, q: jnp.linalg.solve(np.eye(2) - matrix, q), implicit.Neumann(terms)
    )
    both = jax.jit(lambda *at: [mode(solve, argnums=1)(*at) for mode in (jax.jacfwd, jax.jacrev)])
    series = sum(np.linalg.matrix_power(matrix, k) for k in range(terms + 1))
    for found in both(np.zeros(2), np.ones(2)):
        np.testing.assert_allclose(found, series, rtol=1e-12)


def test_large_fixed_points_are_solved_without_a_matrix() -> None:
    solve = implicit.fixed_point(lambda x, q: 0.5 * jnp.cos(x) * q)
    small, large = (
        implicit.count(jax.grad(lambda q, n=n: jnp.sum(solve(jnp.zeros(n), q))), 1.0) for n in (2, 3000)
    )
    assert (small.factorisations, large.factorisations) == (1, 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: implicit.Krylov("gmers"), "did you mean 'gmres'"),
        (lambda: implicit.Krylov(restart=0), "at least one step"),
        (lambda: implicit.Neumann(-1), "not negative"),
        (lambda: implicit.root(chain, linear=implicit.Banded(-1, 1))(jnp.zeros(N), 1.0), "not negative"),
        (
            lambda: implicit.root(chain, linear=implicit.Sparse(Pattern([0], [0], (2, 2))))(
                jnp.zeros(N), 1.0
            ),
            "shape (2, 2), A has shape (6, 6)",
        ),
    ],
)
def test_bad_settings_are_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize("method", ["gmres", "bicgstab", "cg"])
def test_iterations_serve_tiny_right_hand_sides_as_well(method: str) -> None:
    matrix = np.diag(np.arange(1.0, 7.0)) + 0.1
    solve = implicit.root(
        lambda w, q: matrix @ w - q,
        solver=lambda _f, _w, q: jnp.linalg.solve(matrix, q),
        linear=implicit.Krylov(method, restart=2),
    )
    pull = jax.jit(jax.vjp(lambda q: solve(jnp.zeros(6), q), jnp.ones(6))[1])
    np.testing.assert_allclose(pull(1e-20 * jnp.ones(6))[0], 1e-20 * pull(jnp.ones(6))[0], rtol=1e-9)
