"""Quadratic programs: projections, solutions against linear algebra, derivatives in all data, second order."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.derive.implicit.optimization.linear import linear_program
from chainrule.derive.implicit.optimization.quadratic import conditions, quadratic_program
from tests.derive.implicit.optimization import problems
from tests.derive.implicit.optimization.problems import Quadratic, quadratic

NAMES = ("P", "q", "A", "b", "G", "h")


def onto_simplex(point: Any) -> jax.Array:
    return quadratic_program(np.eye(3), -point, np.ones((1, 3)), [1.0], -np.eye(3), np.zeros(3)).x


def test_projection_onto_the_simplex_and_its_jacobian() -> None:
    point = jnp.array([0.5, 0.3, -1.0])
    np.testing.assert_allclose(onto_simplex(point), [0.6, 0.4, 0], atol=1e-13)
    expected = [[0.5, -0.5, 0], [-0.5, 0.5, 0], [0, 0, 0]]
    np.testing.assert_allclose(jax.jacfwd(onto_simplex)(point), expected, atol=1e-12)
    np.testing.assert_allclose(jax.jacrev(onto_simplex)(point), expected, atol=1e-12)


def test_projection_onto_a_box_clips_and_lets_through_what_is_inside() -> None:
    walls, limits = np.vstack([np.eye(3), -np.eye(3)]), np.ones(6)

    def onto_box(point: jax.Array) -> jax.Array:
        return quadratic_program(np.eye(3), -point, G=walls, h=limits).x

    point = np.array([2.0, -0.3, -1.5])
    found, pull = jax.vjp(onto_box, point)
    np.testing.assert_allclose(found, np.clip(point, -1, 1), atol=1e-13)
    np.testing.assert_allclose(jax.vmap(pull)(np.eye(3))[0], np.diag([0.0, 1.0, 0.0]), atol=1e-12)


@pytest.mark.slow
def test_projection_onto_a_polygon_with_many_sides_is_nearly_that_onto_a_disc() -> None:
    angles = (np.arange(64) + 0.5) * (2 * np.pi / 64)
    sides = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    point = np.array([1.1, 2.0])
    found = quadratic_program(np.eye(2), -point, G=sides, h=np.ones(64)).x
    np.testing.assert_allclose(found, point / np.linalg.norm(point), atol=0.06)
    assert (sides @ np.asarray(found)).max() == pytest.approx(1.0, abs=1e-13)


def by_active_set(program: Quadratic, active: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The solution from one dense solve, given which inequalities hold with equality."""
    rows = np.vstack([program.A, program.G[active]])
    k, n = rows.shape
    matrix = np.block([[program.P, rows.T], [rows, np.zeros((k, k))]])
    right = np.concatenate([-program.q, program.b, program.h[active]])
    found = np.linalg.solve(matrix, right)
    z = np.zeros(len(program.h))
    z[active] = found[n + len(program.b) :]
    return found[:n], found[n : n + len(program.b)], z


SEEDS = (0, 1, 4)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_satisfy_the_conditions_and_agree_with_their_active_set(seed: int) -> None:
    program = quadratic(seed)
    found = quadratic_program(*program)
    active = np.asarray(found.stats.active)
    assert 0 < active.sum() < len(active)
    x, y, z = by_active_set(program, active)
    np.testing.assert_allclose(found.x, x, atol=1e-12)
    np.testing.assert_allclose(found.y, y, atol=1e-11)
    np.testing.assert_allclose(found.z, z, atol=1e-11)
    assert found.z.min() >= 0
    for part in conditions((found.x, found.y, found.z), *(jnp.asarray(one) for one in program)):
        np.testing.assert_allclose(part, np.zeros(part.shape), atol=1e-11)
    assert float(found.value) == pytest.approx(0.5 * x @ program.P @ x + program.q @ x, rel=1e-12)


def parts(data: Any) -> dict[str, jax.Array]:
    solution = quadratic_program(*data)
    return {"x": solution.x, "y": solution.y, "z": solution.z, "value": solution.value}


@jax.jit
def pushed(data: Any, direction: Any) -> dict[str, jax.Array]:
    return jax.jvp(parts, (data,), (direction,))[1]


@jax.jit
def pulled(data: Any, weights: Any) -> Any:
    return jax.vjp(parts, data)[1](weights)[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_derivatives_in_all_data_agree_with_differences_in_both_modes(seed: int) -> None:
    data = tuple(quadratic(seed))
    rng = np.random.default_rng(seed)
    weights = {name: rng.normal(size=part.shape) for name, part in jax.eval_shape(parts, data).items()}
    back = jax.tree.map(np.asarray, pulled(data, weights))
    step = 1e-6
    for k, name in enumerate(NAMES):
        direction = tuple(rng.normal(size=one.shape) * (index == k) for index, one in enumerate(data))
        ahead, behind = (
            parts(tuple(one + sign * step * change for one, change in zip(data, direction, strict=True)))
            for sign in (1, -1)
        )
        forward = jax.tree.map(np.asarray, pushed(data, direction))
        for part in forward:
            expected = (np.asarray(ahead[part]) - np.asarray(behind[part])) / (2 * step)
            np.testing.assert_allclose(
                forward[part], expected, atol=2e-7, rtol=1e-6, err_msg=f"{part} in {name}"
            )
        through = sum(np.vdot(weights[part], forward[part]) for part in forward)
        assert float(np.vdot(back[k], direction[k])) == pytest.approx(float(through), rel=1e-9, abs=1e-10)


def test_the_value_moves_with_its_multipliers() -> None:
    data = tuple(quadratic(0))
    solution = quadratic_program(*data)
    x, y, z = (np.asarray(part) for part in (solution.x, solution.y, solution.z))
    only_value = {"x": np.zeros(4), "y": np.zeros(1), "z": np.zeros(5), "value": np.ones(())}
    gradient = pulled(data, only_value)
    np.testing.assert_allclose(gradient[0], 0.5 * np.outer(x, x), atol=1e-11)
    np.testing.assert_allclose(gradient[1], x, atol=1e-11)
    np.testing.assert_allclose(gradient[3], -y, atol=1e-11)
    np.testing.assert_allclose(gradient[5], -z, atol=1e-11)
    np.testing.assert_allclose(gradient[4], np.outer(z, x), atol=1e-11)


@pytest.mark.slow  # second order, compiled for each datum
def test_second_derivatives_agree_with_the_active_set() -> None:
    program = quadratic(0)
    active = np.asarray(quadratic_program(*program).stats.active)
    rows = np.vstack([program.A, program.G[active]])
    right = np.concatenate([program.b, program.h[active]])
    weights = np.arange(1.0, 5.0)

    def stiffer(t: jax.Array) -> jax.Array:
        return jnp.asarray(program.P) + t[0] * jnp.diag(weights)

    def by_program(t: jax.Array) -> jax.Array:
        return weights @ quadratic_program(stiffer(t), program.q + t[1], *program[2:]).x

    def by_linear_algebra(t: jax.Array) -> jax.Array:
        k = len(rows)
        matrix = jnp.block([[stiffer(t), rows.T], [jnp.asarray(rows), jnp.zeros((k, k))]])
        return weights @ jnp.linalg.solve(matrix, jnp.concatenate([-(program.q + t[1]), right]))[:4]

    t = np.array([0.1, -0.05])
    expected = jax.jit(jax.hessian(by_linear_algebra))(t)
    assert np.abs(expected).max() > 1e-3
    forward, reverse = jax.jacfwd, jax.jacrev
    for nesting in (forward, reverse), (reverse, forward):
        outer, inner = nesting
        np.testing.assert_allclose(jax.jit(outer(inner(by_program)))(t), expected, atol=1e-10)


def test_batches_give_what_single_ones_give() -> None:
    points = np.array([[0.5, 0.3, -1.0], [2.0, 0.1, 0.2], [0.1, 0.2, 0.4]])
    expected = np.stack([onto_simplex(point) for point in points])

    def both(point: jax.Array) -> tuple[jax.Array, jax.Array]:
        found = onto_simplex(point)
        return found, found

    jacobians, batch = jax.jit(jax.vmap(jax.jacrev(both, has_aux=True)))(points)
    np.testing.assert_allclose(batch, expected, atol=1e-13)
    np.testing.assert_allclose(jacobians[1], np.zeros((3, 3)), atol=1e-12)
    np.testing.assert_allclose(jacobians[2], np.eye(3) - 1 / 3, atol=1e-12)


def test_without_constraints_the_solution_is_that_of_a_linear_system() -> None:
    program = quadratic(2)
    found = quadratic_program(program.P, program.q)
    np.testing.assert_allclose(found.x, -np.linalg.solve(program.P, program.q), atol=1e-11)
    slope = jax.jacrev(lambda q: quadratic_program(program.P, q).x)(program.q)
    np.testing.assert_allclose(slope, -np.linalg.inv(program.P), atol=1e-10)


def test_a_quadratic_program_without_curvature_is_the_linear_program() -> None:
    c, A, b = problems.c, problems.A, problems.b
    linear = linear_program(c, A, b)
    found = quadratic_program(np.zeros((5, 5)), c, A, b, -np.eye(5), np.zeros(5))
    np.testing.assert_allclose(found.x, linear.x, atol=1e-12)
    np.testing.assert_allclose(found.y, -linear.y, atol=1e-12)
    np.testing.assert_allclose(found.z, linear.s, atol=1e-12)


def test_smoothing_keeps_products_at_mu() -> None:
    program = quadratic(1)
    found = quadratic_program(*program, mu=0.1)
    slack = program.h - program.G @ np.asarray(found.x)
    np.testing.assert_allclose(np.asarray(found.z) * slack, np.full(5, 0.1), rtol=1e-10)
    exact = quadratic_program(*program)
    nearly = quadratic_program(*program, mu=1e-8)
    np.testing.assert_allclose(nearly.x, exact.x, atol=1e-6)


def test_a_solver_of_ones_own_is_polished_and_differentiated() -> None:
    program = quadratic(0)
    exact = quadratic_program(*program)

    def rough(*data: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
        return np.asarray(exact.x) + 1e-5, exact.y, exact.z

    found = quadratic_program(*program, solver=rough)
    np.testing.assert_allclose(found.x, exact.x, atol=1e-12)


def test_agrees_with_qpax() -> None:
    qpax = pytest.importorskip(
        "qpax", reason="qpax is only a reference to compare with; pip install qpax to run this"
    )
    for seed in SEEDS:
        program = quadratic(seed)
        x, _, z, y, *_ = qpax.solve_qp(*program, solver_tol=1e-10)
        found = quadratic_program(*program)
        np.testing.assert_allclose(found.x, x, atol=1e-8)
        np.testing.assert_allclose(found.y, y, atol=1e-8)
        np.testing.assert_allclose(found.z, z, atol=1e-8)
