"""Many products through one solution: one matrix, one factorisation, one solve with many right-hand sides."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.derive import implicit
from chainrule.derive.implicit.linear import unit_vectors

N, MANY = 5, 7
DRAW = np.random.default_rng(0)
M, U, Q = 4 * np.eye(N) + DRAW.normal(size=(N, N)), DRAW.normal(size=(N, 2)), DRAW.normal(size=N)


@jax.jit
def inner(x: Any) -> Any:
    return jnp.sin(x) @ M


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "matrix times vector": lambda x: M @ x + jnp.tanh(x),
    "vector times matrix": lambda x: x @ M - x,
    "einsum with three axes": lambda x: jnp.einsum("aib,i->ab", np.stack([M, M + 1]), x).ravel()[:N],
    "matrix alone": lambda x: M @ x,
    "identity": lambda x: x + 1.0,
    "constant": lambda x: jnp.ones(N),
    "two layers": lambda x: U @ jnp.tanh(U.T @ x),
    "inside a compiled function": lambda x: inner(x) * x,
    "inner product": lambda x: x * (x @ x),
    "loop": lambda x: jax.lax.fori_loop(0, 3, lambda _, z: jnp.cos(M @ z), x),
    "slices": lambda x: jnp.concatenate([x[2:] * x[0], M[:2] @ x]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_products_with_all_unit_vectors_are_the_transposed_jacobian(name: str) -> None:
    f = FUNCTIONS[name]

    @jax.jit
    def both(x: Any) -> Any:
        return unit_vectors.products(jax.linearize(f, x)[1], x), jax.jacfwd(f)(x)

    found, wanted = both(Q)
    np.testing.assert_allclose(found, wanted.T, rtol=1e-12, atol=1e-14)


def test_a_matrix_is_taken_as_it_is_and_not_multiplied_by_the_identity() -> None:
    form = lambda x: unit_vectors.products(jax.linearize(FUNCTIONS["matrix times vector"], x)[1], x)  # noqa: E731
    shapes = [
        tuple(atom.aval.shape for atom in equation.invars)
        for equation in jax.make_jaxpr(form)(Q).eqns
        if equation.primitive.name == "dot_general"
    ]
    assert all((N, N) not in (a, b) or (N,) in (a, b) for a, b in shapes)


def _calls(text: str, name: str) -> list[str]:
    """Shapes of the results of calls of LAPACK."""
    return re.findall(rf"= \(?(f64\[[\d,]*\]).*?custom_call_target=\"lapack_d{name}", text)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("linear", ["lu", "cholesky"])
def test_a_batch_of_products_is_one_factorisation_and_one_solve_of_a_matrix(mode: str, linear: str) -> None:
    S = M @ M.T
    solve = implicit.root(lambda w, q: S @ w + w**3 - q, linear=linear, solver=lambda _f, w0, *_: w0)
    w = np.linalg.solve(S, Q)
    q = S @ w + w**3

    def products(q: Any, v: Any) -> Any:
        _, push = jax.linearize(lambda q: solve(w, q), q)
        if mode == "forward":
            return jax.vmap(push)(v)
        return jax.vmap(lambda u: jax.linear_transpose(push, q)(u)[0])(v)

    V = DRAW.normal(size=(MANY, N))
    assert implicit.count(products, q, V)[:2] == (1, 1)
    compiled = jax.jit(products).lower(q, V).compile()
    factor = {"lu": "getrf", "cholesky": "potrf"}[linear]
    assert _calls(compiled.as_text(), factor) == [f"f64[{N},{N}]"]
    substitutions = [shape for shape in _calls(compiled.as_text(), "trsm") if str(MANY) in shape]
    assert substitutions == [f"f64[{N},{MANY}]"] * 2
    exact = np.linalg.solve(S + np.diag(3 * w**2), V.T).T
    np.testing.assert_allclose(compiled(q, V), exact, rtol=1e-10)
