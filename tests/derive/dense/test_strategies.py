"""Every mode, strategy and chunk against each other, against JAX and against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError
from tests.derive.dense.functions import CASES, forward_only, point, python_branch, reverse_only
from tests.tiers import tiers

MODES = ("forward", "reverse")
SLOW = {
    "quadratic",
    "softmax",
    "product",
    "fan-out",
    "reshape",
    "solve",
    "sort",
    "convolution",
    "loop",
    "constant",
    "matrix",
    "cond",
}
names = pytest.mark.parametrize("name", tiers(CASES, slow=SLOW))


def close(found: object, expected: object) -> None:
    """The same tree with the same numbers."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * max(1.0, float(np.abs(b).max(initial=0.0))))


@names
def test_every_mode_strategy_and_chunk_gives_the_derivatives(name: str) -> None:
    case = CASES[name]
    chunks = {1, 7, max(case.x.size, 7)}
    modes = [(mode, chunk) for mode in MODES for chunk in sorted(chunks)]

    def everything(x: jax.Array) -> tuple[list[object], list[object]]:
        first = [jax.jacfwd(case.f)(x), jax.jacrev(case.f)(x)]
        first += [cr.derive.jacobian(case.f, *way)(x) for way in modes]
        second = [jax.hessian(case.f)(x)]
        second += [cr.derive.hessian(case.f, strategy, 10_000)(x) for strategy in cr.derive.STRATEGIES]
        return first, second

    first, second = jax.jit(everything)(case.x)
    for found in first[1:]:
        close(found, first[0])
    for found in second[1:]:
        close(found, second[0])
    if case.jacobian is not None:
        close(first[0], case.jacobian(case.x))
    if case.hessian is not None:
        close(second[0], case.hessian(case.x))


@pytest.mark.parametrize(
    "name", ["rosenbrock", *(pytest.param(name, marks=pytest.mark.slow) for name in ("elementwise", "scan"))]
)
def test_the_chunk_does_not_change_the_hessian(name: str) -> None:
    case = CASES[name]
    ways = [(strategy, chunk) for strategy in cr.derive.STRATEGIES for chunk in (1, 7, case.x.size)]

    def everything(x: jax.Array) -> list[object]:
        return [jax.hessian(case.f)(x), *(cr.derive.hessian(case.f, *way)(x) for way in ways)]

    expected, *others = jax.jit(everything)(case.x)
    for found in others:
        close(found, expected)


@pytest.mark.parametrize("name", ["linear", "rosenbrock", "cond", "number to number", "nothing in"])
def test_the_automatic_choice_gives_the_same_derivatives(name: str) -> None:
    case = CASES[name]
    close(cr.derive.jacobian(case.f)(case.x), jax.jit(jax.jacfwd(case.f))(case.x))
    close(cr.derive.hessian(case.f)(case.x), jax.jit(jax.hessian(case.f))(case.x))


def test_a_function_without_a_reverse_rule_is_differentiated_forward() -> None:
    x = np.abs(point(4)) / 10
    expected = jax.jit(jax.jacfwd(forward_only))(x)
    J = cr.derive.jacobian(lambda x: forward_only(x).sum())  # reverse mode would be cheaper
    close(J(x), expected.sum(axis=0))
    assert J.report.mode == "forward"
    assert "no reverse rule" in J.report.reason
    H = cr.derive.hessian(forward_only)
    close(H(x), jax.jit(jax.jacfwd(jax.jacfwd(forward_only)))(x))
    assert H.report.mode == "forward-over-forward"


def test_many_inputs_without_a_reverse_rule_still_have_a_hessian() -> None:
    x = np.abs(point(10)) / 10
    H = cr.derive.hessian(lambda x: forward_only(x).sum())
    close(H(x), jax.jit(jax.jacfwd(jax.jacfwd(lambda x: forward_only(x).sum())))(x))
    assert "no reverse rule" in H.report.reason
    assert H.report.products == 55


def test_a_function_without_a_forward_rule_is_differentiated_in_reverse() -> None:
    J = cr.derive.jacobian(lambda x: jnp.tile(reverse_only(x), 3))  # forward mode would be cheaper
    x = point(4)
    close(J(x), np.tile(np.diag(np.cos(x)), (3, 1)))
    assert J.report.mode == "reverse"
    assert "no forward rule" in J.report.reason
    H = cr.derive.hessian(lambda x: reverse_only(x).sum(), "reverse-over-reverse")
    close(H(x), np.diag(-np.sin(x)))


def test_a_mode_without_a_rule_is_refused_by_name() -> None:
    with pytest.raises(
        ArgumentError, match=r'jacobian\(mode="reverse"\): Reverse-mode .*while_loop'
    ) as caught:
        cr.derive.jacobian(forward_only, "reverse")(point(2))
    assert 'mode="auto"' in str(caught.value)
    with pytest.raises(ArgumentError, match=r'hessian\(strategy="forward-over-forward"\)'):
        cr.derive.hessian(lambda x: reverse_only(x).sum(), "forward-over-forward")(point(2))


def test_a_function_without_any_rule_is_refused_with_all_reasons() -> None:
    with pytest.raises(ArgumentError, match="no mode can differentiate") as caught:
        cr.derive.jacobian(lambda x: reverse_only(forward_only(x)))(point(2))
    assert "forward: " in str(caught.value)
    assert "reverse: " in str(caught.value)


def test_a_function_that_branches_in_python_is_run_as_it_is() -> None:
    x = np.abs(point(2))
    J = cr.derive.jacobian(python_branch)
    close(J(x), np.diag(np.cos(x) * x + np.sin(x)))
    assert not J.report.compiled
    assert "branches on values" in str(J.report)
    for strategy in ("auto", *cr.derive.STRATEGIES):
        H = cr.derive.hessian(python_branch, strategy, chunk=3)(-x)
        close(H, np.einsum("i,ij,ik->ijk", -6 * x, np.eye(2), np.eye(2)))


def test_a_prepared_derivative_follows_a_python_branch_at_each_call() -> None:
    J = cr.derive.jacobian(python_branch)
    for _ in range(2):
        close(J(np.ones(2)), (np.sin(1.0) + np.cos(1.0)) * np.eye(2))
        close(J(-np.ones(2)), 3 * np.eye(2))


def test_a_branching_function_without_a_rule_still_finds_the_other_mode() -> None:
    f = lambda x: jnp.stack([reverse_only(x[0])] * 5) if x[0] > 0 else forward_only(x)  # noqa: E731
    J = cr.derive.jacobian(f)
    close(J(np.ones(1)), np.full((5, 1), np.cos(1.0)))
    assert J.report.mode == "reverse"


def test_closing_over_an_outer_value_is_differentiated_with_it() -> None:
    def outer(w: jax.Array) -> jax.Array:
        return cr.derive.jacobian(lambda x: jnp.sin(w * x))(jnp.ones(3)).sum()

    w = 0.7
    assert float(jax.grad(outer)(w)) == pytest.approx(3 * (np.cos(w) - w * np.sin(w)), rel=1e-12)
    reverse = lambda w: cr.derive.jacobian(lambda x: w * reverse_only(x))(jnp.ones(2)).sum()  # noqa: E731
    assert float(jax.grad(reverse)(w)) == pytest.approx(2 * np.cos(1.0), rel=1e-12)


@jax.custom_jvp
def outside(x: jax.Array) -> jax.Array:
    """Computed by NumPy: there is a derivative rule, but nothing can be batched."""
    return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


@outside.defjvp
def _outside_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (t,) = primals, tangents
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return outside(x), jax.custom_derivatives.linear_call(
        lambda x, t: jax.pure_callback(lambda x, t: np.cos(x) * t, shape, x, t),
        lambda x, u: jax.pure_callback(lambda x, u: np.cos(x) * u, shape, x, u),
        x,
        t,
    )


def test_operations_that_cannot_be_batched_are_differentiated_one_product_at_a_time() -> None:
    x = point(4)
    for mode in ("auto", "forward", "reverse"):
        J = cr.derive.jacobian(outside, mode)
        close(J(x), np.diag(np.cos(x)))
        assert J.report.chunk == 1
        assert "one product at a time: " in J.report.notes[0]
    close(cr.derive.jacobian(lambda x: outside(x).sum())(x), np.cos(x))
