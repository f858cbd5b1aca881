"""Which method is taken, and what the report says."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.derive import sparse
from chainrule.derive.dense.planning import NoRuleError
from tests.derive.sparse.prepared import functions


def test_an_arrow_is_read_in_both_directions() -> None:
    J = sparse.jacobian(functions.arrow, np.linspace(1.0, 2.0, 40))
    assert J.coloring.method == "bidirectional"
    assert J.report.products == {"forward": 2, "reverse": 1}
    assert "columns alone need at least 40" in J.report.reason


def test_one_output_of_many_inputs_is_one_reverse_product() -> None:
    J = sparse.jacobian(lambda z: jnp.sum(z**2)[None], np.ones(50))
    assert (J.coloring.method, J.report.products) == ("row", {"reverse": 1})


def test_a_dearer_reverse_product_is_weighed_against_fewer_of_them() -> None:
    """Four columns against three rows: rows are fewer but each costs more than 4/3 of a column."""

    def f(z: jax.Array) -> jax.Array:
        return jnp.stack([jnp.prod(jnp.sin(z) * jnp.exp(z) + k) for k in range(3)])

    J = sparse.jacobian(f, np.linspace(0.1, 0.4, 4))
    assert J.coloring.considered == {"column": 4, "row": 3}
    assert "times a forward one" in J.report.reason
    forward, reverse = (
        jax.jit(g).lower(jnp.ones(4), v).cost_analysis()["flops"]
        for g, v in (
            (lambda x, v: jax.jvp(f, (x,), (v,))[1], jnp.ones(4)),
            (lambda x, u: jax.vjp(f, x)[1](u)[0], jnp.ones(3)),
        )
    )
    assert J.coloring.method == ("column" if 4 * forward <= 3 * reverse else "row")


@jax.custom_vjp
def no_forward(x: jax.Array) -> jax.Array:
    return x**2


no_forward.defvjp(lambda x: (x**2, x), lambda x, g: (2 * x * g,))


def test_a_function_without_a_forward_rule_is_done_in_reverse() -> None:
    J = sparse.jacobian(lambda z: no_forward(z[:3]) + z[3], np.arange(4.0), format="dense")
    assert J.coloring.method == "row"
    assert "no forward rule" in J.report.reason
    np.testing.assert_allclose(J(np.arange(4.0))[:, :3], np.diag(2 * np.arange(3.0)))
    J.verify(np.arange(4.0))


@jax.custom_vjp
def cubes(x: jax.Array) -> jax.Array:
    return jnp.sum(x**3)


cubes.defvjp(lambda x: (cubes(x), x), lambda x, g: (3 * x**2 * g,))


def test_a_hessian_needs_no_forward_rule_for_a_value_it_does_not_use() -> None:
    H = sparse.hessian(cubes, np.arange(1.0, 4.0), format="dense")
    np.testing.assert_allclose(H(np.arange(1.0, 4.0)), np.diag(6 * np.arange(1.0, 4.0)))


def loop(z: jax.Array) -> jax.Array:
    return jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * z), (0, jnp.ones_like(z)))[1]


def test_a_function_without_a_reverse_rule_is_done_forward() -> None:
    J = sparse.jacobian(lambda z: jnp.sum(loop(z))[None], np.arange(1.0, 5.0), format="dense")
    assert J.coloring.method == "column"
    np.testing.assert_allclose(J(np.arange(1.0, 5.0))[0], 3 * np.arange(1.0, 5.0) ** 2)


def test_a_hessian_without_a_reverse_rule_is_done_forward_over_forward() -> None:
    H = sparse.hessian(lambda z: jnp.sum(loop(z)), np.arange(1.0, 4.0), format="dense")
    np.testing.assert_allclose(H(np.arange(1.0, 4.0)), np.diag(6 * np.arange(1.0, 4.0)), atol=1e-12)


def test_substitution_is_taken_where_it_saves_enough_products_and_is_not_deep() -> None:
    """A band with hubs: seven colours directly, five by substitution; a plain band would need a deep one."""
    n = 30
    full = (np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= 2) * 1.0
    full[:2] = full[:, :2] = 1.0
    H = sparse.hessian(
        lambda z: 0.5 * z @ jnp.asarray(full) @ z,
        np.ones(n),
        format="dense",
        pattern=functions.pattern_of(full),
    )
    assert H.coloring.method == "acyclic"
    assert H.coloring.considered == {"star": 7, "acyclic": 5}
    assert "saves 2 of 7" in H.report.reason
    np.testing.assert_allclose(H(np.ones(n)), full, atol=1e-12)
    chain = sparse.hessian(functions.chain, np.ones(60))
    assert chain.coloring.method == "star"
    assert 'method="acyclic" needs 2, by substitutions' in chain.report.reason


def test_the_report_can_be_printed_and_kept() -> None:
    J = sparse.jacobian(functions.brusselator(4), np.linspace(0.5, 1.5, 32))
    text = str(J.report)
    assert "32 x 32" in text
    assert "products" in text
    kept = json.loads(json.dumps(J.report.to_json()))
    assert kept["nnz"] == J.pattern.nnz == 32 * 6
    assert kept["lower_bound"] == 6
    assert set(kept["seconds"]) == {"trace", "detect", "colour", "compile", "certify"}
    assert kept["colors"]["column"]["natural"] >= kept["products"]["forward"]


def looped(z: Any) -> Any:
    return jax.lax.while_loop(lambda s: s[0] < 3.0, lambda s: (s[0] + 1.0, s[1] * z), (0.0, z))[1]


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (
            lambda x: sparse.jacobian(lambda z: z.at[1].apply(jnp.sin), x),
            r"sparse\.jacobian: no mode can differentiate the function\n *one: scatter_apply JVP not implemented",
        ),
        (
            lambda x: sparse.hessian(lambda z: jnp.sum(z.at[1].apply(jnp.sin)), x),
            r"sparse\.hessian: no mode can differentiate the function",
        ),
        (
            lambda x: sparse.jacobian(looped, x, "row"),
            r'sparse\.jacobian\(method="row"\): Reverse-mode differentiation does not work .*\n *method="auto" takes',
        ),
    ],
)
def test_a_function_without_a_rule_says_so(prepare: Any, message: str) -> None:
    with pytest.raises(NoRuleError, match=message):
        prepare(np.ones(3))
    assert (
        sparse.jacobian(looped, np.ones(3), format="dense")(np.ones(3)).tolist() == (4.0 * np.eye(3)).tolist()
    )
