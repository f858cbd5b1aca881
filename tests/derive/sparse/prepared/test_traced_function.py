"""A prepared derivative comes from one trace of its function."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.derive import sparse
from chainrule.derive.jaxprs import equations
from chainrule.derive.sparse.signature import signed
from chainrule.derive.sparse.traced_function import traced_function


@pytest.mark.parametrize("what", [sparse.jacobian, sparse.hessian])
def test_the_function_is_called_once(what: Any) -> None:
    calls = []

    def f(x: Any, scale: Any) -> Any:
        calls.append(1)
        y = scale * jnp.sin(x) * jnp.roll(x, 1)
        return y if what is sparse.jacobian else jnp.sum(y)

    x = jnp.linspace(0.1, 1.0, 6)
    made = what(f, x, args=(2.0,), format="dense")
    found, under_vmap = made(x, 3.0), jax.vmap(made, (0, None))(x[None], 3.0)[0]
    assert len(calls) == 1
    dense = jax.jacobian if what is sparse.jacobian else jax.hessian
    np.testing.assert_allclose(found, dense(f)(x, 3.0), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(under_vmap, found, rtol=1e-5, atol=1e-6)


def test_small_calls_are_written_out_and_large_ones_stay_calls() -> None:
    @jax.jit
    def large(x: Any) -> Any:
        for _ in range(20):
            x = jnp.sin(x)
        return x

    def f(x: Any) -> Any:
        return large(jnp.roll(large(x), 1))

    x = jnp.ones(3)
    signature, *_ = signed("sparse.jacobian", x)
    program = traced_function("jacobian", f, signature).program
    calls = [equation for equation in program.eqns if equations.is_plain_call(equation)]
    assert [equation.params["name"] for equation in calls] == ["large", "large"]
    assert calls[0].params["jaxpr"] is calls[1].params["jaxpr"]  # so that it is compiled once


def test_a_call_that_says_where_its_result_lies_stays_a_call() -> None:
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    placed = jax.jit(lambda x: 2.0 * x, out_shardings=device)
    signature, *_ = signed("sparse.jacobian", jnp.ones(3))
    program = traced_function("jacobian", lambda x: placed(x) ** 2, signature).program
    assert any(equations.is_plain_call(equation) for equation in program.eqns)


def test_a_number_of_another_precision_beside_the_point_is_taken_in_the_prepared_one() -> None:
    x = {"a": np.linspace(0.1, 1.0, 4, dtype=np.float16), "b": 0.5}
    J = sparse.jacobian(lambda x: x["a"] ** 2 * x["b"], x, format="dense")
    found = J(x)
    expected = np.concatenate([np.diag(x["a"]), (x["a"] ** 2)[:, None]], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-2)
