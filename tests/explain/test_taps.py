"""Taps: values inside networks of every make by name, and units that are dead or saturated."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data as sources
from chainrule import models, nn
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.explain import experiments
from chainrule.explain.methods import taps

X = jnp.asarray(np.random.default_rng(0).normal(size=(12, 3)), jnp.float32)


class Own(eqx.Module):
    """A convolution of Equinox, channels first, and a nonlinearity written out."""

    conv: eqx.nn.Conv1d
    out: eqx.nn.Linear

    def __init__(self, key: Any) -> None:
        self.conv = eqx.nn.Conv1d(1, 4, 2, key=key)
        self.out = eqx.nn.Linear(8, 2, key=key)

    def __call__(self, x: Any) -> Any:
        return self.out(jnp.maximum(self.conv(x[None]), 0).ravel())


def test_values_are_those_the_network_computes_and_dead_units_are_found() -> None:
    net = nn.Sequential(
        [nn.Linear(3, 5, key=jax.random.key(0)), "relu", nn.Linear(5, 2, key=jax.random.key(1))]
    )
    dead = eqx.tree_at(lambda net: net.layers[0].bias, net, jnp.array([-99.0, 0.0, 0.0, -99.0, 0.0]))
    found = taps.observer(net, lambda net: net(X), ["layers.0.relu", "layers.2"])(dead)
    assert list(found) == ["layers.0", "layers.0.relu", "layers.2"]
    hidden = np.maximum(
        np.asarray(X) @ np.asarray(dead.layers[0].weight) + np.asarray(dead.layers[0].bias), 0
    )
    np.testing.assert_allclose(found["layers.0.relu"].values, hidden, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["layers.2"].values, dead(X), rtol=1e-5)
    assert found["layers.0.relu"].dead == pytest.approx((hidden == 0).all(axis=0).mean())
    assert found["layers.0.relu"].dead >= 0.4
    assert found["layers.0.relu"].saturated is None
    assert found["layers.0"].dead is None
    assert found["layers.0"].values is None


def test_bounded_units_saturate_and_smooth_ones_are_not_taken_for_their_parts() -> None:
    first = nn.Linear(3, 4, key=jax.random.key(0))
    first = eqx.tree_at(lambda one: one.bias, first, jnp.array([0.0, 40.0, -40.0, 0.0]))
    last = nn.Linear(4, 2, key=jax.random.key(1))
    for name, share in (("tanh", 0.5), ("sigmoid", 0.5)):
        net = nn.Sequential([first, name, last])
        found = taps.observer(net, lambda net: net(X))(net)[f"layers.0.{name}"]
        assert (found.dead or 0) + (found.saturated or 0) == pytest.approx(share)
    for name in ("gelu", "gelu-tanh"):
        net = nn.Sequential([first, name, last])
        assert taps.names(net, lambda net: net(X)) == ["layers.0", "layers.2"]


def test_modules_of_equinox_count_channels_as_units() -> None:
    net = Own(jax.random.key(0))
    net = eqx.tree_at(lambda net: net.conv.bias, net, jnp.array([[-99.0], [99.0], [99.0], [-99.0]]))
    found = taps.observer(net, lambda net: jax.vmap(net)(X), ["conv.relu"])(net)
    assert list(found) == ["conv", "conv.relu", "out"]
    assert found["conv.relu"].values.shape == (12, 4, 2)  # type: ignore[union-attr]
    assert found["conv.relu"].dead == pytest.approx(0.5)


def test_normalisers_and_loops_have_taps_and_what_is_not_called_has_none() -> None:
    blobs = sources.load("moons")
    model = models.build("mlp", blobs, width=4, depth=3, normalization="batch", activation="tanh")
    batch = jax.tree.map(jnp.asarray, blobs.train.batch(np.arange(8)))
    names = taps.names(model, lambda model: model.loss(batch, jax.random.key(0))[0])
    assert names[:4] == ["blocks.0.linear", "blocks.0.norm", "blocks.0.norm.tanh", "blocks.0"]
    layer = nn.Linear(3, 3, key=jax.random.key(0))

    def loop(model: dict[str, Any]) -> Any:
        return jax.lax.scan(lambda x, _: (jax.nn.relu(model["layer"](x)), None), X, length=3)[0]

    found = taps.observer({"layer": layer}, loop, ["layer"])({"layer": layer})
    assert found["layer"].values.shape == (3, 12, 3)  # type: ignore[union-attr]
    with pytest.raises(CapabilityError, match="no module of it is called"):
        taps.names({"layer": layer}, lambda model: jnp.zeros(()))
    with pytest.raises(ArgumentError, match="there is no tap 'layr'"):
        taps.observer({"layer": layer}, loop, ["layr"])


def test_a_network_of_ones_own_is_watched_while_it_learns(tmp_path: Path) -> None:
    file = tmp_path / "nets.py"
    file.write_text(
        "import equinox as eqx, jax\n"
        "class Net(eqx.Module):\n"
        "    first: eqx.nn.Linear\n"
        "    last: eqx.nn.Linear\n"
        "    def __init__(self, inputs: int, outputs: int, width: int = 4, *, key):\n"
        "        self.first = eqx.nn.Linear(inputs, width, key=key)\n"
        "        self.last = eqx.nn.Linear(width, outputs, key=key)\n"
        "    def __call__(self, x):\n"
        "        return self.last(jax.nn.relu(self.first(x)))\n"
    )
    length = {"data": "moons", "steps": 4, "every": 2, "batch": 16}
    outcome = experiments.run(
        "histograms", model=f"{file}:Net", compare={"width": [3, 5]}, layer="module.first.relu", **length
    )
    assert list(outcome.numbers) == ["width=3", "width=5"]
    assert outcome.numbers["width=3"]["taps"] == [
        "module.first",
        "module.first.relu",
        "module.last",
        "module",
    ]
