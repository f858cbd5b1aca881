"""Patterns at a point, and the guard that tells where they hold."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from chainrule.core.errors import ArgumentError
from chainrule.derive.sparse.detection import LocalPatternError, analyse, detect
from chainrule.derive.sparse.patterns import Pattern


def _gate(z: jax.Array) -> jax.Array:
    return jnp.where(z[0] > 0, z[0] * z[1], 0.0)


def test_a_closed_selection_has_an_empty_local_pattern_and_its_guard_raises_where_it_opens() -> None:
    found = analyse(_gate, jnp.array([-1.0, 2.0]), local=True)
    assert found.pattern.nnz == 0
    assert found.guard is not None
    found.guard.check(jnp.array([-3.0, 5.0]))
    with pytest.raises(LocalPatternError, match="does not hold here"):
        found.guard.check(jnp.array([1.0, 2.0]))


def test_an_open_selection_has_the_pattern_of_what_it_selects() -> None:
    assert detect(_gate, jnp.array([1.0, 2.0]), local=True) == Pattern([0, 0], [0, 1], (1, 2))


def test_a_global_pattern_has_no_guard_and_covers_both_sides() -> None:
    found = analyse(_gate, jnp.array([-1.0, 2.0]))
    assert found.guard is None
    assert found.pattern.nnz == 2


@pytest.mark.parametrize(
    ("f", "x", "entries"),
    [
        (lambda x: lax.cond(x[0] > 0, lambda z: z[1], lambda z: z[2], x), [1.0, 2.0, 3.0], [(0, 1)]),
        (lambda x: x[jnp.argmax(x)], [1.0, 5.0, 3.0], [(0, 1)]),
        (lambda x: jnp.max(x), [1.0, 5.0, 3.0], [(0, 1)]),
        (jnp.sort, [3.0, 1.0, 2.0], [(0, 1), (1, 2), (2, 0)]),
        (lambda x: jnp.maximum(x[:1], x[1:2]), [3.0, 1.0, 2.0], [(0, 0)]),
        (jax.nn.relu, [-1.0, 2.0, -3.0], [(1, 1)]),
        (lambda x: jnp.zeros(3).at[jnp.argmin(x)].add(x[2]), [3.0, 1.0, 2.0], [(1, 2)]),
        (lambda x: lax.top_k(x, 1)[0], [3.0, 1.0, 7.0], [(0, 2)]),
        (
            lambda x: lax.switch(x[0].astype(int), [lambda z: z[0], lambda z: z[1]], x),
            [1.2, 0.0, 0.0],
            [(0, 1)],
        ),
        (lambda x: jnp.clip(x, 0.0, 1.0), [-1.0, 0.5, 2.0], [(1, 1)]),
        (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3,), (1,), "VALID"), [1.0, 4.0, 2.0], None),
    ],
)
def test_values_at_the_point_resolve_selections_branches_and_indices(
    f: object, x: list[float], entries: list[tuple[int, int]] | None
) -> None:
    point = jnp.array(x)
    found = analyse(f, point, local=True)  # type: ignore[arg-type]
    dense = np.atleast_2d(np.asarray(jax.jacobian(f)(point))) != 0  # type: ignore[arg-type]
    pattern = found.pattern.to_scipy().toarray() != 0
    assert not (dense & ~pattern).any()
    if entries is not None:
        assert list(zip(found.pattern.rows.tolist(), found.pattern.cols.tolist(), strict=True)) == entries
    assert found.guard is not None
    assert bool(found.guard.holds(point))


def test_a_loop_whose_length_depends_on_the_input_is_followed_at_the_point() -> None:
    def shift(x: jax.Array) -> jax.Array:
        return lax.while_loop(lambda s: s[0] < x[0], lambda s: (s[0] + 1, jnp.roll(s[1], 1)), (0.0, x))[1]

    point = jnp.array([1.5, 2.0, 3.0, 4.0])
    found = analyse(shift, point, local=True)
    assert (found.pattern.to_scipy().toarray() == np.roll(np.eye(4), 2, axis=0)).all()
    assert found.guard is not None
    assert not bool(found.guard.holds(jnp.array([0.5, 2.0, 3.0, 4.0])))


def test_a_zero_factor_that_depends_on_the_input_stays_in_a_local_pattern() -> None:
    assert detect(lambda x: x[0] * x[1], jnp.array([0.0, 1.0]), local=True).nnz == 2


def test_a_function_without_selections_has_a_guard_that_always_holds() -> None:
    found = analyse(jnp.sin, jnp.ones(3), local=True)
    assert found.guard is not None
    assert found.guard.count == 0
    assert bool(found.guard.holds(-jnp.ones(3)))


def test_a_guard_works_under_jit_and_vmap() -> None:
    found = analyse(_gate, jnp.array([-1.0, 2.0]), local=True)
    assert found.guard is not None
    points = jnp.array([[-1.0, 2.0], [1.0, 2.0]])
    assert jax.jit(jax.vmap(found.guard.holds))(points).tolist() == [True, False]


def test_a_guard_refuses_another_structure() -> None:
    found = analyse(_gate, jnp.array([-1.0, 2.0]), local=True)
    assert found.guard is not None
    with pytest.raises(ArgumentError, match="structure"):
        found.guard.holds({"x": jnp.ones(2)})


def test_local_hessians_follow_the_branch_taken() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(x > 0, x**3, x))

    found = analyse(f, jnp.array([-1.0, 2.0, 3.0]), of="hessian", local=True)
    assert found.pattern == Pattern([1, 2], [1, 2], (3, 3))
