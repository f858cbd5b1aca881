"""Reverse mode on numbers: Python may branch, only the branch taken is recorded, and there is no second order."""

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.derive.computation_graph import graph
from chainrule.derive.gradient_tape import tape
from chainrule.derive.source_transformation import program
from tests.derive.computation_graph.functions import CASES, Case


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def wandering(x: Any) -> Any:
    steps = 0
    while jnp.abs(x).sum() < 10 and steps < 20:
        x = 1.5 * x if steps % 2 else jnp.sin(x) + 2 * x
        steps += 1
    return x[steps % 3] * steps


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name != "several results"], ids=lambda c: c.name
)
def test_the_gradient_is_that_of_the_graph(case: Case) -> None:
    recorded = tape(case.f, *case.args)
    weights = jax.tree.map(np.ones_like, recorded.value)
    found = jax.tree.leaves(recorded.gradient(weights), is_leaf=lambda leaf: leaf is None)
    expected = [node.adjoint for node in graph(case.f, *case.args).nodes if node.kind == "input"]
    for gradient, adjoint in zip(found, expected, strict=True):
        if adjoint is None:
            assert gradient is None
        else:
            np.testing.assert_allclose(gradient, adjoint, rtol=1e-11, atol=1e-13)


def test_tape_and_program_agree() -> None:
    def f(x: Any) -> Any:
        return jnp.sum(jnp.sin(x) * x**2)

    x = np.array([0.3, -0.7, 1.1])
    np.testing.assert_allclose(tape(f, x).gradient(), program(f, x)(x), rtol=1e-14)


def test_python_may_branch_and_loop_on_values() -> None:
    x = np.array([0.3, -0.2, 1.1])
    np.testing.assert_allclose(tape(wandering, x).gradient(), jax.grad(wandering)(x), rtol=1e-13)


@pytest.mark.parametrize(("x", "slope", "taken"), [(3.0, 6.0, "integer_pow"), (-3.0, -1.0, "neg")])
def test_only_the_branch_taken_is_recorded(x: float, slope: float, taken: str) -> None:
    recorded = tape(lambda x: x**2 if x > 0 else -x, x)
    assert float(recorded.gradient()) == slope
    names = [step.operation for step in recorded.steps]
    assert taken in names
    assert not {"integer_pow", "neg"} - {taken} & set(names)


def test_results_are_plain_numbers() -> None:
    recorded = tape(lambda p: (p["a"] * 2).sum() * p["b"], {"a": np.ones(3), "b": 2.0})
    assert all(
        isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves([recorded.value, recorded.gradient()])
    )
    assert recorded.value == 12.0


def test_several_arguments_have_several_gradients() -> None:
    gradient = tape(lambda x, y, n: x * y * n, 2.0, 3.0, 4).gradient()
    assert (float(gradient[0]), float(gradient[1]), gradient[2]) == (12.0, 8.0, None)


def test_steps_name_their_line_and_formula() -> None:
    recorded = tape(lambda x: jnp.sin(x) * 2.5, np.float64(0.5))
    assert [step.formula for step in recorded.steps] == ["sin(x)", "#1 * 2.5"]
    assert all(str(step.source).startswith("test_gradient_tape.py:") for step in recorded.steps)
    assert "sin(x)" in str(recorded)
    assert [row[4] for row in recorded.table().rows] == ["2.194", "2.5", "1"]


def test_a_value_that_does_not_depend_on_the_arguments_is_not_recorded() -> None:
    recorded = tape(lambda x: x * jnp.exp(jnp.ones(())), np.float64(2.0))
    assert [step.operation for step in recorded.steps] == ["mul"]


def test_compiled_functions_are_opened_at_the_top() -> None:
    names = [step.operation for step in tape(jax.jit(lambda x: jnp.sin(x) * x), np.float64(0.5)).steps]
    assert names == ["sin", "mul"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda f, x: tape(f, x, order=2),
        lambda f, x: jax.grad(lambda y: jnp.asarray(tape(f, y).gradient()))(x),
        lambda f, x: tape(lambda y: tape(f, y).gradient(), x),
        lambda f, x: jax.jit(lambda y: tape(f, y).gradient())(x),
        lambda f, x: graph(lambda y: tape(f, y).gradient(), x),
    ],
)
def test_asking_a_tape_for_second_order_points_to_program(ask: Any) -> None:
    with pytest.raises(CapabilityError, match=r"(numbers|traced)(.|\n)*program\(f, x, order=2\)"):
        ask(lambda x: x**3, 2.0)


def test_masks_and_positions_are_used_as_numbers() -> None:
    x = np.array([0.3, -0.2, 1.1])
    np.testing.assert_allclose(
        tape(lambda x: jnp.sum(x[x > 0] ** 2), x).gradient(), [0.6, 0, 2.2], rtol=1e-13
    )
    np.testing.assert_allclose(tape(lambda x: x[np.asarray(jnp.argmax(x))], x).gradient(), [0, 0, 1])


@pytest.mark.parametrize("leave", [float, math.sin, complex, np.sin, np.asarray])
def test_taking_a_value_off_the_tape_is_refused(leave: Any) -> None:
    with pytest.raises(CapabilityError, match=r"tape: f takes a value out of JAX.*\n.*jax\.numpy"):
        tape(lambda x: x * leave(x), 2.0)


def test_a_vector_result_needs_weights() -> None:
    recorded = tape(lambda x: 2 * x, np.ones(3))
    with pytest.raises(ArgumentError, match=r"float64\[3\], not one number\n.*cotangent="):
        recorded.gradient()
    with pytest.raises(ArgumentError, match=r"output has shape \(3,\), here \(2,\)"):
        recorded.gradient(np.ones(2))
    with pytest.raises(ArgumentError, match="structure is not that of the result"):
        recorded.gradient((np.ones(3), 1.0))
    np.testing.assert_array_equal(recorded.gradient(np.arange(3.0)), [0, 2, 4])


def test_integers_alone_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"tape: x has dtype int"):
        tape(lambda x: x * x, 3)


def test_an_error_in_the_function_leaves_jax_as_it_was() -> None:
    def fails(x: Any) -> Any:
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        tape(fails, 1.0)
    assert float(jnp.sin(0.0)) == 0.0
    assert float(jax.grad(jnp.sin)(0.0)) == 1.0
