"""`check` accepts right derivatives and names the entry of a wrong one, whatever rule it hides in."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.derive.dense.complex_step import NotAnalyticError, complex_step
from tests.derive.dense.functions import CASES, forward_only, point, python_branch, reverse_only
from tests.tiers import tiers

check = cr.derive.check


@pytest.mark.parametrize(
    "name",
    tiers(
        ["linear", "rosenbrock", "matrix", "scan", "sort", "custom forward rule"],
        slow=["matrix", "sort"],
    ),
)
def test_right_derivatives_pass(name: str) -> None:
    case = CASES[name]
    found = check(case.f, case.x)
    assert all(deviation <= 1e-6 for deviation in found.deviations.values())
    assert found.deviations["forward against reverse"] <= 1e-12
    assert "reverse-over-reverse" not in found.skipped


def test_a_report_lists_what_was_compared() -> None:
    found = check(lambda x: jnp.sum(jnp.sin(x) * x**2), point(4))
    assert set(found.deviations) == {
        "forward against reverse",
        "forward against central differences",
        "forward against complex step",
        "u·(Jv) against (Jᵀu)·v",
        "forward-over-forward against forward-over-reverse",
        "forward-over-forward against reverse-over-forward",
        "forward-over-forward against reverse-over-reverse",
        "forward-over-forward against differences of the gradient",
    }
    assert str(found).startswith("derivatives agree within 1e-06\n  forward against reverse ")
    assert not found.skipped


def test_taylor_remainders_vanish_at_the_expected_orders() -> None:
    slopes = check(lambda x: jnp.exp(jnp.sin(x)).sum(), point(4)).slopes
    assert slopes["without the gradient"] == pytest.approx(1, abs=0.3)
    assert slopes["with the gradient"] == pytest.approx(2, abs=0.3)
    assert slopes["with the Hessian"] == pytest.approx(3, abs=0.4)


@jax.custom_jvp
def wrong_forward(x: Any) -> Any:
    return jnp.sin(x)


wrong_forward.defjvps(lambda t, y, x: 1.001 * t * jnp.cos(x))


@jax.custom_vjp
def wrong_reverse(x: Any) -> Any:
    return jnp.sin(x)


def _wrong_back(x: Any, u: Any) -> tuple[Any]:
    return ((u * jnp.cos(x)).at[1].multiply(-1.0),)


wrong_reverse.defvjp(lambda x: (jnp.sin(x), x), _wrong_back)


@jax.custom_vjp
def wrong_second(x: Any) -> Any:
    return jnp.sin(x)


wrong_second.defvjp(lambda x: (jnp.sin(x), x), lambda x, u: (u * jax.lax.stop_gradient(jnp.cos(x)),))


def one_sided(x: Any) -> Any:
    """Forward and reverse mode disagree: the transpose of the linear part is wrong."""
    return jax.custom_derivatives.linear_call(lambda r, t: 2.0 * t, lambda r, u: 3.0 * u, (), x)


def test_a_wrong_forward_rule_is_caught_by_differences() -> None:
    with pytest.raises(cr.derive.DerivativeError, match="forward against central differences") as caught:
        check(lambda x: wrong_forward(jnp.abs(x)), np.array([1.0]))  # not analytic
    assert "doutput[0] / dx[0]: forward 0.5408" in str(caught.value)


def test_a_wrong_forward_rule_is_caught_by_the_complex_step_and_its_leaf_named() -> None:
    with pytest.raises(cr.derive.DerivativeError, match="forward against complex step") as caught:
        check(
            lambda p: wrong_forward(p["w"]).sum() + p["b"].sum(), {"b": np.ones(2), "w": np.array([0.0, 1.5])}
        )
    message = str(caught.value)
    assert "worst: doutput / dx['w'][0]: forward 1.001, complex step 1" in message
    assert "a wrong custom rule" in message


def test_a_wrong_reverse_rule_is_caught_and_its_entry_named() -> None:
    with pytest.raises(cr.derive.DerivativeError, match="reverse against complex step") as caught:
        check(lambda x: {"y": wrong_reverse(x)}, np.array([0.1, 0.2, 0.3]))
    assert "doutput['y'][1] / dx[1]: reverse -0.980066577841, complex step 0.980066577841" in str(
        caught.value
    )


def test_a_wrong_transpose_is_caught() -> None:
    with pytest.raises(
        cr.derive.DerivativeError, match=r"forward against reverse differs by 3.33e-01"
    ) as caught:
        check(one_sided, np.ones(2))
    assert "forward 2, reverse 3" in str(caught.value)


@pytest.mark.parametrize("rule", ["forward", "reverse"])
def test_a_wrong_rule_of_a_small_leaf_is_caught_beside_a_large_one(rule: str) -> None:
    wrong = wrong_forward if rule == "forward" else wrong_reverse
    x = {"large": point(3), "small": point(3)}
    inputs = lambda p: 1e5 * jnp.sum(p["large"] ** 2) + 1e-4 * jnp.sum(wrong(p["small"]))  # noqa: E731
    outputs = lambda p: (1e5 * p["large"] ** 2, 1e-4 * wrong(p["small"]))  # noqa: E731
    with pytest.raises(cr.derive.DerivativeError, match=r"worst: doutput / dx\['small'\]"):
        check(inputs, x)
    with pytest.raises(cr.derive.DerivativeError, match=r"worst: doutput\[1\]\[.\] / dx\['small'\]"):
        check(outputs, x)


def test_rounding_beside_a_large_leaf_is_not_taken_for_a_mistake() -> None:
    x = {"large": point(3), "small": point(3), "without effect": point(2)}
    f = lambda p: 1e5 * jnp.sum(p["large"] ** 3) + 1e-7 * jnp.sum(jnp.sin(p["small"]))  # noqa: E731
    unused = lambda p: jnp.sum(p["without effect"]) * (1 / 3 - 1 / 3)  # noqa: E731
    check(lambda p: f(p) + unused(p), x)


def test_complex_outputs_are_checked_without_the_complex_step() -> None:
    found = check(lambda x: x * (1 + 2j) + 1j * jnp.roll(x, 1) ** 2, point(3))
    assert found.skipped["complex step"].startswith("it returns complex numbers")
    assert found.deviations["u·(Jv) against (Jᵀu)·v"] < 1e-12


def test_a_wrong_second_derivative_is_caught() -> None:
    with pytest.raises(cr.derive.DerivativeError, match="against differences of the gradient") as caught:
        check(lambda x: wrong_second(x).sum(), np.array([0.4, 1.1]))
    assert "doutput / dx[1] dx[1]: forward-over-reverse 0, differences of the gradient -0.89" in str(
        caught.value
    )


def test_a_small_mistake_is_caught_by_the_complex_step() -> None:
    @jax.custom_jvp
    def nearly(x: Any) -> Any:
        return jnp.sin(x)

    nearly.defjvps(lambda t, y, x: (1 + 1e-8) * t * jnp.cos(x))
    with pytest.raises(cr.derive.DerivativeError, match=r"forward against complex step differs by 1.00e-08"):
        check(nearly, np.array([0.3]), tolerance=3e-9)


def test_a_kink_at_the_point_is_reported_as_one_of_the_causes() -> None:
    with pytest.raises(cr.derive.DerivativeError, match="a kink at the point"):
        check(lambda x: jnp.abs(x).sum(), np.array([1.0, 0.0]))


def test_a_function_in_single_precision_is_named_as_cause() -> None:
    f = lambda x: jnp.sin(x.astype(jnp.float32)).astype(jnp.float32)  # noqa: E731
    with pytest.raises(cr.derive.DerivativeError, match="computes in float32, where differences are coarse"):
        check(f, np.array([0.3]))


def test_missing_rules_are_skipped_and_listed() -> None:
    found = check(forward_only, np.full(2, 0.1))
    assert "while_loop" in found.skipped["reverse mode"]
    assert "forward against central differences" in found.deviations
    found = check(lambda x: reverse_only(x).sum(), np.ones(2))
    assert "forward mode" in found.skipped
    assert "reverse against central differences" in found.deviations
    assert "skipped: " in str(found)


def test_a_function_with_no_rule_at_all_cannot_be_checked() -> None:
    with pytest.raises(
        cr.derive.DerivativeError, match="neither a forward nor a reverse derivative"
    ) as caught:
        check(lambda x: reverse_only(forward_only(x)), np.full(2, 0.1))
    assert "while_loop" in str(caught.value)


def test_functions_that_branch_in_python_are_checked_too() -> None:
    found = check(python_branch, np.array([0.5, 1.5]))
    assert found.deviations["forward against reverse"] <= 1e-12


def test_single_precision_input_is_checked_in_double() -> None:
    with jax.enable_x64(False):
        found = check(lambda x: jnp.sum(jnp.tanh(x) ** 2), jnp.ones(3, jnp.float32))
    assert found.deviations["forward against central differences"] < 1e-9


def test_a_check_that_must_differ_is_not_fooled_by_nan() -> None:
    f = lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0).sum()  # noqa: E731  # the gradient at -1 is NaN, the difference 0
    with pytest.raises(cr.derive.DerivativeError, match="inf"):
        check(f, np.array([-1.0, 2.0]))


def test_large_inputs_are_checked_to_first_order() -> None:
    found = check(lambda x: jnp.sin(x[:3]), np.ones(201))
    assert found.skipped["second order"] == "201 inputs"


def test_the_complex_step_gives_the_jacobian_of_analytic_functions() -> None:
    f = lambda p: jnp.exp(jnp.sin(p["a"])) @ jnp.tanh(p["b"])  # noqa: E731
    p = {"a": point(3, 2), "b": point(2, seed=5)}
    J = jax.jacfwd(f)(p)
    expected = np.concatenate([np.asarray(J["a"]).reshape(3, -1), np.asarray(J["b"])], axis=1)
    np.testing.assert_allclose(complex_step(f, p), expected, rtol=1e-13)


@pytest.mark.parametrize(
    "f",
    [
        jnp.abs,
        jnp.sort,
        lambda x: x.real**2,
        lambda x: jnp.where(x > 0, x, 0.0),
        lambda x: x.astype(float),
        jnp.conj,
    ],
)
def test_the_complex_step_refuses_functions_that_are_not_analytic(f: Any) -> None:
    with pytest.raises(NotAnalyticError):
        complex_step(f, point(3))
