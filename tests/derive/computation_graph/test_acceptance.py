"""Worked examples with known numbers."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from chainrule.derive.computation_graph import graph


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def two_sigmoids(w1: Any, w2: Any, x: Any) -> Any:
    return jax.nn.sigmoid(w1 * x) + jax.nn.sigmoid(w2 * x)


def test_tangents_and_adjoints_of_x_plus_x_squared_at_three() -> None:
    g = graph(lambda x: x + x**2, 3.0)
    x, square, total = g.nodes
    direct = next(edge for edge in g.edges_from(x) if edge.target == total.id)
    assert [float(t) for t in (x.tangent, direct.tangent, square.tangent, total.tangent)] == [1, 1, 6, 7]
    assert sorted(float(edge.adjoint) for edge in g.edges_from(x)) == [1, 6]
    assert float(x.adjoint) == 7


def test_the_cut_after_the_two_terms_sums_to_seven() -> None:
    cut = graph(lambda x: x + x**2, 3.0).cut(["x", "integer_pow"])
    assert cut.terms == (1.0, 6.0)
    assert cut.total == 7.0


def test_the_picture_of_x_plus_x_squared_shows_the_sum_at_the_input() -> None:
    picture = graph(lambda x: x + x**2, 3.0).to_svg()
    assert "6 + 1 = 7" in picture
    assert [word in picture for word in (">t 1<", ">r 6<", ">r 1<", ">6<", ">7<", ">12<")] == [True] * 6


def test_two_sigmoids_have_their_textbook_derivatives() -> None:
    g = graph(two_sigmoids, 0.5, -1.0, 2.0)
    found = [float(g.node(name).adjoint) for name in ("w1", "w2", "x")]
    expected = [0.3932238664829637, 0.209987170807013, -0.006687618782765581]
    assert found == pytest.approx(expected, abs=1e-12)


def test_two_paths_lead_from_x_and_their_contributions_sum_to_the_derivative() -> None:
    paths = graph(two_sigmoids, 0.5, -1.0, 2.0).paths("x", "add")
    assert [[node.name for node in path.nodes] for path in paths] == [
        ["x", "mul", "logistic", "add"],
        ["x", "mul_2", "logistic_2", "add"],
    ]
    assert [path.contribution for path in paths] == pytest.approx([0.0983059666207409, -0.1049935854035065])
    assert paths.total == pytest.approx(-0.006687618782765581, abs=1e-12)


@pytest.mark.parametrize("a", [-1000.0, -3.0, 0.0, 2.0, 1000.0])
@pytest.mark.parametrize("t", [0.0, 1.0])
def test_sigmoid_cross_entropy_has_the_slope_output_minus_target_everywhere(a: float, t: float) -> None:
    g = graph(lambda a: jax.nn.softplus(a) - t * a, a)
    assert float(g.node("a").adjoint) == pytest.approx(float(jax.nn.sigmoid(jnp.asarray(a))) - t, abs=1e-12)
