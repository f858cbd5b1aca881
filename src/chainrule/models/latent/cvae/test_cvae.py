"""The conditional variational auto-encoder: what a condition changes, and what stays the same."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.data import Batch, Schema
from chainrule.models.latent.cvae import CVAE

KEY = jax.random.key(0)
CLASSES = Schema("points", (2,), "class", classes=("left", "right"))
SMALL = {"latent": 2, "width": 8, "depth": 1}


def build(schema: Schema, **settings: object) -> CVAE:
    model = models.build("cvae", schema, **{**SMALL, **settings})
    assert isinstance(model, CVAE)
    return model


def test_networks_and_prior_are_told_the_class_and_examples_are_carried_to_another() -> None:
    model = build(CLASSES)
    assert model.networks.prior is not None
    # A prior whose mean is a sum of the class vector, so that it differs by class.
    model = eqx.tree_at(lambda m: m.networks.prior.layers[-1].weight, model, jnp.ones((64, 4)))
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 2)), jnp.float32)
    rate = {y: float(model.rate_and_distortion(Batch(x, jnp.full(4, y)), KEY)[0].mean()) for y in (0, 1)}
    assert rate[0] != rate[1]
    left, right = (
        np.asarray(model.sample(KEY, 500, condition=name)).mean(axis=0) for name in ("left", "right")
    )
    assert not np.allclose(left, right, atol=0.05)
    z = model.encode(x, condition=model.conditions("left", 4))
    moved = model.transfer(x, "left", "right")
    np.testing.assert_allclose(moved, model.decode(z, condition=model.conditions("right", 4)), rtol=1e-5)
    assert not np.allclose(moved, model.transfer(x, "left", "left"))
    with pytest.raises(ArgumentError, match="unknown class 'lft'"):
        model.sample(KEY, 3, condition="lft")


def test_a_prior_that_is_not_learned_is_standard_and_values_condition_as_classes_do() -> None:
    model = build(Schema("points", (2,), "value", (1,)), prior="standard")
    assert model.networks.prior is None
    given = model.networks.given(jnp.ones((3, 1)), 3)
    assert not np.asarray(given.prior.gaussian.mean).any()
    assert model.sample(KEY, 3, condition=np.array([0.5])).shape == (3, 2)
    batch = Batch(jnp.ones((4, 2)), jnp.ones((4, 1)))
    loss, parts = eqx.filter_jit(model.loss)(batch, KEY)
    assert float(loss) == pytest.approx(float(parts["distortion"] + parts["rate"]), rel=1e-5)
    with pytest.raises(ArgumentError, match="condition of shape"):
        model.sample(KEY, 3, condition=np.ones(5))
