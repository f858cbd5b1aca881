"""Linear programs: solutions, derivatives of both modes and of second order, smoothing, other solvers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental.sparse import BCOO
from scipy.optimize import linprog

from chainrule.derive.implicit.optimization.linear import conditions, linear_program
from chainrule.derive.implicit.optimization.results import Status
from tests.derive.implicit.optimization.problems import A, M, N, b, c, nondegenerate
from tests.tiers import tiers

MODES = {"forward": jax.jacfwd, "reverse": jax.jacrev}


def parts(c: Any, A: Any, b: Any, **options: Any) -> dict[str, jax.Array]:
    solution = linear_program(c, A, b, **options)
    return {"x": solution.x, "y": solution.y, "value": solution.value}


DERIVATIVES = {name: mode(parts, argnums=(0, 1, 2)) for name, mode in MODES.items()}


def test_the_textbook_program_is_solved_to_the_last_digits() -> None:
    solution = linear_program(c, A, b)
    np.testing.assert_allclose(solution.x, [2, 6, 2, 0, 0], atol=1e-13)
    np.testing.assert_allclose(solution.y, [0, -1.5, -1], atol=1e-13)
    np.testing.assert_allclose(solution.s, [0, 0, 0, 1.5, 1], atol=1e-13)
    np.testing.assert_allclose(solution.value, -36, rtol=1e-14)
    stats = solution.stats
    assert (int(stats.status), bool(stats.polished)) == (Status.SOLVED, True)
    assert int(stats.factorisations) == int(stats.steps) + 1
    assert stats.active.tolist() == [False, False, False, True, True]


def test_the_determinant_of_the_conditions_is_the_product_over_the_vertex() -> None:
    def residual(w: jax.Array, c: Any, A: Any, b: Any) -> jax.Array:
        return jnp.concatenate(conditions((w[:N], w[N:]), c, A, b))

    determinant = jax.jit(lambda w, *data: jnp.linalg.det(jax.jacfwd(residual)(w, *data)))
    textbook = linear_program(c, A, b)
    assert abs(determinant(jnp.concatenate([textbook.x, textbook.y]), c, A, b)) == pytest.approx(
        1296, rel=1e-12
    )
    for seed in range(3):
        known = nondegenerate(seed)
        found = determinant(np.concatenate([known.x, known.y]), known.c, known.A, known.b)
        base = np.linalg.det(known.A[:, known.basis]) ** 2
        expected = base * known.x[known.x > 0].prod() * known.s[known.s > 0].prod()
        assert abs(found) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("mode", MODES)
def test_derivatives_of_the_textbook_program_are_those_of_the_textbook(mode: str) -> None:
    by_c, by_A, by_b = (
        {name: found[name][k] for name in found} for found in [DERIVATIVES[mode](c, A, b)] for k in range(3)
    )
    inverse = np.array([[0, -1 / 3, 1 / 3], [0, 1 / 2, 0], [1, 1 / 3, -1 / 3]])
    np.testing.assert_allclose(by_b["x"], np.vstack([inverse, np.zeros((2, 3))]), atol=1e-12)
    np.testing.assert_allclose(by_c["x"], np.zeros((5, 5)), atol=1e-12)
    np.testing.assert_allclose(by_b["y"], np.zeros((3, 3)), atol=1e-12)
    np.testing.assert_allclose(by_c["y"], np.hstack([inverse.T, np.zeros((3, 2))]), atol=1e-12)
    np.testing.assert_allclose(by_b["value"], [0, -1.5, -1], atol=1e-12)
    np.testing.assert_allclose(by_c["value"], [2, 6, 2, 0, 0], atol=1e-12)
    np.testing.assert_allclose(by_A["value"], [[0, 0, 0, 0, 0], [3, 9, 3, 0, 0], [2, 6, 2, 0, 0]], atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_agree_with_the_closed_forms_of_their_vertex(seed: int) -> None:
    known = nondegenerate(seed)
    solution = linear_program(known.c, known.A, known.b)
    np.testing.assert_allclose(solution.x, known.x, atol=1e-11)
    np.testing.assert_allclose(solution.y, known.y, atol=1e-11)
    np.testing.assert_allclose(solution.s, known.s, atol=1e-11)
    inverse = np.zeros((N, M))
    inverse[known.basis] = np.linalg.inv(known.A[:, known.basis])
    size = 1 + np.abs(inverse).max() ** 2
    for derivatives in DERIVATIVES.values():
        found = derivatives(known.c, known.A, known.b)
        expected = {
            "x": (np.zeros((N, N)), -np.einsum("im,n->imn", inverse, known.x), inverse),
            # y solves A_B'y = c_B, so it moves with the columns of the basis alone.
            "y": (inverse.T, -np.einsum("j,nm->mjn", known.y, inverse), np.zeros((M, M))),
            "value": (known.x, -np.outer(known.y, known.x), known.y),
        }
        for name in expected:
            for one, other in zip(found[name], expected[name], strict=True):
                np.testing.assert_allclose(one, other, atol=1e-11 * size)


def test_the_value_moves_as_differences_of_highs_say() -> None:
    data = (c, A, b)
    gradient = tuple(np.asarray(part) for part in DERIVATIVES["reverse"](*data)["value"])
    rng = np.random.default_rng(0)
    step = 1e-6
    for k in range(3):
        direction = rng.normal(size=data[k].shape)
        values = []
        for sign in (1, -1):
            moved = [*data]
            moved[k] = data[k] + sign * step * direction
            values.append(linprog(moved[0], A_eq=moved[1], b_eq=moved[2], method="highs").fun)
        assert (values[0] - values[1]) / (2 * step) == pytest.approx(
            (gradient[k] * direction).sum(), rel=1e-7
        )


def test_a_batch_of_programs_is_what_each_of_them_is() -> None:
    known = [nondegenerate(seed) for seed in range(4)]
    stacked = [np.stack([getattr(one, name) for one in known]) for name in ("c", "A", "b")]

    def value(c: jax.Array, A: jax.Array, b: jax.Array) -> tuple[jax.Array, Any]:
        solution = linear_program(c, A, b)
        return solution.value, solution

    gradient, batch = jax.jit(jax.vmap(jax.grad(value, argnums=2, has_aux=True)))(*stacked)
    np.testing.assert_allclose(batch.x, [one.x for one in known], atol=1e-11)
    assert batch.stats.status.tolist() == [0] * 4
    np.testing.assert_allclose(gradient, [one.y for one in known], atol=1e-11)


NESTINGS: dict[str, Callable[[Any], Any]] = {
    "forward over forward": lambda f: jax.jacfwd(jax.jacfwd(f)),
    "forward over reverse": lambda f: jax.jacfwd(jax.jacrev(f)),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(f)),
    "reverse over reverse": lambda f: jax.jacrev(jax.jacrev(f)),
}


@pytest.mark.parametrize("nesting", tiers(NESTINGS, slow=["forward over forward", "reverse over forward"]))
def test_second_derivatives_of_a_vertex_agree_with_its_closed_form_in_every_nesting(nesting: str) -> None:
    weights = jnp.arange(1.0, 6.0)
    basis = np.array([0, 1, 2])

    def by_program(t: jax.Array) -> jax.Array:
        matrix = jnp.asarray(A).at[0, 0].add(t[0]).at[2, 1].add(t[1])
        return weights @ linear_program(c, matrix, b + t[2]).x

    def by_basis(t: jax.Array) -> jax.Array:
        matrix = jnp.asarray(A).at[0, 0].add(t[0]).at[2, 1].add(t[1])
        return weights[basis] @ jnp.linalg.solve(matrix[:, basis], b + t[2])

    t = jnp.array([0.1, -0.2, 0.3])
    found = NESTINGS[nesting](by_program)(t)
    np.testing.assert_allclose(found, jax.jit(jax.hessian(by_basis))(t), atol=1e-11)


def smooth(data: tuple[Any, Any, Any, Any]) -> jax.Array:
    *program, mu = data
    return linear_program(*program, mu=mu).x


def test_smoothed_programs_keep_every_product_at_mu_and_move_with_the_costs() -> None:
    for mu in (10.0, 1.0, 1e-3, 1e-6):
        found = linear_program(c, A, b, mu=mu)
        np.testing.assert_allclose(found.x * found.s, np.full(N, mu), rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(A @ found.x, b, atol=1e-12)
    sensitivity = jax.jacrev(lambda c, mu: linear_program(c, A, b, mu=mu).x)
    sizes = [float(jnp.abs(sensitivity(c, mu)).max()) for mu in (1e-1, 1e-2, 1e-3)]
    assert sizes[0] > 5 * sizes[1] > 25 * sizes[2] > 0


def test_derivatives_of_smoothed_programs_agree_with_differences() -> None:
    data = tuple(jnp.asarray(part) for part in (c, A, b, 0.5))
    value, push = jax.linearize(smooth, data)
    _, pull = jax.vjp(smooth, data)
    rng = np.random.default_rng(1)
    direction = tuple(rng.normal(size=part.shape) * (0.1 if part.ndim == 0 else 1.0) for part in data)
    step = 1e-5
    ahead, behind = (
        smooth(tuple(part + sign * step * change for part, change in zip(data, direction, strict=True)))
        for sign in (1, -1)
    )
    forward = push(direction)
    np.testing.assert_allclose(forward, (ahead - behind) / (2 * step), atol=1e-8)
    weights = rng.normal(size=value.shape)
    (back,) = pull(jnp.asarray(weights))
    through = sum((one * change).sum() for one, change in zip(back, direction, strict=True))
    assert float(through) == pytest.approx(float(weights @ forward), rel=1e-10)


def test_other_solvers_give_the_same_solution_and_derivatives() -> None:
    def elsewhere(c: jax.Array, A: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
        basis = np.array([0, 1, 2])
        x = jnp.zeros(N).at[basis].set(jnp.linalg.solve(A[:, basis], b))
        return x, jnp.linalg.solve(A[:, basis].T, c[basis])

    own = DERIVATIVES["reverse"](c, A, b)["x"][2]
    for solver in ("highs", elsewhere):
        solution = linear_program(c, A, b, solver=solver)
        np.testing.assert_allclose(solution.x, [2, 6, 2, 0, 0], atol=1e-13)
        found = jax.jacrev(lambda b, solver=solver: linear_program(c, A, b, solver=solver).x)(b)
        np.testing.assert_allclose(found, own, atol=1e-12)


def test_highs_solves_batches_one_after_the_other() -> None:
    shifts = jnp.array([0.0, 1.0])
    values = jax.vmap(lambda shift: linear_program(c, A, b + shift, solver="highs").value)(shifts)
    np.testing.assert_allclose(values, [-36.0, -38.5], rtol=1e-12)


def test_sparse_matrices_are_solved_and_differentiated_without_being_filled() -> None:
    matrix = scipy.sparse.csr_array(A)
    solution = linear_program(c, matrix, b, solver="highs")
    np.testing.assert_allclose(solution.x, [2, 6, 2, 0, 0], atol=1e-13)
    expected = DERIVATIVES["reverse"](c, A, b)
    for mode in MODES.values():
        found = mode(lambda c, b: linear_program(c, matrix, b, solver="highs").y, argnums=(0, 1))(c, b)
        np.testing.assert_allclose(found[0], expected["y"][0], atol=1e-12)
        np.testing.assert_allclose(found[1], expected["y"][2], atol=1e-12)
    indices = np.argwhere(A)[::-1].copy()  # any order will do

    def value(entries: jax.Array) -> jax.Array:
        return linear_program(c, BCOO((entries, indices), shape=A.shape), b, solver="highs").value

    gradient = jax.grad(value)(jnp.asarray(A[tuple(indices.T)]))
    np.testing.assert_allclose(gradient, expected["value"][1][tuple(indices.T)], atol=1e-12)


def test_units_do_not_matter() -> None:
    rows, cost = np.array([1e-5, 1e4, 1.0]), 1e6
    solution = linear_program(cost * c, rows[:, None] * A, rows * b)
    assert bool(solution.stats.polished)
    np.testing.assert_allclose(solution.x, [2, 6, 2, 0, 0], rtol=1e-12)
    np.testing.assert_allclose(solution.y * rows / cost, [0, -1.5, -1], atol=1e-12)


def test_single_precision_gives_about_six_digits() -> None:
    with jax.enable_x64(False):
        solution = linear_program(c, A, b)
        assert solution.x.dtype == jnp.float32
        np.testing.assert_allclose(solution.x, [2, 6, 2, 0, 0], atol=1e-5)
        found = jax.jacrev(lambda b: linear_program(c, A, b).x)(jnp.asarray(b))
        np.testing.assert_allclose(found[1], [0, 0.5, 0], atol=1e-5)
