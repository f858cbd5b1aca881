"""What flows through layers, and what becomes of variance with depth."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array
from chainrule.explain.methods.variance import variance_report
from chainrule.models import layer_activations
from chainrule.nn import Conv, Linear
from chainrule.nn.constructions import Network, affine, mlp, states

WIDTH, DEPTH = 512, 20


@eqx.filter_jit
def last_mean_square(network: Network) -> Array:
    """Of the activations after 20 layers, before training."""
    return jnp.square(network(jax.random.normal(jax.random.key(1), (128, WIDTH)))).mean()


@pytest.mark.parametrize(
    ("activation", "initializer", "gain", "low", "high"),
    [
        ("relu", "he", None, 0.5, 2.0),
        ("relu", "xavier", 1.0, 2.0**-20 / 3, 2.0**-20 * 3),
        ("relu", "torch", None, 6.0**-20 / 3, 6.0**-20 * 3),
        ("tanh", "xavier", None, 0.40, 0.46),
        ("tanh", "xavier", 1.0, 0.02, 0.04),
    ],
    ids=["he relu", "xavier relu", "torch relu", "tanh 5/3", "tanh 1"],
)
def test_mean_square_after_twenty_layers(activation, initializer, gain, low, high) -> None:
    sizes = [WIDTH] * (DEPTH + 1)
    network = mlp(sizes, activation, activation, key=jax.random.key(0), initializer=initializer, gain=gain)
    # PyTorch also draws biases, which keep the mean square from falling further; the growth is that of the weights.
    weights = Network(
        [affine(layer.weight, jnp.zeros(WIDTH)) for layer in network.layers], network.activations
    )
    assert low < float(last_mean_square(weights)) < high


def test_layers_are_found_and_watched_in_the_order_of_their_calls() -> None:
    network = mlp([3, *[4] * 12, 2], key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (5, 3))
    flows = layer_activations.observe(network, lambda network: network(x))
    assert list(flows) == [f"layers.{i}" for i in range(13)] == layer_activations.layers(network)
    known = states(network, x)
    for i, flow in enumerate(flows.values()):
        np.testing.assert_allclose(flow.input, known[f"S{2 * i}"], rtol=1e-6)
        np.testing.assert_allclose(flow.output, known[f"S{2 * i + 1}"], rtol=1e-6)


def test_gradients_of_outputs_are_those_of_backpropagation() -> None:
    network = mlp([3, 4, 2], "tanh", key=jax.random.key(0))
    x, y = jax.random.normal(jax.random.key(1), (5, 3)), jax.random.normal(jax.random.key(2), (5, 2))
    found = layer_activations.gradients(network, lambda network: jnp.square(network(x) - y).sum())
    known = states(network, x)
    last = 2 * (known["S3"] - y)
    np.testing.assert_allclose(found["layers.1"][1], last, rtol=1e-5)
    first = (last @ network.layers[1].weight.T) * (1 - known["S2"] ** 2)
    np.testing.assert_allclose(found["layers.0"][1], first, rtol=1e-4, atol=1e-6)


@final
class Convolved(eqx.Module):
    """A convolution and a dense layer."""

    conv: Conv
    dense: Linear

    def __call__(self, x: Array) -> Array:
        h = jax.nn.relu(self.conv(x))
        return self.dense(h.reshape(len(x), 4 * 4 * 3))


def test_watching_changes_nothing_in_registered_models_and_convolutions() -> None:
    moons = data.load("moons", n=100)
    batch = jax.tree.map(jnp.asarray, moons.train.batch(np.arange(8)))
    model = models.build("mlp", moons, width=8, normalization="batch")
    seen = layer_activations.gradients(model, lambda model: model.loss(batch, jax.random.key(0))[0])
    assert list(seen) == layer_activations.layers(model)
    still = eqx.nn.inference_mode(model)
    logits = layer_activations.observe(still, lambda model: model.predict(batch.x))["head"].output
    np.testing.assert_allclose(jax.nn.softmax(logits), still.predict(batch.x), rtol=2e-5, atol=1e-7)
    keys = jax.random.split(jax.random.key(0), 3)
    image = Convolved(Conv(2, 1, 3, 3, key=keys[0]), Linear(48, 2, key=keys[1]))
    x = jax.random.normal(keys[2], (5, 4, 4, 1))
    flows = layer_activations.observe(image, lambda model: model(x))
    assert [flow.output.shape for flow in flows.values()] == [(5, 4, 4, 3), (5, 2)]
    np.testing.assert_allclose(flows["dense"].output, image(x), rtol=1e-5, atol=1e-6)


@final
class Looped(eqx.Module):
    """Calls its layer inside a loop."""

    layer: Linear
    known: bool = eqx.field(static=True)
    """Whether the length of the loop is known in advance."""

    def __call__(self, x: Array) -> Array:
        if self.known:
            return jax.lax.scan(lambda h, _: (self.layer(h), None), x, None, length=3)[0]
        return jax.lax.while_loop(lambda h: h.sum() < 3, lambda h: self.layer(h), x)


def test_a_layer_in_a_scan_has_a_flow_over_its_steps() -> None:
    layer, x = Linear(2, 2, key=jax.random.key(0)), jnp.ones((1, 2))
    by_hand = [x, layer(x), layer(layer(x))]
    ((name, (flow, slope)),) = layer_activations.gradients(
        Looped(layer, True), lambda model: model(x).sum()
    ).items()
    assert name == "layer"
    np.testing.assert_allclose(flow.input, jnp.stack(by_hand), rtol=1e-6)
    np.testing.assert_allclose(flow.output, jnp.stack([layer(h) for h in by_hand]), rtol=1e-6)
    ones = jnp.ones((1, 2))
    back = [ones @ layer.weight.T @ layer.weight.T, ones @ layer.weight.T, ones]
    np.testing.assert_allclose(slope, jnp.stack(back), rtol=1e-6)


@pytest.mark.parametrize(
    "settings", [{}, {"scan": True}, {"recompute": True}], ids=["plain", "scan", "recompute"]
)
def test_every_way_to_go_through_blocks_has_the_same_flows(settings) -> None:
    entry = models.entry("gpt")
    text = data.load(entry.toy_data)
    batch = jax.tree.map(jnp.asarray, text.train.batch(np.arange(2)))
    small = {**entry.toy, "layers": 2, "dropout": 0.0}
    flows = [
        layer_activations.gradients(
            models.build("gpt", text, **small, **more), lambda m: m.loss(batch, jax.random.key(0))[0]
        )
        for more in ({}, settings)
    ]
    assert list(flows[0]) == list(flows[1])
    for (one, slope), (other, same) in zip(flows[0].values(), flows[1].values(), strict=True):
        np.testing.assert_allclose(one.output, other.output, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(slope, same, rtol=1e-3, atol=1e-7)


def test_a_layer_called_twice_has_two_flows_and_one_in_a_loop_without_end_is_refused() -> None:
    layer = Linear(2, 2, key=jax.random.key(0))
    flows = layer_activations.observe(layer, lambda layer: layer(layer(jnp.ones((1, 2)))))
    assert list(flows) == ["layer", "layer, call 2"]
    with pytest.raises(CapabilityError, match="inside a loop"):
        layer_activations.observe(Looped(layer, False), lambda model: model(jnp.ones((1, 2))))
    with pytest.raises(CapabilityError, match="called none of its layers"):
        layer_activations.observe(Looped(layer, True), lambda model: jnp.ones(2))


@pytest.mark.parametrize(
    ("gain", "verdict"),
    [(1.0, "vanishing"), (2**0.5, "healthy"), (2.0, "exploding")],
    ids=["one", "root two", "two"],
)
def test_the_verdict_follows_the_gain(gain, verdict) -> None:
    network = mlp([64] * 12, "relu", key=jax.random.key(0), gain=gain)
    report = variance_report(network, jax.random.normal(jax.random.key(1), (64, 64)))
    assert report.verdict == verdict
    assert (report.suggestion == "") == (verdict == "healthy")
    assert report.forward_factor == pytest.approx(gain**2 / 2, rel=0.15)
    assert report.backward_factor == pytest.approx(gain**2 / 2, rel=0.15)
    assert verdict in str(report)
    assert report.picture().log_y


def test_models_are_judged_by_their_loss_and_shallow_ones_not_at_all() -> None:
    moons = data.load("moons", n=100)
    x, y = moons.train.batch(np.arange(32))[:2]
    report = variance_report(models.build("mlp", moons, width=128, depth=6, dropout=0.0), x, y)
    assert report.verdict == "healthy"
    with pytest.raises(ArgumentError, match="depth starts at two"):
        variance_report(mlp([2, 2], key=jax.random.key(0)), jnp.ones((3, 2)))
