"""Every tangent and adjoint of a graph, against JAX's own derivatives of the program cut off at that node."""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import DropVar, Literal

from chainrule.derive.computation_graph import Graph, graph
from chainrule.derive.computation_graph.nonfinite import nan_trace
from chainrule.derive.jaxprs import equations as eqs
from chainrule.derive.jaxprs.tracing import trace
from chainrule.derive.memory_timeline import memory
from tests.derive.computation_graph.functions import CASES, Case


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@functools.cache
def _graph(name: str) -> Graph:
    case = next(case for case in CASES if case.name == name)
    return graph(case.f, *case.args)


def _is_float(value: Any) -> bool:
    return bool(jnp.issubdtype(value.dtype, jnp.inexact))


class Oracle:
    """Derivatives at all nodes from whole-program transformations: no rule of ours is used."""

    def __init__(self, case: Case) -> None:
        traced = trace("test", case.f, case.args)
        self.program = eqs.open_trivial_calls(traced.program)
        self.leaves = [*self.program.consts, *traced.leaves]

    def tangents(self) -> list[list[Any]]:
        """d(every value)/d(inputs) along all ones."""
        still = len(self.program.consts)
        moving = [i for i, leaf in enumerate(self.leaves) if i >= still and _is_float(leaf)]

        def everything(*moved: Any) -> Any:
            leaves = list(self.leaves)
            for index, leaf in zip(moving, moved, strict=True):
                leaves[index] = leaf
            return self._run(leaves, lambda index, output, value: value)[0]

        point = tuple(self.leaves[i] for i in moving)
        ones = tuple(jnp.ones_like(leaf) for leaf in point)
        return jax.jit(lambda x, v: jax.jvp(everything, x, v)[1])(point, ones)

    def adjoints(self, whole: Graph, derivative: Any) -> dict[Any, Any]:
        """d(sum of outputs)/d(every value): the derivative with respect to a nudge added to each."""
        nudges = {
            str((node.id, output)): jnp.zeros_like(value)
            for node in whole.nodes
            for output, value in enumerate(node.values)
            if _is_float(value)
        }

        def total(nudges: Any) -> Any:
            def add(index: int, output: int, value: Any) -> Any:
                return value + nudges[str((index, output))] if _is_float(value) else value

            outs = self._run(self.leaves, add)[1]
            return sum((jnp.sum(out) for out in map(jnp.asarray, outs) if _is_float(out)), jnp.zeros(()))

        return jax.jit(derivative(total))(nudges)

    def _run(self, leaves: list[Any], change: Any) -> tuple[list[list[Any]], list[Any]]:
        """Run equation by equation with JAX's evaluator; `change` may alter every value as it is made."""
        inner = self.program.jaxpr
        made = [[change(index, 0, leaf)] for index, leaf in enumerate(leaves)]
        values = dict(zip([*inner.constvars, *inner.invars], (one[0] for one in made), strict=True))

        def read(atom: Any) -> Any:
            return atom.val if isinstance(atom, Literal) else values[atom]

        for index, equation in enumerate(self.program.eqns, start=len(leaves)):
            used = list(dict.fromkeys(atom for atom in equation.invars if not isinstance(atom, Literal)))
            kept = [(o, v) for o, v in enumerate(equation.outvars) if not isinstance(v, DropVar)]
            part = inner.replace(constvars=[], invars=used, outvars=[v for _, v in kept], eqns=[equation])
            outs = jax.core.eval_jaxpr(part, (), *map(read, used))
            changed = [change(index, output, out) for (output, _), out in zip(kept, outs, strict=True)]
            values.update(zip((variable for _, variable in kept), changed, strict=True))
            made.append(changed)
        return made, [read(atom) for atom in inner.outvars]


@pytest.mark.parametrize("case", [case for case in CASES if case.forward], ids=lambda case: case.name)
def test_every_tangent_is_the_forward_derivative_of_the_program_up_to_there(case: Case) -> None:
    whole, expected = _graph(case.name), Oracle(case).tangents()
    for node, slopes in zip(whole.nodes, expected, strict=True):
        kept = [tangent for tangent in node.tangents if tangent is not None]
        right = [slope for slope in slopes if jnp.issubdtype(slope.dtype, jnp.inexact)]
        for tangent, slope in zip(kept, right, strict=True):
            np.testing.assert_allclose(tangent, slope, rtol=1e-12, atol=1e-13, err_msg=node.name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_adjoint_is_the_derivative_of_the_rest_of_the_program(case: Case) -> None:
    whole = _graph(case.name)
    is_complex = any(jnp.iscomplexobj(value) for node in whole.nodes for value in node.values)
    derivative = jax.jacfwd if case.forward and not is_complex else jax.grad
    expected = Oracle(case).adjoints(whole, derivative)
    for node in whole.nodes:
        for output, adjoint in enumerate(node.adjoints):
            if adjoint is not None:
                np.testing.assert_allclose(
                    adjoint, expected[str((node.id, output))], rtol=1e-11, atol=1e-13, err_msg=node.name
                )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_sum_across_every_cut_is_the_directional_derivative(case: Case) -> None:
    assert _graph(case.name).invariant().deviation < 1e-12


@pytest.mark.parametrize("case", [case for case in CASES if case.reverse], ids=lambda case: case.name)
def test_adjoints_at_the_inputs_are_the_gradient(case: Case) -> None:
    whole = _graph(case.name)
    flat, tree = jax.tree.flatten(jax.tree.map(jnp.asarray, case.args))
    moving = [i for i, leaf in enumerate(flat) if _is_float(leaf)]

    def total(*moved: Any) -> Any:
        leaves = list(flat)
        for index, leaf in zip(moving, moved, strict=True):
            leaves[index] = leaf
        outs = jax.tree.leaves(case.f(*jax.tree.unflatten(tree, leaves)))
        return sum((jnp.sum(out) for out in map(jnp.asarray, outs) if _is_float(out)), jnp.zeros(()))

    gradient = jax.jit(jax.grad(total, argnums=tuple(range(len(moving)))))
    gradients = gradient(*(flat[i] for i in moving))
    inputs = [node for node in whole.nodes if node.kind == "input" and node.adjoint is not None]
    for node, expected in zip(inputs, gradients, strict=True):
        np.testing.assert_allclose(node.adjoint, expected, rtol=1e-12, atol=1e-13)


def wandering(x: Any) -> Any:
    steps = 0
    while jnp.abs(x).sum() < 10 and steps < 20:
        x = jax.nn.softplus(x) + 2 * x if steps % 2 else 1.5 * x
        steps += 1
    return jnp.sum(x[x > 1] ** 2) * steps


def test_a_function_that_branches_in_python_shows_the_branch_taken() -> None:
    x = np.array([0.3, -0.2, 1.1])
    g = graph(wandering, x)
    np.testing.assert_allclose(g.node("x").adjoint, jax.grad(wandering)(x), rtol=1e-12)
    assert "the branch taken" in g.title
    assert "the branch taken" in g.to_svg()
    assert any(str(node.source).startswith("test_sweeps.py:") for node in g.nodes)
    assert nan_trace(wandering, x).value is None
    assert memory(wandering, x).peak > 0


def test_directions_and_weights_can_be_given() -> None:
    x, v, u = np.array([0.3, -0.7]), np.array([2.0, -1.0]), np.array([0.5, 4.0])
    whole = graph(jnp.sin, x, tangent=v, cotangent=u)
    np.testing.assert_allclose(whole.node("sin").tangent, np.cos(x) * v, rtol=1e-15)
    np.testing.assert_allclose(whole.node("x").adjoint, np.cos(x) * u, rtol=1e-15)
    assert whole.derivative == pytest.approx(float(u @ (np.cos(x) * v)), rel=1e-15)


def test_an_operation_that_recurs_often_gives_the_same_numbers_compiled() -> None:
    def often(x: Any) -> Any:
        for _ in range(40):
            x = jnp.sin(x) * 1.01
        return x

    whole = graph(often, 0.5)
    value, slope = jax.jit(lambda x, v: jax.jvp(often, (x,), (v,)))(0.5, 1.0)
    last = whole.nodes[-1]
    assert float(last.value) == pytest.approx(float(value), rel=1e-14)
    assert float(last.tangent) == pytest.approx(float(slope), rel=1e-13)
    assert float(whole.node("x").adjoint) == pytest.approx(float(slope), rel=1e-13)
