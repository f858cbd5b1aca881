"""The derivative as a program: printed, counted, simplified, compiled, exported and differentiated again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jax import lax

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.derive.source_transformation import program
from tests.derive.computation_graph.functions import network, newton, straight_through
from tests.derive.computation_graph.programs import Line, build, lines

POINT = np.array([0.3, -0.8, 1.1])


@pytest.fixture(autouse=True, scope="module")
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def f(x: Any) -> Any:
    return jnp.sum(jnp.sin(x) ** 2 * x + 1.0)


GRADIENT, HESSIAN = jax.jit(jax.grad(f)), jax.jit(jax.hessian(f))


def test_the_program_differentiated_again_is_the_hessian() -> None:
    hessian = HESSIAN(POINT)
    np.testing.assert_allclose(program(program(f, POINT))(POINT), hessian, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(program(f, POINT, order=2)(POINT), hessian, rtol=1e-13, atol=1e-14)
    third = jax.jit(jax.jacfwd(jax.hessian(f)))(POINT)
    np.testing.assert_allclose(program(f, POINT, order=3)(POINT), third, rtol=1e-12, atol=1e-13)


def test_it_is_a_function_like_any_other() -> None:
    p = program(f, POINT)
    np.testing.assert_allclose(jax.jit(p)(POINT), GRADIENT(POINT), rtol=1e-14)
    np.testing.assert_allclose(jax.jit(jax.jacrev(p))(POINT), HESSIAN(POINT), rtol=1e-13, atol=1e-14)
    batch = np.stack([POINT, 2 * POINT])
    np.testing.assert_allclose(
        jax.jit(jax.vmap(p))(batch), np.stack([GRADIENT(x) for x in batch]), rtol=1e-14
    )


def test_shapes_are_enough() -> None:
    p = program(f, jax.ShapeDtypeStruct((3,), jnp.float64))
    np.testing.assert_allclose(p(POINT), GRADIENT(POINT), rtol=1e-14)


def test_pytrees_and_the_choice_of_argument() -> None:
    params = {"layers": [{"w": np.ones((2, 3)), "b": np.zeros((1, 3))}]}
    x = np.array([[0.3, -0.4]])
    by_params, by_x = program(network, params, x), program(network, params, x, argnums=1)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-14),
        by_params(params, x),
        jax.grad(network)(params, x),
    )
    np.testing.assert_allclose(by_x(params, x), jax.grad(network, 1)(params, x), rtol=1e-14)


def test_it_reads_like_code() -> None:
    text = str(program(lambda x: x * jnp.sin(x), np.float64(0.5)).simplify())
    assert text.splitlines()[0] == "lambda'(x: float64[]):"
    assert "= sin(x)" in text
    assert "test_program.py:" in text
    assert text.splitlines()[-1].startswith("  return ")


def test_loops_branches_and_calls_are_printed_inside_out(capsys: pytest.CaptureFixture[str]) -> None:
    def everything(x: Any) -> Any:
        x = lax.scan(lambda c, t: (c * t, None), x, jnp.arange(3.0))[0]
        x = lax.while_loop(lambda v: v < 1, lambda v: v * 2, x)
        return lax.cond(x > 0, jnp.sin, jnp.cos, x) + jax.nn.relu(x)

    program(everything, 0.5, order=0).print()
    printed = capsys.readouterr().out
    assert all(part in printed for part in ("each step(", "while(", "do(", "case 0(", "case 1(", "relu("))


def test_counting_tells_operations_and_flops() -> None:
    count = program(lambda x: jnp.sum(jnp.sin(x) * x), POINT, order=0).count()
    assert (count.operations, count.flops) == (3, 9)
    assert count.by_operation == {"sin": 1, "mul": 1, "reduce_sum": 1}


def test_the_gradient_of_a_square_simplifies_to_one_product() -> None:
    simple = program(lambda x: jnp.sum(x**2), POINT).simplify()
    assert simple.count().by_operation == {"mul": 1}
    np.testing.assert_array_equal(simple(POINT), 2 * POINT)


@pytest.mark.parametrize(
    ("f", "left"),
    [
        (lambda x: x * 1.0, 0),
        (lambda x: 1.0 * x + 0.0, 0),
        (lambda x: (x - 0.0) / 1.0, 0),
        (lambda x: jnp.negative(-x), 0),
        (lambda x: x * jnp.ones(3), 0),
        (lambda x: x + jnp.zeros(3), 0),
        (lambda x: jnp.sin(x) + jnp.sin(x), 2),
        (lambda x: x * (jnp.float64(2.0) + jnp.float64(3.0)), 1),
        (lambda x: x.reshape(3).astype(jnp.float64), 0),
        (lambda x: (x, jnp.exp(x))[0], 0),
        (lambda x: x * 0.0, 1),
        (lambda x: x**1, 0),
        (jax.jit(lambda x: jax.jit(jnp.sin)(x) * 1.0), 1),
    ],
)
def test_each_rewrite_removes_what_it_should_and_nothing_else(f: Any, left: int) -> None:
    simple = program(f, POINT, order=0).simplify()
    assert simple.count().operations == left
    np.testing.assert_array_equal(simple(POINT), f(POINT))


def test_nothing_is_rewritten_that_infinities_could_tell() -> None:
    point = jnp.array([np.inf, np.nan, -0.0])
    for function in (lambda x: x * 0.0, lambda x: x - x, lambda x: x / x, lambda x: x * 1.0):
        np.testing.assert_array_equal(program(function, point, order=0).simplify()(point), function(point))


@settings(max_examples=12)
@given(lines())
def test_simplifying_never_changes_a_result(lines: list[Line]) -> None:
    gradient = program(build(lines), POINT)
    simple = gradient.simplify()
    assert simple.count().operations <= gradient.count().operations
    np.testing.assert_allclose(simple(POINT), gradient(POINT), rtol=1e-13, atol=1e-14)


def test_loops_are_simplified_inside() -> None:
    def looped(x: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.sin(c) * 1.0 + 0.0, None), x, None, length=3)[0]

    plain = program(looped, POINT, order=0)
    simple = plain.simplify()
    assert (plain.count().operations, simple.count().operations) == (4, 2)
    np.testing.assert_array_equal(simple(POINT), looped(POINT))


def test_effects_survive_simplification(capfd: pytest.CaptureFixture[str]) -> None:
    def chatty(x: Any) -> Any:
        jax.debug.print("seen {}", x[0])
        return x * 2

    program(chatty, POINT, order=0).simplify()(POINT)
    jax.effects_barrier()
    assert "seen 0.3" in capfd.readouterr().out


def test_export_is_stablehlo(tmp_path: Path) -> None:
    text = program(jnp.sin, 0.5).export(tmp_path / "sine.mlir")
    assert "stablehlo.cosine" in text
    assert (tmp_path / "sine.mlir").read_text() == text


def test_a_loop_without_reverse_rule_is_differentiated_forward() -> None:
    assert float(program(newton, 2.0)(2.0)) == pytest.approx(0.3535534, abs=1e-4)


def test_a_custom_reverse_rule_is_differentiated_in_reverse_again() -> None:
    def function(x: Any) -> Any:
        return (straight_through(x) * x**2).sum()

    np.testing.assert_allclose(
        program(function, POINT, order=2)(POINT), jax.jacrev(jax.grad(function))(POINT)
    )


def test_where_neither_mode_works_both_reasons_are_given() -> None:
    with pytest.raises(CapabilityError, match=r"Reverse-mode(.|\n)*forward-mode(.|\n)*graph\(f, x\)"):
        program(lambda x: newton(straight_through(x) + 2.0), 2.0)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ArgumentError, match="n has dtype int"):
        program(lambda n: n * 2.0, 3)
    with pytest.raises(ArgumentError, match="order must be 0 or more"):
        program(f, POINT, order=-1)
    with pytest.raises(ArgumentError, match="called with 1 arguments"):
        program(f, POINT, argnums=1)
    with pytest.raises(ArgumentError, match=r"f': x is float64\[2\], the program is for float64\[3\]"):
        program(f, POINT)(np.ones(2))
    with pytest.raises(ArgumentError, match="structure"):
        program(f, POINT)(POINT, POINT)


@pytest.mark.parametrize("order", [0, 1])
def test_a_function_that_branches_on_its_values_is_not_one_program(order: int) -> None:
    with pytest.raises(ArgumentError, match="branches in Python on a value"):
        program(lambda x: x**3 if x > 0 else -x, 2.0, order=order)
