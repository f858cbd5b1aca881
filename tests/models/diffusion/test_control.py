"""Branches beside a frozen U-Net: they change nothing at first, learn in the right order, and leave the base alone."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from PIL import Image

from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.data import Batch, Schema
from chainrule.models.diffusion.control import Adapted, Combined, Control, depth, edges, extractors, mask
from chainrule.models.diffusion.denoisers.learned import NetworkDenoiser
from chainrule.models.diffusion.diffusion import Diffusion
from chainrule.models.diffusion.process import Level
from chainrule.models.protocol import parts_of
from chainrule.networks.unet import UNet
from chainrule.train.state import trainable

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
    moved = jax.tree.map(lambda a: added(a, 0.2 * noise.normal(size=a.shape)), arrays)
    return eqx.combine(moved, rest)


def added(a: jax.Array, change: Any) -> jax.Array:
    """Computed on the host, where no shape needs a program of its own."""
    return jnp.asarray((np.asarray(a) + np.asarray(change)).astype(a.dtype))


@pytest.fixture(scope="module")
def control(base: Diffusion) -> Control:
    return begun(base)


@pytest.fixture(scope="module")
def adapter(base: Diffusion) -> Control:
    return begun(base, kind="adapter")


def begun(base: Diffusion, **settings: Any) -> Control:
    """A branch beside a trained model."""
    model = models.begin("control", base, SCHEMA, **settings)
    assert isinstance(model, Control)
    return model


@pytest.fixture(scope="module")
def batch() -> Batch:
    x = np.random.default_rng(1).integers(0, 17, (6, 4, 4, 1)) / 16
    return Batch(jnp.asarray(x), jnp.array([0, 1, 0, 1, 0, 1]))


@eqx.filter_jit
def predict(net: Any, x: jax.Array) -> jax.Array:
    return net.predict(x, LEVEL, jnp.array([0, 1]))


@eqx.filter_jit
def slope(model: Control, batch: Batch, key: jax.Array) -> Control:
    return eqx.filter_grad(lambda m: m.loss(batch, key)[0])(model)


@eqx.filter_jit
def seen(model: Control, picture: jax.Array, x: jax.Array) -> jax.Array:
    """What a model predicts with its branch looking at a picture."""
    return predict(model.seeing(picture, 1.0).denoiser, x)


def size(tree: Any) -> float:
    return float(sum(np.abs(np.asarray(a)).sum() for a in jax.tree.leaves(eqx.filter(tree, eqx.is_array))))


@pytest.mark.slow  # two U-Nets, each compiled
def test_a_fresh_branch_changes_nothing_to_the_last_bit(
    base: Diffusion, control: Control, adapter: Control
) -> None:
    x = jax.random.normal(KEY, (2, 4, 4, 1))
    alone = predict(base.denoiser, x)
    for model in (control, adapter):
        assert np.array_equal(seen(model, jnp.ones((1, 4, 4, 1)), x), alone)
        assert np.array_equal(predict(model.body.denoiser, x), alone)


@pytest.mark.slow
def test_the_last_zeros_learn_first_and_then_the_copy(control: Control, batch: Batch) -> None:
    gradient = slope(control, batch, KEY)
    first = gradient.branch
    assert size(first.leave) > 0
    assert size(first.change) == size(first.enter) == size(first.hint) == 0
    arrays, rest = eqx.partition(control.branch, eqx.is_inexact_array)
    moved = jax.tree.map(lambda a, g: added(a, -0.1 * np.asarray(g)), arrays, gradient.branch)
    second = slope(eqx.tree_at(lambda m: m.branch, control, eqx.combine(moved, rest)), batch, KEY).branch
    assert size(second.change) > 0
    assert size(second.enter) > 0


@pytest.mark.slow  # two U-Nets, trained
@pytest.mark.parametrize("name", ["control", "adapter"])
def test_training_leaves_the_frozen_network_as_it_is(
    request: pytest.FixtureRequest, batch: Batch, name: str
) -> None:
    model = request.getfixturevalue(name)
    moving = trainable(model, parts_of(model))
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
    arrays = (jax.tree.leaves(eqx.filter(m.state(), eqx.is_array)) for m in (model, after))
    for one, other in zip(*arrays, strict=True):
        assert np.array_equal(one, other)
    assert losses[-30:].mean() < losses[:30].mean()
    assert size(after.branch) != size(model.branch)
    gates = eqx.filter_jit(lambda branch: branch.gates())
    opened = gates(after.branch)
    for name, before in gates(model.branch).items():
        assert float(before) == 0 < float(opened[name]), name


def test_samples_are_drawn_under_a_picture_of_the_right_size(base: Diffusion, control: Control) -> None:
    out = control.sample(KEY, 4, control=jnp.ones((4, 4, 1)), condition=1, steps=2)
    assert np.array_equal(out, base.sample(KEY, 4, condition=1, steps=2))
    assert np.array_equal(out, control.sample(KEY, 4, condition=1, steps=2))
    with pytest.raises(ArgumentError, match=r"shape \(8, 8, 1\); it has to be \(4, 4, 1\)"):
        control.sample(KEY, 4, control=jnp.ones((8, 8, 1)), steps=2)
    with pytest.raises(ArgumentError, match="strength=-1"):
        control.sample(KEY, 4, control=jnp.ones((4, 4, 1)), strength=-1)
    with pytest.raises(ArgumentError, match=r"unknown option 'guidence' \(did you mean 'guidance'"):
        control.sample(KEY, 4, guidence=2)
    with pytest.raises(ArgumentError, match="control and like"):
        control.sample(KEY, 4, control=jnp.ones((4, 4, 1)), like=jnp.ones((4, 4, 1)))


def test_what_is_asked_comes_from_arrays_pictures_and_stored_samples(
    control: Control, tmp_path: Path
) -> None:
    x = np.random.default_rng(2).integers(0, 17, (3, 4, 4, 1))
    expected = edges(jnp.asarray(x, jnp.float32) / 16)
    np.savez(tmp_path / "samples.npz", samples=x, control=expected)
    pixels = np.arange(16, dtype=np.uint8).reshape(4, 4) * 17
    Image.fromarray(pixels).save(tmp_path / "lines.png")
    turns = np.asarray(expected)[[0, 1, 2, 0]]
    for options in ({"like": tmp_path / "samples.npz"}, {"control": str(tmp_path / "samples.npz")}):
        np.testing.assert_allclose(control.sample_controls(4, **options), turns, atol=1e-6)
    found = control.sample_controls(2, control=str(tmp_path / "lines.png"))
    np.testing.assert_allclose(found, np.stack([pixels[..., None] / 255] * 2), rtol=1e-6)
    with pytest.raises(DataError, match=r"cannot be read \(unreadable"):
        control.sample_controls(1, control=str(tmp_path / "none.png"))


def test_control_needs_a_trained_unet(base: Diffusion) -> None:
    dense = models.build("diffusion", SCHEMA, width=4, depth=1)
    with pytest.raises(CapabilityError, match="denoiser=unet"):
        models.begin("control", dense, SCHEMA)
    other = models.build("mlp", SCHEMA, width=4)
    with pytest.raises(CapabilityError, match="not beside a mlp"):
        models.begin("control", other, SCHEMA)
    with pytest.raises(ArgumentError, match="unknown extractor 'egdes'"):
        begun(base, extract="egdes")


def test_a_copy_begins_as_what_it_stands_beside_and_extractors_of_ones_own_are_known_by_name(
    base: Diffusion, control: Control
) -> None:
    copy = control.branch.copy(base.denoiser.body.encoder)
    assert eqx.tree_equal(copy, base.denoiser.body.encoder)
    extractors.add("corners", lambda x: jnp.concatenate([x, 1 - x], axis=-1))
    assert begun(base, kind="adapter", extract="corners").branch.layers[0][0].inputs == 2


def test_what_several_adapters_add_may_be_summed(base: Diffusion, adapter: Control) -> None:
    x = jax.random.normal(KEY, (2, 4, 4, 1))
    moved = jax.tree.map(lambda a: added(a, 0.1) if eqx.is_inexact_array(a) else a, adapter.branch)
    features = eqx.filter_jit(moved)(jnp.ones((1, 4, 4, 1)))
    both = Adapted(base=base.denoiser.body, features=tuple(0.25 * f + 0.75 * f for f in features), target="v")
    one = moved.beside(base.denoiser.body, "v", jnp.ones((1, 4, 4, 1)), 1.0)
    np.testing.assert_allclose(predict(both, x), predict(one, x), rtol=1e-5)


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


def test_the_base_is_a_unet_with_as_many_skips_as_blocks(base: Diffusion, control: Control) -> None:
    assert isinstance(base.denoiser, NetworkDenoiser)
    assert isinstance(base.denoiser.body, UNet)
    assert len(control.branch.leave) == sum(len(s.blocks) for s in base.denoiser.body.encoder.stages) + 1


@pytest.fixture(scope="module")
def trained(adapter: Control) -> Control:
    """An adapter as if trained."""
    noise = np.random.default_rng(3)
    arrays, rest = eqx.partition(adapter.branch, eqx.is_inexact_array)
    moved = jax.tree.map(lambda a: added(a, 0.3 * noise.normal(size=a.shape)), arrays)
    return eqx.tree_at(lambda model: model.branch, adapter, eqx.combine(moved, rest))


def combined(models: list[Control], strengths: tuple[float, float], **asked: Any) -> Any:
    each = [{"control": None, "like": jnp.ones((2, 4, 4, 1)), "strength": s, **asked} for s in strengths]
    return models[0].seeing_all(models, 2, each).denoiser


def test_two_halves_of_a_control_are_one_and_a_control_without_strength_is_none(trained: Control) -> None:
    x = jax.random.normal(KEY, (2, 4, 4, 1))
    picture = trained.extract(jnp.arange(32.0).reshape(2, 4, 4, 1) / 32).astype(jnp.float32)
    one = predict(trained.seeing(picture, 1.0).denoiser, x)
    two = predict(combined([trained, trained], (0.5, 0.5), control=picture, like=None), x)
    np.testing.assert_array_equal(two, one)
    alone = predict(combined([trained, trained], (1.0, 0.0), control=picture, like=None), x)
    np.testing.assert_array_equal(alone, one)
    assert not np.array_equal(
        predict(combined([trained, trained], (1.0, 1.0), control=picture, like=None), x), one
    )


@pytest.mark.slow  # a U-Net with a copy of its encoder
def test_a_copy_and_an_adapter_add_what_each_adds(
    base: Diffusion, trained: Control, control: Control
) -> None:
    """A copy that adds nothing yet, beside an adapter that does, whichever comes first."""
    x = jax.random.normal(KEY, (2, 4, 4, 1))
    one = predict(trained.seeing(trained.extract(jnp.ones((2, 4, 4, 1))), 1.0).denoiser, x)
    for models_ in ([trained, control], [control, trained]):
        found = combined(models_, (1.0, 1.0))
        assert isinstance(found, Combined)
        np.testing.assert_allclose(predict(found, x), one, atol=1e-6)


@pytest.mark.slow  # whole walks
def test_samples_follow_several_controls(trained: Control) -> None:
    image = np.arange(16.0).reshape(4, 4, 1) / 16
    drawn = trained.sample(KEY, 2, like=image, beside=[trained], strength=(0.5, 0.5), condition=0, steps=2)
    alone = trained.sample(KEY, 2, like=image, condition=0, steps=2)
    np.testing.assert_allclose(drawn, alone, atol=1e-5)


def test_controls_that_do_not_belong_together_are_refused(trained: Control, base: Diffusion) -> None:
    other = eqx.tree_at(
        lambda m: m.body.denoiser.body.encoder.entry.bias, trained, replace_fn=lambda a: a + 1
    )
    picture = np.zeros((4, 4, 1))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"beside": [other]}, "number 1 stands beside another diffusion model"),
        ({"beside": [base]}, "number 1 is a Diffusion, not a run of control"),
        ({"beside": [trained], "strength": (1.0, 1.0, 1.0)}, "strength: 3 for 2 controls"),
        ({"strength": (1.0, 1.0)}, "strength: 2 for 1 control"),
        ({"beside": trained, "like": [picture, None]}, "every control needs something to follow"),
    ]
    for options, message in wrong:
        with pytest.raises(ArgumentError, match=message):
            trained.sample(KEY, 1, **{"like": picture, **options})
