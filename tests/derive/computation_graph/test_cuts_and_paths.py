"""Cuts all say the same number; paths add up to the derivative."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.core.errors import ArgumentError
from chainrule.derive.computation_graph import graph
from tests.derive.computation_graph.programs import Line, build, lines

POINT = np.array([0.3, -0.8, 1.1])


@pytest.fixture(autouse=True, scope="module")
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@settings(max_examples=15)
@given(lines(), st.integers(0, 2**20))
def test_any_cut_of_any_program_sums_to_the_directional_derivative(program: list[Line], pick: int) -> None:
    g = graph(build(program), POINT)
    slope = jax.jvp(build(program), (jnp.asarray(POINT),), (jnp.ones(3),))[1]
    assert g.derivative == pytest.approx(float(slope), rel=1e-11, abs=1e-12)
    assert g.invariant().deviation < 1e-11
    chosen = [node for node in g.nodes if pick >> (node.id % 20) & 1]
    assert g.cut(chosen).total == pytest.approx(g.derivative, rel=1e-11, abs=1e-11)


@settings(max_examples=15)
@given(lines(6))
def test_paths_of_any_program_add_up_to_the_derivative(program: list[Line]) -> None:
    g = graph(build(program), POINT)
    paths = g.paths("x", g.nodes[-1], limit=100_000)
    assert paths.total == pytest.approx(g.derivative, rel=1e-10, abs=1e-11)


def test_a_rule_whose_two_modes_disagree_breaks_the_invariant() -> None:
    def lopsided(x: Any) -> Any:
        return jax.custom_derivatives.linear_call(lambda _, v: 2 * v, lambda _, w: 3 * w, (), x)

    g = graph(lambda x: jnp.sin(lopsided(x)).sum(), POINT)
    assert g.invariant().deviation > 0.1


def test_both_sweeps_follow_a_custom_rule_even_where_it_differs_from_the_code() -> None:
    @jax.custom_vjp
    def tripled(x: Any) -> Any:
        return 2 * x

    tripled.defvjp(lambda x: (tripled(x), None), lambda _, weight: (3 * weight,))
    g = graph(lambda x: tripled(x).sum(), POINT)
    assert (g.derivative, g.invariant().deviation) == (9.0, 0.0)


def test_contributions_between_scalars_are_products_of_local_derivatives() -> None:
    g = graph(lambda x: jnp.sin(x) * x**2, 0.7)
    contributions = {path.nodes[1].name: path.contribution for path in g.paths("x", "mul")}
    assert contributions == pytest.approx(
        {"sin": np.cos(0.7) * 0.49, "integer_pow": np.sin(0.7) * 1.4}, rel=1e-13
    )


def test_inner_nodes_have_paths_too() -> None:
    g = graph(lambda x: jnp.exp(2 * jnp.sin(x)), 0.7)
    assert g.paths("sin", "exp").total == pytest.approx(2 * np.exp(2 * np.sin(0.7)), rel=1e-13)
    assert len(g.paths("exp", "sin")) == 0
    assert g.paths("sin", "sin").total == 1.0


def test_more_paths_than_the_limit_are_counted_and_refused() -> None:
    def doubling(x: Any) -> Any:
        for _ in range(70):
            x = x + x
        return x

    with pytest.raises(ArgumentError, match=f"there are {2**70} paths, more than limit=1000"):
        graph(doubling, 1.0).paths("x", "add_70")


def test_paths_through_integers_carry_nothing() -> None:
    g = graph(lambda x: x * jnp.argmax(jnp.stack([x, 2 * x])), 1.5)
    assert {node.operation for path in g.paths("x", g.nodes[-1]) for node in path.nodes} == {"input", "mul"}
