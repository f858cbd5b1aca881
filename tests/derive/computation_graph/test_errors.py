"""What a graph refuses, and how it says so."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.derive.computation_graph import graph
from chainrule.derive.memory_timeline import memory


def test_an_integer_argument_is_named_with_its_type_and_remedy() -> None:
    with pytest.raises(ArgumentError, match=r"graph: x has dtype int32.*\n.*3 becomes 3\.0, or close over x"):
        graph(lambda x: x + x**2, 3)


def test_an_integer_leaf_beside_floating_ones_is_shown_but_does_not_move() -> None:
    g = graph(lambda p, i: p["w"][i], {"w": jnp.ones(3)}, 1)
    assert g.node("i").tangent is None
    np.testing.assert_array_equal(g.node("p.w").adjoint, [0, 1, 0])


def test_a_value_that_is_no_array_is_named_by_its_path() -> None:
    with pytest.raises(ArgumentError, match=r"params\.mode is of type str, which is neither an array"):
        graph(lambda params: params["w"] * 2, {"w": 1.0, "mode": "fast"})


def test_a_result_that_is_no_array_is_named() -> None:
    with pytest.raises(ArgumentError, match=r"f returns 'done' at output\.1"):
        graph(lambda x: (x, "done"), 1.0)


def test_no_arguments_are_refused() -> None:
    with pytest.raises(ArgumentError, match="without arguments"):
        graph(lambda: 1.0)


def test_a_value_taken_out_of_jax_is_refused() -> None:
    with pytest.raises(
        CapabilityError, match=r"graph: f takes a value out of JAX with float\(\).*\n.*jax\.numpy"
    ):
        graph(lambda x: x if float(x) > 0 else -x, 1.0)


def test_a_python_branch_without_numbers_is_explained() -> None:
    with pytest.raises(ArgumentError, match=r"branches in Python.*\n.*tape\(f, x\)"):
        memory(lambda x: x if x > 0 else -x, jax.ShapeDtypeStruct((), np.float32))
    with pytest.raises(ArgumentError, match=r"branches in Python.*\n.*tape\(f, x\)"):
        graph(lambda x: jax.jit(lambda y: y if y > 0 else -y)(x), 1.0)


def test_a_graph_inside_a_transformation_is_refused() -> None:
    with pytest.raises(CapabilityError, match=r"x is being traced.*\n.*outside of jax\.jit"):
        jax.jit(lambda x: graph(jnp.sin, x).derivative)(1.0)


@pytest.mark.parametrize(
    ("keyword", "given", "words"),
    [
        ("tangent", [1.0, 2.0], "its structure is not that of the arguments"),
        ("tangent", {"a": np.ones(2)}, r"x\.a has shape \(3,\), here \(2,\)"),
        ("cotangent", np.ones(2), r"output has shape \(\), here \(2,\)"),
    ],
)
def test_directions_must_fit(keyword: str, given: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        graph(lambda x: x["a"].sum(), {"a": np.ones(3)}, **{keyword: given})


def test_an_unknown_node_is_named_with_the_closest() -> None:
    with pytest.raises(ArgumentError, match=r"no such node \(did you mean 'logistic'\?\)"):
        graph(jax.nn.sigmoid, 1.0).node("logistics")
    with pytest.raises(ArgumentError, match="ids 0 to 1"):
        graph(jnp.sin, 1.0).node(2)
