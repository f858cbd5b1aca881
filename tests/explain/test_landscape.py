"""Loss landscapes: the centre is the loss, and rescaling a network that stays the same changes nothing."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule import models
from chainrule.data import Batch, Schema
from chainrule.explain.landscape import along, between, curvature, direction, objective, surface

SCHEMA = Schema("table", (4,), target="value")
KEY = jax.random.key(0)
BATCH = Batch(jax.random.normal(KEY, (16, 4)), jax.random.normal(jax.random.key(1), (16,)))
LOSS = objective(BATCH, KEY)


def network(**settings: Any) -> Any:
    return models.build("mlp", SCHEMA, **{"width": 5, "depth": 3, "dropout": 0.5, **settings})


def test_the_centre_is_the_loss_of_the_model_without_noise() -> None:
    model = network()
    found = surface(LOSS, model, KEY, points=3, reach=0.5)
    assert found.losses.shape == (3, 3)
    expected = eqx.nn.inference_mode(model).loss(BATCH, KEY)[0]
    np.testing.assert_allclose(found.losses[1, 1], expected, rtol=1e-6)
    first, second = (direction(model, k) for k in jax.random.split(KEY))
    corner = LOSS(along(model, (-0.5, first), (0.5, second)))
    np.testing.assert_allclose(found.losses[0, 2], corner, rtol=1e-5)


def test_directions_have_the_size_of_the_filters_and_leave_biases_alone() -> None:
    model = network()
    way = direction(model, KEY)
    for weight, change in zip(
        jax.tree.leaves(eqx.filter(model, eqx.is_array)), jax.tree.leaves(way), strict=True
    ):
        if weight.ndim == 1:
            assert not change.any()
        else:
            np.testing.assert_allclose(
                jnp.linalg.norm(change, axis=0), jnp.linalg.norm(weight, axis=0), rtol=1e-5
            )


def test_scaling_one_layer_up_and_the_next_down_leaves_the_picture_as_it_was() -> None:
    model = network()
    weights = lambda m: (m.blocks[0].linear.weight, m.blocks[1].linear.weight)  # noqa: E731
    first, second = weights(model)
    scaled = eqx.tree_at(weights, model, (10 * first, second / 10))
    before, after = (surface(LOSS, m, KEY, points=3).losses for m in (model, scaled))
    np.testing.assert_allclose(after, before, rtol=1e-5)


def test_a_line_between_two_models_begins_and_ends_at_their_losses() -> None:
    one, other = network(), network(seed=1)
    found = between(LOSS, one, other, points=7, beyond=0.25)
    np.testing.assert_allclose(found.losses[1], LOSS(one), rtol=1e-5)
    np.testing.assert_allclose(found.losses[5], LOSS(other), rtol=1e-5)


def test_curvature_is_that_of_the_explicit_hessian() -> None:
    model = network(depth=1)  # least squares: the Hessian is known
    x = np.concatenate([np.asarray(BATCH.x), np.ones((16, 1), np.float32)], axis=1)
    values = np.linalg.eigvalsh(2 * x.T @ x / 16)
    np.testing.assert_allclose(curvature(LOSS, model, KEY), (values[0], values[-1]), rtol=1e-3)
