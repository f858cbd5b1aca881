"""The measured table of the four Hessian strategies."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError
from tests.derive.dense.functions import point, rosenbrock

STRATEGIES = cr.derive.STRATEGIES


def test_every_strategy_has_a_row_with_its_number_of_runs() -> None:
    table = cr.derive.compare_hessian(rosenbrock, point(5), repeats=1)
    assert [row.strategy for row in table.rows] == list(STRATEGIES)
    assert [row.runs for row in table.rows] == [15, 5, 5, 5]
    assert [row.gives for row in table.rows] == ["wᵀHv", "Hv", "Hv", "Hv"]
    assert table.inputs == 5
    for row in table.rows:
        assert row.deviation <= 1e-12
        assert row.flops_per_run > 0
        assert row.flops_vs_gradient == pytest.approx(row.flops_per_run / table.gradient_flops)
        assert row.seconds_per_run > 0
        assert row.seconds > 0
        assert row.liveness_bytes >= 8 * 5


def test_the_table_prints_and_becomes_json_and_a_picture() -> None:
    table = cr.derive.compare_hessian(rosenbrock, {"x": point(3)}["x"], repeats=1)
    lines = str(table).splitlines()
    assert lines[0].startswith("Hessian of 3 inputs; one gradient: ")
    assert len(lines) == 6
    assert len({len(line) for line in lines[2:]}) == 1  # columns line up
    assert json.loads(json.dumps(table.to_json()))["rows"][0]["runs"] == 6
    picture = table.picture()
    assert len(picture.rows) == 4
    assert len(picture.columns) == len(picture.rows[0])


def growing(x: Any) -> Any:
    grow = lambda h: 1.5 * h + 0.1 * jnp.sin(h)  # noqa: E731
    return jax.lax.while_loop(lambda h: h.sum() < 10, grow, x).sum()


@jax.custom_vjp
def cubes(x: Any) -> Any:
    return jnp.sum(x**3)


cubes.defvjp(lambda x: (cubes(x), x), lambda x, u: (u * 3 * x**2,))

FOF, FOR, ROF, ROR = STRATEGIES


@pytest.mark.parametrize(
    ("f", "same", "applicable"),
    [
        (growing, growing, [FOF]),
        (cubes, lambda x: jnp.sum(x**3), [FOR, ROR]),
        (lambda x: jnp.sum(x**3) if x[0] > 0 else x.sum(), lambda x: jnp.sum(x**3), list(STRATEGIES)),
        (lambda x: jnp.sum(x[x > 0.4] ** 3), lambda x: jnp.sum(x[1:] ** 3), list(STRATEGIES)),
    ],
    ids=["while", "custom reverse rule", "branch in Python", "mask in Python"],
)
def test_strategies_without_rules_are_named_and_the_others_measured(
    f: Any, same: Any, applicable: Any
) -> None:
    x = jnp.array([0.3, 0.5, 0.7])
    table = cr.derive.compare_hessian(f, x, repeats=1)
    assert [row.strategy for row in table.rows] == applicable
    assert set(table.missing) == set(STRATEGIES) - set(applicable)
    assert table.reference == (FOR if FOR in applicable else FOF)
    assert all(row.deviation <= 1e-12 and row.flops_per_run > 0 for row in table.rows)
    for name, why in table.missing.items():
        assert f"{name}: does not apply ({why})" in str(table)
    json.dumps(table.to_json())
    hessian = cr.derive.hessian(f, table.reference)(x)
    np.testing.assert_allclose(hessian, jax.jacfwd(jax.jacfwd(same))(x), rtol=1e-12)
    direction = np.arange(3.0)
    for row in table.rows:
        product = cr.derive.hvp(f, row.strategy)(x, direction)
        np.testing.assert_allclose(product, hessian @ direction, rtol=1e-12)


def test_a_product_without_rules_names_the_strategies_to_try() -> None:
    with pytest.raises(ArgumentError, match=r"forward-over-reverse.*Reverse-mode(.|\n)*forward-over-forward"):
        cr.derive.hvp(growing)(point(3), point(3))


def test_products_need_no_forward_rule_for_a_value_they_do_not_use_however_they_are_run() -> None:
    x = point(3)
    product = lambda v: cr.derive.hvp(cubes)(x, v)  # noqa: E731
    for run in (
        jax.vmap(product),
        jax.jit(jax.vmap(product)),
        jax.jit(lambda basis: jax.lax.map(product, basis)),
    ):
        np.testing.assert_allclose(run(np.eye(3)), np.diag(6 * x), rtol=1e-12)


def test_where_no_strategy_applies_every_reason_is_given() -> None:
    with pytest.raises(
        ArgumentError, match=r"no strategy can(.|\n)*forward-over-forward: (.|\n)*reverse-over-reverse: "
    ):
        cr.derive.compare_hessian(lambda x: growing(x) + cubes(x), point(3), repeats=1)


def network(width: int, depth: int) -> tuple[object, np.ndarray]:
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((width, width)) / width**0.5 for _ in range(depth)]

    def loss(x: jax.Array) -> jax.Array:
        for w in weights:
            x = jnp.tanh(x @ w)
        return (x**2).sum()

    return loss, rng.standard_normal(width)


def test_a_hessian_product_of_a_network_costs_little_more_than_two_gradients() -> None:
    f, x = network(16, 4)
    table = cr.derive.compare_hessian(f, x, repeats=1)
    _, forward_over_reverse, reverse_over_forward, _ = table.rows
    assert forward_over_reverse.flops_vs_gradient <= 2.5
    assert reverse_over_forward.flops_vs_gradient <= 2.5


def test_the_gradient_of_a_network_costs_less_than_three_values() -> None:
    """In weights and input, for a batch, as in training."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((64, 64)) / 8 for _ in range(4)]
    batch = rng.standard_normal((32, 64))

    def loss(weights: list[jax.Array]) -> jax.Array:
        h = jnp.asarray(batch)
        for w in weights:
            h = jnp.tanh(h @ w)
        return (h**2).mean()

    def flops(f: object, *args: object) -> float:
        return float(jax.jit(f).lower(*args).compile().cost_analysis()["flops"])  # type: ignore[arg-type]

    value, gradient = flops(loss, weights), flops(cr.derive.gradient(loss), weights)
    product = flops(cr.derive.hvp(loss), weights, weights)
    assert gradient / value <= 2.8
    assert product / gradient <= 2.5
