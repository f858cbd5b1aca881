"""Branches beside a frozen U-Net: they change nothing at first, learn in the right order, and leave the base alone."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import Batch, Schema
from chainrule.models.diffusion.control import ControlModel, adapter_model, control_model, depth, edges, mask
from chainrule.models.diffusion.diffusion import Diffusion
from chainrule.models.diffusion.networks.unet import UNetDenoiser
from chainrule.models.diffusion.process import Level

KEY = jax.random.key(0)
SCHEMA = Schema("image", (4, 4, 1), target="class", classes=("a", "b"), levels=17)
LEVEL = Level(0.6, 0.8)


@pytest.fixture(scope="module")
def base() -> Diffusion:
    """A model as if trained: a fresh one predicts zero whatever its features are."""
    model = models.build("diffusion", SCHEMA, denoiser="unet", width=4, depth=1)
    assert isinstance(model, Diffusion)
    noise = np.random.default_rng(0)
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    moved = jax.tree.map(lambda a: a + jnp.asarray(0.2 * noise.normal(size=a.shape), a.dtype), arrays)
    return eqx.combine(moved, rest)


@pytest.fixture(scope="module")
def control(base: Diffusion) -> ControlModel:
    return control_model(base, KEY)


@pytest.fixture(scope="module")
def adapter(base: Diffusion) -> ControlModel:
    return adapter_model(base, KEY)


@pytest.fixture(scope="module")
def batch() -> Batch:
    x = np.random.default_rng(1).integers(0, 17, (6, 4, 4, 1)) / 16
    return Batch(jnp.asarray(x), jnp.array([0, 1, 0, 1, 0, 1]))


@eqx.filter_jit
def predict(net: Any, x: jax.Array) -> jax.Array:
    return net.predict(x, LEVEL, jnp.array([0, 1]))


@eqx.filter_jit
def slope(model: ControlModel, batch: Batch, key: jax.Array) -> ControlModel:
    return eqx.filter_grad(lambda m: m.loss(batch, key)[0])(model)


def size(tree: Any) -> float:
    return float(sum(jnp.abs(a).sum() for a in jax.tree.leaves(eqx.filter(tree, eqx.is_array))))


def test_a_fresh_branch_changes_nothing_to_the_last_bit(
    base: Diffusion, control: ControlModel, adapter: ControlModel
) -> None:
    x = jax.random.normal(KEY, (2, 4, 4, 1))
    alone = predict(base.denoiser, x)
    for model in (control, adapter):
        seeing = model.branch.shown(jnp.ones((1, 4, 4, 1)))
        assert np.array_equal(predict(seeing, x), alone)
        assert np.array_equal(predict(model.branch, x), alone)


def test_the_last_zeros_learn_first_and_then_the_copy(control: ControlModel, batch: Batch) -> None:
    gradient = slope(control, batch, KEY)
    first = gradient.branch
    assert size(first.leave) > 0
    assert size(first.copy) == size(first.enter) == size(first.hint) == 0
    moved = eqx.apply_updates(control, jax.tree.map(lambda g: -0.1 * g, _leaving(gradient)))
    second = slope(moved, batch, KEY).branch
    assert size(second.copy) > 0
    assert size(second.enter) > 0


def _leaving(gradient: ControlModel) -> ControlModel:
    """The gradient without that of the frozen network."""
    none = jax.tree.map(lambda _: None, gradient.model.denoiser.base)
    return eqx.tree_at(lambda m: m.model.denoiser.base, gradient, none)


@pytest.mark.parametrize("name", ["control", "adapter"])
def test_training_leaves_the_frozen_network_as_it_is(
    request: pytest.FixtureRequest, batch: Batch, name: str
) -> None:
    model = request.getfixturevalue(name)
    frozen = {id(a) for a in model.state()}
    moving = jax.tree.map(lambda a: eqx.is_inexact_array(a) and id(a) not in frozen, model)
    arrays, rest = eqx.partition(model, moving)
    optimizer = optax.adamw(1e-2, weight_decay=0.1)

    @eqx.filter_jit
    def train(arrays: Any, rest: Any, batch: Batch) -> tuple[Any, jax.Array]:
        def step(carry: Any, key: jax.Array) -> Any:
            arrays, state = carry
            loss, change = eqx.filter_value_and_grad(
                lambda a: eqx.combine(a, rest).loss_and_state(batch, key)[0]
            )(arrays)
            change, state = optimizer.update(change, state, arrays)
            return (eqx.apply_updates(arrays, change), state), loss

        keys = jax.random.split(KEY, 100)
        (arrays, _), losses = jax.lax.scan(step, (arrays, optimizer.init(arrays)), keys)
        return arrays, losses

    trained, losses = train(arrays, rest, batch)
    after = eqx.combine(trained, rest)
    for one, other in zip(model.state(), after.state(), strict=True):
        assert np.array_equal(one, other)
    assert losses[-30:].mean() < losses[:30].mean()
    assert size(after.branch) != size(model.branch)
    for name, before in model.branch.gates().items():
        assert float(before) == 0 < float(after.branch.gates()[name]), name


def test_samples_are_drawn_under_a_picture_of_the_right_size(base: Diffusion, control: ControlModel) -> None:
    model = control
    out = model.sample(KEY, 4, control=jnp.ones((4, 4, 1)), condition=1, steps=2)
    assert np.array_equal(out, base.sample(KEY, 4, condition=1, steps=2))
    with pytest.raises(ArgumentError, match=r"shape \(8, 8, 1\) for pictures of shape \(4, 4, 1\)"):
        model.sample(KEY, 4, control=jnp.ones((8, 8, 1)), steps=2)
    with pytest.raises(ArgumentError, match="3 conditions for 4"):
        model.sample(KEY, 4, control=jnp.ones((3, 4, 4, 1)), steps=2)
    with pytest.raises(ArgumentError, match="strength=-1"):
        model.sample(KEY, 4, control=jnp.ones((4, 4, 1)), strength=-1)


def test_control_needs_a_unet() -> None:
    dense = models.build("diffusion", SCHEMA, width=4, depth=1)
    with pytest.raises(CapabilityError, match="denoiser=unet"):
        control_model(dense, KEY)


def test_edges_lie_where_brightness_changes() -> None:
    x = jnp.zeros((1, 6, 6, 3)).at[:, 3:].set(0.5)
    found = np.asarray(edges(x))[0, :, :, 0]
    assert found.shape == (6, 6)
    np.testing.assert_allclose(found[[2, 3]], 1, atol=1e-5)
    np.testing.assert_allclose(found[[0, 1, 4, 5]], 0, atol=1e-5)


def test_the_mask_is_the_bright_figure_and_depth_rises_towards_its_middle() -> None:
    x = np.random.default_rng(0).uniform(0, 0.3, (2, 7, 7, 3))
    x[:, 1:6, 1:6] += 0.6
    square = np.zeros((7, 7))
    square[1:6, 1:6] = 1
    for found in np.asarray(mask(jnp.asarray(x)))[..., 0]:
        np.testing.assert_array_equal(found, square)
    steps = np.minimum.outer([0, 1, 2, 3, 2, 1, 0], [0, 1, 2, 3, 2, 1, 0]) / 3
    np.testing.assert_allclose(np.asarray(depth(jnp.asarray(x)))[0, :, :, 0], steps, rtol=1e-6)
    np.testing.assert_array_equal(depth(jnp.ones((1, 4, 4, 1))), 0)  # nothing stands out


def test_the_base_is_a_unet_with_as_many_skips_as_blocks(base: Diffusion, control: ControlModel) -> None:
    assert isinstance(base.denoiser, UNetDenoiser)
    assert len(control.branch.leave) == sum(len(s.blocks) for s in base.denoiser.encoder.stages) + 1
