"""Looking inside calls, loops and branches."""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from chainrule.core.errors import ArgumentError
from chainrule.derive.computation_graph import Graph, graph
from tests.derive.computation_graph.functions import backwards, branching, cubed, inner, newton, scanned


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@functools.cache
def scan_graph() -> Graph:
    return graph(scanned, np.array([0.2, -0.6]), 0.7)


def test_the_inside_of_a_call_carries_what_flows_through_the_node() -> None:
    g = graph(lambda x: inner(x, x + 1) * x, 0.4)
    inside = g.open("inner")
    assert inside.title == "inner"
    assert [node.name for node in inside.nodes] == ["x", "add", "sin", "mul", "cos", "add_2"]
    assert float(inside.nodes[-1].value) == float(g.node("inner").value)
    assert float(inside.nodes[-1].tangent) == pytest.approx(float(g.node("inner").tangent), rel=1e-14)
    through = sum(edge.product for edge in g.edges_to("inner"))
    assert inside.derivative == pytest.approx(through, rel=1e-13)


@pytest.mark.parametrize("step", range(3))
def test_every_step_of_a_scan_keeps_the_invariant(step: int) -> None:
    g = scan_graph()
    inside = g.open("scan", step)
    assert inside.title == f"scan, step {step + 1} of 3"
    assert inside.invariant().deviation < 1e-13


def test_steps_of_a_scan_join_up() -> None:
    g = scan_graph()
    steps = [g.open("scan", step) for step in range(3)]
    state = [[node for node in inside.nodes if node.kind == "input"][1] for inside in steps]
    for this, following in zip(steps, state[1:], strict=False):
        left = next(edge.source for edge in this.edges if edge.target is None and edge.operand == 0)
        np.testing.assert_allclose(this.nodes[left].value, following.value, rtol=1e-15)
        np.testing.assert_allclose(this.nodes[left].tangent, following.tangent, rtol=1e-14)
    np.testing.assert_allclose(state[0].adjoint, g.node("x").adjoint, rtol=1e-13)


def test_a_scan_from_the_end_opens_its_steps_in_the_order_they_run() -> None:
    x = np.array([2.0, 3.0, 5.0])
    g = graph(backwards, x)
    states = [[float(n.value) for n in g.open("scan", step).nodes if n.kind == "input"] for step in range(3)]
    assert states == [[2.0, 5.0], [10.0, 3.0], [30.0, 2.0]]
    assert all(g.open("scan", step).invariant().deviation < 1e-14 for step in range(3))


def test_a_while_loop_counts_its_steps_and_opens_each() -> None:
    g = graph(newton, 2.0)
    loop = g.node("while")
    assert loop.steps == 3
    assert loop.flops == 3 * 3
    insides = [g.open("while", step) for step in range(3)]
    assert [float(inside.node("a_2").value) for inside in insides[:2]] == [2.0, 1.5]
    assert all(inside.invariant().deviation < 1e-14 for inside in insides)
    slope = jax.jvp(newton, (jnp.asarray(2.0),), (jnp.asarray(1.0),))[1]
    assert float(g.node("a").adjoint) == pytest.approx(float(slope), rel=1e-14)


@pytest.mark.parametrize(("sign", "taken", "operation"), [(1, 1, "sin"), (-1, 0, "integer_pow")])
def test_a_branch_opens_to_the_side_that_was_taken(sign: int, taken: int, operation: str) -> None:
    g = graph(branching, sign * np.array([0.5, 1.0]))
    assert g.node("cond").taken == taken
    inside = g.open("cond")
    assert inside.title == f"cond, branch {taken + 1} of 2"
    assert operation in [node.operation for node in inside.nodes]


def test_a_custom_rule_decides_the_node_and_the_inside_says_so() -> None:
    g = graph(lambda x: cubed(x) * 1.0, 2.0)
    assert float(g.node("cubed").tangent) == 10.0
    inside = g.open("cubed")
    assert "without its custom rule" in inside.title
    assert float(inside.nodes[-1].tangent) == 12.0


def test_loops_nest() -> None:
    def nested(x: Any) -> Any:
        def outer(c: Any, _: Any) -> Any:
            return lax.fori_loop(0, 2, lambda i, v: jnp.sin(v), c), None

        return lax.scan(outer, x, None, length=3)[0]

    deepest = graph(nested, 0.5).open("scan", 1).open("scan", 1)
    assert float(deepest.node("sin").value) == pytest.approx(
        float(np.sin(np.sin(np.sin(np.sin(0.5))))), rel=1e-14
    )


def test_a_single_operation_has_nothing_inside() -> None:
    g = scan_graph()
    with pytest.raises(ArgumentError, match=r"iota is a single operation.*\n.*folded nodes here: scan"):
        g.open("iota")


def test_a_step_that_did_not_run_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"the loop ran 3 times\n\s+iterations are 0 to 2"):
        scan_graph().open("scan", 3)
