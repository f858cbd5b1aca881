"""Flops by the documented model, bytes, and the user's line for every operation."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from chainrule.derive.computation_graph import graph
from chainrule.derive.jaxprs import cost
from chainrule.derive.jaxprs.source import SourceLine


def _flops(f: Any, *args: Any) -> int:
    return cost.program_flops(jax.make_jaxpr(f)(*args))


@pytest.mark.parametrize(
    ("f", "shapes", "expected"),
    [
        (jnp.matmul, [(3, 4), (4, 5)], 2 * 3 * 4 * 5),
        (jnp.matmul, [(7, 3, 4), (7, 4, 5)], 2 * 7 * 3 * 4 * 5),
        (jnp.dot, [(6,), (6,)], 12),
        (lambda x: jnp.sin(x) * x, [(2, 3)], 12),
        (lambda x: x.sum(), [(2, 3)], 6),
        (lambda x: x.reshape(6).T[None], [(2, 3)], 0),
        (lambda x: jnp.linalg.cholesky(x @ x.T), [(3, 3)], None),
        (lambda x: lax.scan(lambda c, t: (c * t, None), 1.0, x)[0], [(9,)], 9),
        (lambda x: lax.cond(x.sum() > 0, jnp.sin, lambda v: v * v + v, x), [(4,)], 4 + 1 + 8),
        (lambda x: jnp.sort(x), [(8,)], 24),
        (lambda x: jnp.fft.fft(x.astype(complex)), [(8,)], 120),
    ],
)
def test_flops_follow_the_documented_model(f: Any, shapes: list[Any], expected: int | None) -> None:
    found = _flops(f, *(jnp.ones(shape) for shape in shapes))
    assert found == expected if expected is not None else found > 0


@pytest.mark.parametrize("groups", [1, 2])
def test_flops_of_a_convolution_are_those_of_the_compiler_without_padding(groups: int) -> None:
    x, k = jnp.ones((2, 4, 9, 8)), jnp.ones((6, 4 // groups, 3, 3))

    def convolve(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, (2, 1), "VALID", feature_group_count=groups)

    compiled = jax.jit(convolve).lower(x, k).compile().cost_analysis()["flops"]
    assert _flops(convolve, x, k) == compiled == 2 * (2 * 6 * 4 * 6) * (4 // groups) * 9


def test_bytes_are_those_of_the_results() -> None:
    g = graph(lambda x: jnp.sum(x.astype(jnp.bfloat16) > 0), np.ones((3, 5), np.float32))
    assert [node.bytes for node in g.nodes[:3]] == [60, 30, 15]


def first_line(x: Any) -> Any:
    return jnp.sin(x)  # the line of the sine


def test_every_operation_knows_the_line_it_was_written_on() -> None:
    node = graph(lambda x: first_line(x) * 2.0, 1.0).node("sin")
    assert isinstance(node.source, SourceLine)
    assert str(node.source).startswith("test_costs_and_sources.py:")
    assert node.source.function == "first_line"
    assert node.source.text == "return jnp.sin(x)  # the line of the sine"


def test_operations_of_library_functions_belong_to_the_line_that_called_them() -> None:
    g = graph(lambda x: jnp.linalg.norm(x), np.ones(3))
    assert {node.source.function for node in g.nodes if node.source} == {"<lambda>"}
    assert all(node.source is not None for node in g.nodes if node.kind == "operation")
