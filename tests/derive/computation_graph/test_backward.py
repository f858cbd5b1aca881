"""The backward pass step by step: local derivatives on every edge, what is sent, and pictures of each step."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import report
from chainrule.core import expressions
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.derive.computation_graph import Graph, graph
from chainrule.report import page


@pytest.fixture(autouse=True, scope="module")
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def two_paths(w: Any, x: Any) -> Any:
    return jnp.tanh(w * x) + x**3 / w


@pytest.fixture(scope="module")
def found(_double: None) -> Graph:
    return graph(two_paths, 0.5, 2.0)


def test_every_edge_has_its_local_derivative(found: Graph) -> None:
    tanh = float(np.tanh(1.0))
    expected = {
        ("w", "mul"): 2.0,
        ("x", "mul"): 0.5,
        ("mul", "tanh"): 1 - tanh**2,
        ("x", "integer_pow"): 12.0,
        ("integer_pow", "div"): 2.0,
        ("w", "div"): -32.0,
        ("tanh", "add"): 1.0,
        ("div", "add"): 1.0,
    }
    inner = [edge for edge in found.edges if edge.target is not None]
    named = {(found.node(e.source).name, found.node(e.target or 0).name): e for e in inner}
    assert named.keys() == expected.keys()
    for pair, edge in named.items():
        np.testing.assert_allclose(found.local_derivative(edge), expected[pair], rtol=1e-12)


def test_a_local_derivative_between_arrays_is_the_jacobian_of_the_operation() -> None:
    matrix = np.arange(6.0).reshape(2, 3)
    g = graph(lambda a, x: jnp.sin(a @ x), matrix, np.array([0.1, 0.2, 0.3]))
    by_a, by_x = (g.local_derivative(edge) for edge in g.edges_to("dot_general"))
    assert by_a is not None
    assert by_a.shape == (2, 2, 3)
    np.testing.assert_allclose(by_x, matrix)
    (by_dot,) = (g.local_derivative(edge) for edge in g.edges_to("sin"))
    np.testing.assert_allclose(by_dot, np.diag(np.cos(matrix @ [0.1, 0.2, 0.3])), rtol=1e-12)
    large = graph(lambda x: jnp.sin(x), np.ones(100))
    assert large.local_derivative(large.edges_to("sin")[0]) is None
    assert "d 100×100" in large.to_svg()


def test_each_step_sends_adjoint_times_local_derivative_and_the_sums_are_the_gradient(found: Graph) -> None:
    passed = found.backward()
    for step in passed:
        for message in step.messages:
            if step.node is not None:
                assert message.local is not None
                np.testing.assert_allclose(message.contribution, step.adjoint * message.local, rtol=1e-12)
    last = passed.adjoints_after(len(passed) - 1)
    gradient = jax.grad(two_paths, argnums=(0, 1))(0.5, 2.0)
    np.testing.assert_allclose([last[0], last[1]], gradient, rtol=1e-12)
    assert passed.adjoints_after(0).keys() == {len(found) - 1}


def test_a_node_that_is_used_twice_adds_up_what_it_is_sent() -> None:
    text = str(graph(lambda x: x * x, 3.0).backward())
    assert "x ← 1 · 3 = 3 " in text
    assert "x ← 1 · 3 = 3; x has 6 so far" in text


def test_steps_are_also_written_as_expressions_in_the_names_of_the_graph(found: Graph) -> None:
    said = [line for step in found.backward() for line in step.expressions]
    (rule,) = [line for line in said if line.startswith("r[mul] += r[tanh] * ")]
    factor = rule.removeprefix("r[mul] += r[tanh] * ").replace("tanh", "t")  # JAX writes it in its own way
    slope = expressions.read(factor.replace("one_minus_square(t)", "1 - t * t"))
    assert float(slope(0.5)) == pytest.approx(0.75)
    assert "r[x] += r[integer_pow] * (3.0 * (x ** 2))" in said
    assert "r[x] += r[mul] * w" in said
    assert "r[tanh] += r[add]" in said


def test_what_has_no_derivative_is_sent_nothing() -> None:
    passed = graph(lambda x: jnp.where(x > 0, x, 2 * x), 1.5).backward()
    assert {message.to for step in passed for message in step.messages} == {"select_n", "x", "mul"}
    assert float(passed.adjoints_after(len(passed) - 1)[0]) == 1.0


def test_a_picture_of_a_step_shows_the_adjoints_that_have_arrived_and_nothing_moves(found: Graph) -> None:
    pictures = [found.to_svg(step=number) for number in range(len(found.backward()))]
    assert pictures[0].count(">none yet<") == len(found) - 1
    assert ">none yet<" not in pictures[-1]
    assert len({ET.fromstring(picture).get("viewBox") for picture in pictures}) == 1
    assert ">r 24<" not in pictures[0]
    assert ">r 24<" in pictures[-1]
    assert ">d 12<" in found.to_svg()
    with pytest.raises(ArgumentError, match="step=99: the backward pass has the steps 0 to"):
        found.to_svg(step=99)


def test_a_page_steps_through_without_a_script(found: Graph) -> None:
    slides = found.slides()
    shown = page.figure(slides)
    assert shown.count('type="radio"') == len(slides.drawings) == len(found.backward())
    assert shown.count("next ›") == shown.count("‹ back") == len(slides.drawings) - 1
    assert "<script" not in shown
    assert "r[x] += r[mul] * w" in shown
    assert report.draw(slides).startswith("<svg")
    with pytest.raises(CapabilityError, match="SVG only"):
        report.draw_png(slides)
