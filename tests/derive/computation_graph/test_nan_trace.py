"""The first operation whose value, tangent or adjoint is not finite."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from chainrule.derive.computation_graph.nonfinite import nan_trace


def masked_root(x: Any) -> Any:
    return jnp.where(x > 0, jnp.sqrt(x), 0.0)


def masked_twice(x: Any) -> Any:
    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)


@pytest.mark.parametrize("x", [0.0, np.zeros(3, np.float32)])
def test_a_masked_root_passes_back_nan_and_the_remedy_is_to_mask_twice(x: Any) -> None:
    found = nan_trace(lambda x: masked_root(x).sum(), x)
    assert found.value is None
    assert found.adjoint is not None
    assert found.adjoint.operation == "sqrt"
    assert "nan" in found.adjoint.shown or "not finite" in found.adjoint.shown
    assert "mask the argument too" in found.adjoint.remedy
    assert found.adjoint.source is not None
    assert found.adjoint.source.function == "masked_root"


def test_the_remedy_works() -> None:
    found = nan_trace(masked_twice, 0.0)
    assert not found
    assert str(found) == "every value, tangent and adjoint is finite"


def test_a_root_at_zero_without_a_mask_has_another_remedy() -> None:
    found = nan_trace(jnp.linalg.norm, np.zeros(3, np.float32))
    assert found.adjoint is not None
    assert (found.adjoint.operation, "keep its argument positive" in found.adjoint.remedy) == ("sqrt", True)


def test_a_bad_value_is_reported_first_and_alone() -> None:
    found = nan_trace(lambda x: jnp.exp(x) / jnp.exp(x).sum(), np.array([1000.0, 1.0], np.float32))
    assert found.first is found.value
    assert found.value is not None
    assert found.value.operation == "exp"
    assert str(found).startswith("value: exp(x) at test_nan_trace.py:")
    assert "subtract the maximum" in str(found)
    assert "tangent:" not in str(found)


def test_a_bad_argument_is_named() -> None:
    found = nan_trace(lambda weight: weight * 2, np.nan)
    assert str(found).startswith("value: weight: value is not finite (nan)")


def test_calls_are_opened_to_the_operation() -> None:
    @jax.jit
    def helper(x: Any) -> Any:
        return jnp.log(x - 1.0) * x

    found = nan_trace(lambda x: helper(x) + 1.0, 1.0)
    assert found.value is not None
    assert (found.value.operation, found.value.inside) == ("log", ("helper",))


def test_loops_are_opened_to_the_step() -> None:
    def shrinking(x: Any) -> Any:
        return lax.scan(lambda c, t: (jnp.log(c - t), None), x, jnp.arange(5.0))[0]

    found = nan_trace(shrinking, 3.0)
    assert found.value is not None
    assert (found.value.operation, found.value.inside) == ("log", ("scan, step 3 of 5",))


def test_the_step_that_spoils_an_adjoint_is_found() -> None:
    def rooted(x: Any) -> Any:
        return lax.scan(lambda c, t: (jnp.sqrt(c) * t, None), x, jnp.array([1.0, 0.0, 1.0, 1.0]))[0]

    found = nan_trace(rooted, 4.0)
    assert found.value is None
    assert found.adjoint is not None
    assert found.adjoint.inside == ("scan, step 4 of 4",)


def test_a_constant_spoiled_inside_a_loop_is_found_too() -> None:
    def poked(x: Any) -> Any:
        return lax.scan(lambda c, t: (c + jnp.where(t > 1, 0.0, jnp.sqrt(x)), None), 1.0, jnp.arange(3.0))[0]

    found = nan_trace(poked, 0.0)
    assert found.adjoint is not None
    assert found.adjoint.operation == "sqrt"


def test_weights_that_are_not_finite_are_blamed_on_whoever_gave_them() -> None:
    found = nan_trace(lambda x: x * 2, 1.0, cotangent=np.inf)
    assert found.adjoint is not None
    assert found.adjoint.shown == "given: inf"


def test_finite_contributions_with_an_infinite_sum_are_found() -> None:
    found = nan_trace(lambda x: x * 3e38 + x * 3e38, 1e-6)
    assert found.adjoint is not None
    assert "the sum of its uses" in found.adjoint.shown
