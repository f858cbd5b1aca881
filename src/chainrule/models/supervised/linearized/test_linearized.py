"""The linearised network beyond the promises every model keeps: what it expands, and what moves."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models
from chainrule.core import tree
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.kernels.empirical import empirical_ntk
from chainrule.models.supervised.linearized import Linearized
from chainrule.train import fit

MOONS = data.load("moons")
X = jnp.asarray(MOONS.train.batch(np.arange(6)).x)
BODY = {"name": "mlp", "width": 8, "depth": 2, "activation": "tanh", "normalization": "batch"}


def build(**settings: Any) -> Linearized:
    model = models.build("linearized", MOONS, **{"body": BODY, **settings})
    assert isinstance(model, Linearized)
    return model


def moved(model: Linearized, size: float) -> Linearized:
    """The model with another change of its parameters."""
    leaves, structure = jax.tree.flatten(model.change)
    noise = np.random.default_rng(0)
    other = [size * jnp.asarray(noise.normal(size=leaf.shape), leaf.dtype) for leaf in leaves]
    return eqx.tree_at(lambda m: m.change, model, jax.tree.unflatten(structure, other))


def test_it_begins_as_the_network_it_expands() -> None:
    model = build()
    np.testing.assert_allclose(model.logits(X), model.body.logits(X), rtol=1e-6)


def test_it_is_linear_in_the_change_and_has_the_kernel_of_the_network() -> None:
    model = build()
    start = np.asarray(model.logits(X))
    one, two = (np.asarray(moved(model, size).logits(X)) - start for size in (0.1, 0.2))
    np.testing.assert_allclose(two, 2 * one, rtol=1e-4, atol=1e-6)
    ours = empirical_ntk(moved(model, 0.5), None, X, where="change", route="jacobian")
    np.testing.assert_allclose(
        ours, empirical_ntk(model.body, None, X, route="structured"), rtol=1e-4, atol=1e-5
    )


def test_a_higher_order_is_nearer_to_the_network() -> None:
    def off(order: int) -> float:
        model = moved(build(order=order), 0.1)
        leaves, structure = jax.tree.flatten(eqx.filter(model.body, eqx.is_inexact_array))
        names = tree.names(eqx.filter(model.body, eqx.is_inexact_array))
        steps = [model.change.get(name) for name in names]
        there = [a if b is None else a + b for a, b in zip(leaves, steps, strict=True)]
        network = eqx.combine(jax.tree.unflatten(structure, there), model.body)
        return float(np.abs(model.logits(X) - network.logits(X)).max())

    assert off(3) < off(2) < off(1)


def test_training_moves_the_change_and_nothing_else(tmp_path: Path) -> None:
    trained = fit(models.build("mlp", MOONS, width=8, depth=2), MOONS, run=tmp_path / "mlp", steps=3)
    model = models.begin("linearized", trained.model, MOONS)
    assert isinstance(model, Linearized)
    run = fit(model, MOONS, run=tmp_path / "line", origin=trained.origin, steps=20, batch=32)
    after = run.model
    assert isinstance(after, Linearized)
    for a, b, c in zip(
        *(jax.tree.leaves(eqx.filter(m, eqx.is_array)) for m in (trained.model, model.body, after.body)),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(b, c)
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(after.change))


def test_what_cannot_be_expanded_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"body.name must be one of mlp"):
        build(body={"name": "gpt"})
    with pytest.raises(ArgumentError, match=r"body.width"):
        build(body={"name": "mlp", "width": 0})
    with pytest.raises(CapabilityError, match=r"linearized expands .* not a gaussian-classifier"):
        models.begin("linearized", models.build("gaussian-classifier", MOONS), MOONS)
