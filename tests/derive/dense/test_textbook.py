"""Numbers one can check by hand, and the textbook's recurrences as an oracle for all nestings."""

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from tests.derive.dense import recurrences

FOF, FOR, ROF, ROR = cr.derive.STRATEGIES


def test_x_plus_its_square_adds_up_at_the_fan_out() -> None:
    assert float(cr.derive.gradient(lambda x: x + x**2)(3.0)) == 7.0
    assert [float(part) for part in cr.derive.jvp(lambda x: x + x**2, 3.0, 1.0)] == [12.0, 7.0]
    assert float(cr.derive.vjp(lambda x: x + x**2, 3.0)[1](1.0)) == 7.0


def test_the_two_sigmoid_network_has_the_gradient_of_the_book() -> None:
    @jax.jit
    def network(x: jax.Array, w1: jax.Array, w2: jax.Array) -> jax.Array:
        return jax.nn.sigmoid(w1 * x) + jax.nn.sigmoid(w2 * x)

    at = (2.0, 0.5, -1.0)
    expected = (-0.006687618782765581, 0.3932238664829637, 0.209987170807013)
    for number, slope in enumerate(expected):
        assert float(cr.derive.gradient(network, number)(*at)) == pytest.approx(slope, rel=1e-12)
        for mode in ("forward", "reverse"):
            found = cr.derive.jacobian(network, mode, argnums=number)(*at)
            assert float(found) == pytest.approx(slope, rel=1e-12)
    together = cr.derive.gradient(network, (0, 1, 2))(*at)
    np.testing.assert_allclose(np.stack(together), expected, rtol=1e-12)


@jax.jit
def cross_entropy(target: jax.Array, a: jax.Array) -> jax.Array:
    return -target * jax.nn.log_sigmoid(a) - (1 - target) * jax.nn.log_sigmoid(-a)


@pytest.mark.parametrize("a", [-1000.0, -3.0, 0.0, 2.0, 1000.0])
@pytest.mark.parametrize("target", [0.0, 1.0, 0.3])
def test_sigmoid_cross_entropy_has_the_slope_prediction_minus_target(a: float, target: float) -> None:
    entropy = partial(cross_entropy, target)
    expected = 1 / (1 + np.exp(-min(max(a, -700), 700))) - target
    assert float(cr.derive.gradient(entropy)(a)) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert float(cr.derive.jvp(entropy, a, 1.0)[1]) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_conventions_at_the_edges_of_smoothness() -> None:
    assert float(cr.derive.gradient(jax.nn.relu)(0.0)) == 0.0
    assert -1.0 <= float(cr.derive.gradient(jnp.abs)(0.0)) <= 1.0  # a subgradient; which one is up to JAX
    assert cr.derive.gradient(jnp.max)(jnp.array([2.0, 2.0, 1.0])).tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("strategy", cr.derive.STRATEGIES)
def test_rosenbrock_has_the_gradient_and_hessian_of_the_book(strategy: str) -> None:
    f = lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2  # noqa: E731
    x = jnp.array([-1.2, 1.0])
    np.testing.assert_allclose(cr.derive.gradient(f)(x), [-215.6, -88.0], rtol=1e-12)
    H = cr.derive.hessian(f, strategy)
    np.testing.assert_allclose(H(x), [[1330, 480], [480, 200]], rtol=1e-12)
    assert H.report.products == (3 if strategy == FOF else 2)
    for v in np.eye(2):
        expected = np.array([[1330, 480], [480, 200]]) @ v
        np.testing.assert_allclose(cr.derive.hvp(f, strategy)(x, v), expected, rtol=1e-12)


@jax.jit
def second_order(chain: recurrences.Chain, x: jax.Array, v: jax.Array, w: jax.Array) -> dict[str, Any]:
    """Everything of second order, in one program for all chains of one shape."""
    return {
        "hessian": jax.hessian(chain)(x),
        "products": {name: cr.derive.hvp(chain, name)(x, v) for name in (FOR, ROF, ROR)},
        "quadratic": cr.derive.quadratic(chain)(x, v, w),
        "hyperdual": cr.derive.hyperdual(chain, x, v, w).mixed,
        "gradient": cr.derive.gradient(chain)(x),
        "hessians": {name: cr.derive.hessian(chain, name)(x) for name in cr.derive.STRATEGIES},
        "jacobian": cr.derive.jacobian(chain.stages[0])(x),
    }


@pytest.mark.parametrize("seed", range(5))
def test_all_nestings_follow_the_textbook_recurrences(seed: int) -> None:
    chain = recurrences.random_chain(seed)
    rng = np.random.default_rng(100 + seed)
    x, v, w = rng.standard_normal((3, 4))
    found = second_order(chain, x, v, w)
    H = np.asarray(found["hessian"])
    by_hand = {
        FOR: recurrences.forward_on_reverse(chain, x, v),
        ROF: recurrences.reverse_on_forward(chain, x, v)[0],
        ROR: recurrences.reverse_on_reverse(chain, x, v),
    }
    for strategy, expected in by_hand.items():
        np.testing.assert_allclose(expected, H @ v, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(found["products"][strategy], expected, rtol=1e-11, atol=1e-11)
    number = recurrences.forward_on_forward(chain, x, v, w)
    assert number == pytest.approx(w @ H @ v, rel=1e-11)
    assert float(found["quadratic"]) == pytest.approx(number, rel=1e-11)
    assert float(found["hyperdual"]) == pytest.approx(number, rel=1e-11)
    gradient = recurrences.reverse_on_forward(chain, x, v)[1]
    np.testing.assert_allclose(found["gradient"], gradient, rtol=1e-11)


@pytest.mark.filterwarnings(
    "ignore:`torch.jit.script` is deprecated:DeprecationWarning"
)  # torch warns of itself
@pytest.mark.parametrize("seed", range(3))
def test_all_nestings_agree_with_torch(seed: int, oracle: Callable[[str], ModuleType]) -> None:
    torch = oracle("torch")
    func = torch.func
    chain = recurrences.random_chain(seed)
    stages = tuple(recurrences.Quadratic(*(torch.tensor(part) for part in stage)) for stage in chain.stages)
    theirs = recurrences.Chain(stages)
    rng = np.random.default_rng(200 + seed)
    x, v = rng.standard_normal((2, 4))
    tx, tv = torch.tensor(x), torch.tensor(v)
    nested = {
        FOF: func.jacfwd(func.jacfwd(theirs)),
        FOR: func.jacfwd(func.jacrev(theirs)),
        ROF: func.jacrev(func.jacfwd(theirs)),
        ROR: func.jacrev(func.jacrev(theirs)),
    }
    found = second_order(chain, x, v, v)
    for strategy, hessian in nested.items():
        np.testing.assert_allclose(found["hessians"][strategy], hessian(tx).numpy(), rtol=1e-10, atol=1e-10)
    product = func.jvp(func.grad(theirs), (tx,), (tv,))[1]
    np.testing.assert_allclose(found["products"][FOR], product.numpy(), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found["jacobian"], func.jacrev(stages[0])(tx).numpy(), rtol=1e-10, atol=1e-10)
