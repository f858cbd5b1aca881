"""Empirical tangent kernels: three routes, one matrix; layers, blocks, and what the compiler says of memory."""

import itertools
import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.derive.memory_budget import MemoryBudgetError
from chainrule.kernels.empirical import empirical_ntk, layer_shares, ntk_by_layer, ntk_plan, ntk_product
from chainrule.kernels.empirical.structure import structure_of
from chainrule.kernels.precision import widened
from chainrule.models.protocol import CanPredict, HasLogits
from tests.kernels.empirical.networks import brute_force, examples, mixed, mixed_params

ROUTES = ("jacobian", "products", "structured")
PARAMS = mixed_params()
X, Y = examples(4, (6, 2)), examples(3, (6, 2), seed=2)


@pytest.fixture(scope="module")
def full() -> np.ndarray:
    """The kernel between X and Y by brute force."""
    return brute_force(mixed, PARAMS, X, Y)


@pytest.mark.parametrize("route", ROUTES)
def test_all_routes_give_inner_products_of_gradients(route: str, full: np.ndarray) -> None:
    found = empirical_ntk(mixed, PARAMS, X, Y, "full", route=route)
    np.testing.assert_allclose(found, full, rtol=1e-10, atol=1e-10)


def test_outputs_are_summed_over_kept_or_one_of_them_taken(full: np.ndarray) -> None:
    trace = np.asarray(empirical_ntk(mixed, PARAMS, X, Y, route="structured"))
    np.testing.assert_allclose(trace, np.einsum("nmoo->nm", full), rtol=1e-10)
    one = empirical_ntk(mixed, PARAMS, X, Y, 2, route="structured")
    np.testing.assert_allclose(one, full[:, :, 2, 2], rtol=1e-10)


def test_only_matrices_that_meet_the_data_once_count_as_layers() -> None:
    names = sorted(PARAMS)
    found = structure_of(
        lambda leaves, one: mixed(dict(zip(names, leaves, strict=True)), one[None])[0],
        [PARAMS[name] for name in names],
        X[0],
    )
    assert {names[m.parameter] for m in found.meetings} == {"conv", "dense", "out"}
    assert {names[i] for i in found.general} == {"tied", "scale", "bias", "table"}


def test_shares_of_parameters_add_up_and_a_choice_of_them_has_its_own_kernel(full: np.ndarray) -> None:
    parts = ntk_by_layer(mixed, PARAMS, X, Y, "full")
    np.testing.assert_allclose(sum(np.asarray(part) for part in parts.values()), full, rtol=1e-10)
    some = empirical_ntk(mixed, PARAMS, X, Y, "full", route="jacobian", where=["conv", "t*"])
    np.testing.assert_allclose(
        some, np.asarray(parts["conv"] + parts["tied"] + parts["table"]), rtol=1e-9, atol=1e-9
    )


def test_each_layer_of_a_dense_network_adds_the_product_of_what_goes_in_and_what_comes_back() -> None:
    """`b^h = sqrt(c / d_h) D^h W^(h+1)' b^(h+1)`, and `df/dW^h = b^h g^(h-1)'`."""
    widths, noise = [3, 7, 5, 1], np.random.default_rng(3)
    weights = [noise.normal(size=(b, a)) for a, b in itertools.pairwise(widths)]
    x = examples(4, (3,))

    def network(weights: Any, x: Any) -> Any:
        g = x
        for w in weights[:-1]:
            g = jnp.sqrt(2 / len(w)) * jax.nn.relu(g @ w.T)
        return g @ weights[-1].T

    parts = ntk_by_layer(network, weights, x)
    g, gates = [x], []
    for w in weights[:-1]:
        gates.append(math.sqrt(2 / len(w)) * (g[-1] @ w.T > 0))
        g.append(gates[-1] * (g[-1] @ w.T))
    b = np.ones((4, 1))
    for h in (2, 1, 0):
        np.testing.assert_allclose(parts[str(h)], (b @ b.T) * (g[h] @ g[h].T), rtol=1e-10)
        b = gates[h - 1] * (b @ weights[h]) if h else b
    shares = layer_shares(parts)
    whole = np.trace(np.asarray(empirical_ntk(network, weights, x, route="structured")))
    assert shares["1"] == pytest.approx(np.trace(parts["1"]) / whole)
    assert sum(shares.values()) == pytest.approx(1)


def test_functions_with_a_rule_for_reverse_mode_alone_have_the_routes_that_go_backward() -> None:
    @jax.custom_vjp
    def bent(x: Any) -> Any:
        return jnp.tanh(x)

    bent.defvjp(lambda x: (jnp.tanh(x), jnp.tanh(x)), lambda y, slope: ((1 - y**2) * slope,))
    w, x = examples(1, (3, 2), seed=7)[0], examples(4, (3,))
    expected = empirical_ntk(lambda w, x: jnp.tanh(x @ w), w, x, route="jacobian")
    np.testing.assert_allclose(empirical_ntk(lambda w, x: bent(x @ w), w, x), expected, rtol=1e-10)
    with pytest.raises(CapabilityError, match=r'reverse mode alone(.|\n)*route="jacobian"'):
        empirical_ntk(lambda w, x: bent(x @ w), w, x, route="products")
    with pytest.raises(CapabilityError, match=r"reverse mode alone(.|\n)*empirical_ntk"):
        ntk_product(lambda w, x: bent(x @ w), w, x)


def test_machines_on_kernels_have_a_kernel_in_single_precision_too() -> None:
    with jax.enable_x64(False):
        moons = data.load("moons")
        model = models.build("nngp", moons, depth=1, points=20)
        x = moons.train.batch(np.arange(3)).x
        found = {
            route: np.asarray(empirical_ntk(model, None, x, route=route)) for route in ("auto", "structured")
        }
    expected = empirical_ntk(widened(model), None, widened(x), route="products")
    np.testing.assert_allclose(found["auto"], expected, rtol=1e-5)
    np.testing.assert_allclose(found["structured"], expected, rtol=1e-5)


def test_a_coefficient_kept_as_two_numbers_counts_once() -> None:
    moons = data.load("moons")
    with jax.enable_x64(False):
        model = models.build("kernel-ridge", moons, points=20, scale=1.0, ridge=0.1)
        model, _ = model.iterate(moons.train.batch(np.arange(20)), jax.random.key(0))  # type: ignore[attr-defined]
        x = np.asarray(moons.test.x[:4])
        found = empirical_ntk(model, None, x, where="coefficients")
    near = np.exp(-np.square(x[:, None] - np.asarray(model.points)[None]).sum(axis=2) / 2)
    sharp = float(np.exp(model.log_sharpness))
    np.testing.assert_allclose(found, 2 * sharp**2 * near @ near.T, rtol=1e-4)  # for two classes


def test_a_gaussian_process_has_the_kernel_of_its_mean() -> None:
    wave = data.load("wave", n=40)
    with jax.enable_x64(False):
        model = models.build("gp", wave, points=20, learn=False, scale=1.0)
        x = np.asarray(wave.train.x[:4])
        found = empirical_ntk(model, None, x, where="weights", route="jacobian")
        near = np.asarray(model.kernel.gram(x, model.points))  # type: ignore[attr-defined]
    np.testing.assert_allclose(found, near @ near.T, rtol=1e-5)


@final
class Guess(CanPredict):
    """Predicts without logits."""

    weights: Any

    def predict(self, x: Any) -> Any:
        return jnp.tanh(x @ self.weights)

    def loss(self, batch: Any, key: Any) -> Any:
        raise NotImplementedError


def test_what_has_no_outputs_of_its_own_is_told_how_to_name_them_and_that_works() -> None:
    x, w = examples(3, (4,)), examples(1, (4, 2))[0]
    layer = eqx.nn.Linear(4, 2, key=jax.random.key(0))
    cases: list[tuple[Any, str, Any]] = [
        (layer, "lambda model, x: jax.vmap(model)(x)", lambda model, x: jax.vmap(model)(x)),
        (Guess(w), "lambda model, x: model.predict(x)", lambda model, x: model.predict(x)),
        ({"w": w}, "f", lambda model, x: x @ model["w"]),
    ]
    for model, named, f in cases:
        with pytest.raises(ArgumentError, match="params=None") as refused:
            empirical_ntk(model, None, x)
        assert f"empirical_ntk({named}, model, x)" in str(refused.value.remedy)
        assert empirical_ntk(f, model, x).shape == (3, 3)


def test_a_linear_model_has_the_inner_product_of_its_features() -> None:
    features = examples(5, (4,))
    found = empirical_ntk(lambda w, phi: (phi @ w)[:, None], np.ones(4), features)
    np.testing.assert_allclose(found, features @ features.T, rtol=1e-12)


def test_pytorch_agrees() -> None:
    torch = pytest.importorskip("torch")
    noise = np.random.default_rng(4)
    w1, w2 = noise.normal(size=(3, 6)), noise.normal(size=(6, 2))
    x = examples(3, (3,))

    def outputs(one: Any, w1: Any, w2: Any) -> Any:
        return torch.tanh(one @ w1) @ w2

    args = tuple(torch.tensor(w) for w in (w1, w2))
    rows = [torch.func.jacrev(outputs, argnums=(1, 2))(torch.tensor(one), *args) for one in x]
    flat = np.stack([np.concatenate([np.asarray(j).reshape(2, -1) for j in row], axis=1) for row in rows])
    found = empirical_ntk(
        lambda w, x: jnp.tanh(x @ w[0]) @ w[1], [w1, w2], x, output="full", route="structured"
    )
    np.testing.assert_allclose(found, np.einsum("nop,mrp->nmor", flat, flat), rtol=1e-10)


# ---------------------------------------------------------------------- cost


def wide(params: Any, x: Any) -> Any:
    return jnp.tanh(jnp.tanh(x @ params["in"]) @ params["middle"]) @ params["out"]


WIDE = {
    "in": np.ones((8, 64), np.float32),
    "middle": np.full((64, 64), 0.1, np.float32),
    "out": np.ones((64, 10), np.float32),
}


def test_the_compiled_program_decides_and_layers_need_no_gradients_in_memory() -> None:
    x = np.ones((16, 8), np.float32)
    found = ntk_plan(wide, WIDE, x)
    gradients = 16 * 10 * sum(w.size for w in WIDE.values()) * 4
    assert found.route == "structured"
    assert found.costs["jacobian"].scratch > gradients / 2
    assert found.costs["structured"].scratch < gradients / 5
    assert found.costs["products"].scratch < gradients / 5
    assert found.chosen.work == min(cost.work for cost in found.costs.values())
    assert "* structured" in str(found)


def test_blocks_fit_the_budget_and_give_the_same_matrix() -> None:
    x, y = examples(7, (8,)).astype(np.float32), examples(5, (8,), seed=9).astype(np.float32)
    for columns in (None, y):
        whole = np.asarray(empirical_ntk(wide, WIDE, x, columns, "full", route="jacobian"))
        small = {"output": "full", "route": "jacobian", "memory": 600_000}
        found = ntk_plan(wide, WIDE, x, columns, **small)
        assert found.chosen.scratch <= 600_000
        assert found.chosen.rows < 7
        np.testing.assert_allclose(
            empirical_ntk(wide, WIDE, x, columns, **small), whole, rtol=2e-5, atol=1e-4
        )


def test_what_fits_no_budget_is_refused_before_it_is_tried() -> None:
    x = np.ones((50, 8), np.float32)
    with pytest.raises(MemoryBudgetError, match=r"(?s)dense result needs .* ntk_product needs no matrix"):
        empirical_ntk(wide, WIDE, x, output="full", memory=10_000)
    with pytest.raises(MemoryBudgetError, match=r"one pair of examples needs"):
        empirical_ntk(wide, WIDE, x[:2], route="jacobian", memory=1000)


def test_the_matrix_free_product_is_that_of_the_matrix(full: np.ndarray) -> None:
    v = examples(3, (3,), seed=5)
    expected = np.einsum("nmor,mr->no", full, v)
    np.testing.assert_allclose(ntk_product(mixed, PARAMS, X, Y)(v), expected, rtol=1e-9)
    np.testing.assert_allclose(ntk_product(mixed, PARAMS, X, Y, block=2)(v), expected, rtol=1e-9)
    with pytest.raises(ArgumentError, match=r"v has shape \(9,\).*\n.*reshape\(3, 3\)"):
        ntk_product(mixed, PARAMS, X, Y)(v.ravel())


def test_it_is_differentiable_inside_a_larger_program() -> None:
    x = examples(3, (2,))

    def total(w: Any, route: str) -> Any:
        f = lambda w, x: jnp.tanh(x @ w)  # noqa: E731
        return jnp.sum(empirical_ntk(f, w, x, route=route) ** 2)

    w = examples(2, (2,), seed=6)
    slopes = [jax.jit(jax.grad(total), static_argnums=1)(w, route) for route in ("auto", "jacobian")]
    step = 1e-6 * np.eye(4).reshape(4, 2, 2)
    numeric = [float(total(w + s, "structured") - total(w - s, "structured")) / 2e-6 for s in step[:1]]
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-9)
    assert numeric[0] == pytest.approx(float(slopes[0][0, 0]), rel=1e-5)


# ---------------------------------------------------------------------- models


def test_models_are_looked_at_as_they_predict_and_by_what_they_learn() -> None:
    moons = data.load("moons")
    model = models.build("mlp", moons, width=6, depth=2, normalization="batch", dropout=0.5)
    assert isinstance(model, HasLogits)
    x = jnp.asarray(moons.train.batch(np.arange(5)).x)
    parts = ntk_by_layer(model, None, x)
    assert not any("mean" in name or "variance" in name for name in parts)
    arrays, rest = eqx.partition(eqx.nn.inference_mode(model), eqx.is_inexact_array)
    full = brute_force(lambda p, x: eqx.combine(p, rest).logits(x), arrays, x, x)
    state = brute_force(
        lambda p, x: eqx.tree_at(lambda m: m.state(), eqx.combine(arrays, rest), p).logits(x),
        model.state(),
        x,
        x,
    )
    expected = np.einsum("nmoo->nm", full - state)
    np.testing.assert_allclose(sum(np.asarray(p) for p in parts.values()), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", models.names())
def test_every_model_that_gives_logits_has_a_kernel_by_every_route(name: str) -> None:
    entry = models.entry(name)
    with jax.enable_x64(False):
        found = data.load(entry.toy_data)
        model = models.build(name, found, **entry.toy)
    if not isinstance(model, HasLogits):
        pytest.skip("it gives no logits")
    # In double precision: sums over all kept examples of a machine on a kernel lose digits in single.
    x = widened(found.train.batch(np.arange(3)).x)
    model = widened(model)
    kernels = [np.asarray(empirical_ntk(model, None, x, output="full", route=route)) for route in ROUTES]
    chosen = np.asarray(empirical_ntk(model, None, x))
    for other in kernels[1:]:
        assert np.abs(other - kernels[0]).max() <= 1e-9 * np.abs(kernels[0]).max()
    np.testing.assert_allclose(chosen, np.einsum("nmoo->nm", kernels[0]), rtol=1e-9, atol=1e-12)


def ntk_network(widths: list[int], seed: int) -> tuple[Any, list[np.ndarray]]:
    """A rectifier network whose kernel has the limit of the closed form: weights of variance one, scaled."""

    def network(weights: Any, x: Any) -> Any:
        for w in weights[:-1]:
            x = math.sqrt(2 / w.shape[1]) * jax.nn.relu(x @ w)
        return x @ weights[-1]

    noise = np.random.default_rng(seed)
    return network, [noise.normal(size=(a, b)) for a, b in itertools.pairwise(widths)]


PAIR = np.array([[1.0, 0.0], [0.6, 0.8]])
LIMIT = np.array([[4.0, 1.952287], [1.952287, 4.0]])


def test_wide_networks_have_the_kernel_of_the_limit_on_average() -> None:
    network, _ = ntk_network([2, 1], 0)
    draws = [ntk_network([2, 128, 128, 128, 1], seed)[1] for seed in range(24)]
    kernels = np.stack([empirical_ntk(network, w, PAIR, route="structured") for w in draws])
    error = kernels.std(axis=0, ddof=1) / math.sqrt(24)
    # The mean of finite networks differs from the limit by a term of order depth / width.
    assert (np.abs(kernels.mean(axis=0) - LIMIT) < 4 * error + 0.02 * LIMIT).all()


@pytest.mark.slow
def test_networks_two_thousand_wide_spread_by_some_percent_around_the_limit() -> None:
    network, _ = ntk_network([2, 1], 0)
    draws = [ntk_network([2, 2048, 2048, 2048, 1], seed)[1] for seed in range(12)]
    kernels = np.stack([empirical_ntk(network, w, PAIR, route="structured") for w in draws])
    spread = kernels.std(axis=0, ddof=1) / LIMIT
    assert (spread < 0.15).all()
    assert (np.abs(kernels.mean(axis=0) - LIMIT) < 4 * spread * LIMIT / math.sqrt(12)).all()


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"route": "jacobain"}, r'route must be "auto", "jacobian".*did you mean'),
        ({"output": "sum"}, r'output must be "trace", "full" or the number'),
        ({"output": 12}, r"output=12\): f has 10 outputs\n.*from 0 to 9"),
        (
            {"where": "midle"},
            r'no parameter has that name \(did you mean .middle.\?\)\n.*"in", "middle" or "out"',
        ),
        ({"where": lambda name: False}, r"no parameter passes the test"),
        ({"x": np.full((2, 8), np.nan, np.float32)}, r"x\): the entry at \(0, 0\) is not finite"),
        ({"x": np.zeros((0, 8), np.float32)}, r"at least one"),
        ({"params": {"n": np.arange(3)}}, r"no array of real numbers"),
        ({"f": 3}, r"f must be a function"),
        ({"f": lambda p, x: jnp.sum(x)}, r"outputs of 2 examples have shape \(\)\n.*jax.vmap"),
        ({"memory": "lots"}, r"memory is a positive number"),
    ],
)
def test_what_cannot_be_used_is_named_with_a_remedy(arguments: dict, message: str) -> None:
    usual = {"f": wide, "params": WIDE, "x": np.ones((2, 8), np.float32), "route": "structured"}
    with pytest.raises(ArgumentError, match=message):
        empirical_ntk(**{**usual, **arguments})


def test_the_remedy_for_a_network_of_single_examples_works() -> None:
    layer = eqx.nn.Linear(3, 2, key=jax.random.key(0))
    x = examples(4, (3,))
    with pytest.raises(ArgumentError, match=r"lambda model, x: jax.vmap\(model\)\(x\), model, x"):
        empirical_ntk(layer, None, x)
    found = empirical_ntk(lambda model, x: jax.vmap(model)(x), layer, x, route="structured")
    np.testing.assert_allclose(found, 2 * (x @ x.T + 1), rtol=1e-6)
