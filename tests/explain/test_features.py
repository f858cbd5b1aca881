"""Projections of activations: gradients where nothing is rectified, and each rule where something is."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models
from chainrule.core.errors import ArgumentError
from chainrule.data import Schema
from chainrule.explain import probes
from chainrule.explain.methods.feature_maps import feature_maps
from chainrule.explain.methods.projections import (
    RULES,
    project,
    receptive_fields,
    seen_patch,
    strongest,
)
from chainrule.nn import max_pool
from chainrule.train import Run, fit

KERNEL = jnp.asarray(np.random.default_rng(0).normal(size=(3, 3, 1, 2)), jnp.float32)
RNG = np.random.default_rng(5)
X = jnp.asarray(np.random.default_rng(1).normal(size=(2, 6, 6, 1)), jnp.float32)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    digits = data.load("digits")
    model = models.build("cnn", digits, width=4, stages=1, blocks=2)
    return fit(model, digits, run=tmp_path_factory.mktemp("runs") / "digits", steps=2, batch=16)


def convolve(x: jax.Array) -> jax.Array:
    return jax.lax.conv_general_dilated(x, KERNEL, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def test_maps_are_the_outputs_of_the_rectifiers_in_order() -> None:
    network = lambda x: jax.nn.relu(jnp.tanh(jax.jit(jax.nn.relu)(convolve(x)) - 0.5)).sum(axis=(1, 2))  # noqa: E731
    first, second = feature_maps(network, X)
    np.testing.assert_allclose(first, np.maximum(convolve(X), 0), rtol=1e-6)
    np.testing.assert_allclose(second, np.maximum(np.tanh(np.asarray(first) - 0.5), 0), rtol=1e-5, atol=1e-7)


def test_before_the_first_rectifier_every_rule_is_the_gradient_of_the_positive_units() -> None:
    network = lambda x: jax.nn.relu(convolve(x) + 100.0)  # noqa: E731  # nothing is cut off
    signal = jnp.abs(convolve(X))
    expected = jax.vjp(convolve, X)[1](signal)[0]
    for rule in RULES:
        np.testing.assert_allclose(project(network, 0, X, signal, rule=rule), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_lets_through_what_it_says(rule: Any) -> None:
    x = jnp.array([-1.0, -2.0, 3.0, 4.0]).reshape(1, 2, 2, 1)
    signal = jnp.array([5.0, -6.0, 7.0, -8.0]).reshape(1, 2, 2, 1)
    found = project(jax.nn.relu, 0, x, signal, rule=rule).ravel()
    expected = {"gradient": [0, 0, 7, -8], "deconvolution": [5, 0, 7, 0], "guided": [0, 0, 7, 0]}
    np.testing.assert_array_equal(found, expected[rule])


def test_pooling_sends_everything_back_to_the_largest_pixel() -> None:
    network = lambda x: jax.nn.relu(max_pool(x, 2))  # noqa: E731
    x = jnp.asarray(np.random.default_rng(2).permutation(16).reshape(1, 4, 4, 1) + 1.0, jnp.float32)
    peak, signal = strongest(feature_maps(network, x)[0], 0)
    back = project(network, 0, x, signal)
    assert int((back != 0).sum()) == 1
    assert float(back.max()) == float(peak[0]) == float(x.max())
    assert int(back.argmax()) == int(x.argmax())


def test_registered_networks_can_be_looked_into() -> None:
    model: Any = models.build(
        "resnet", Schema("image", (8, 8, 1), target="class", classes=("a", "b")), depth=8, width=2
    )
    maps = jax.eval_shape(
        lambda x: feature_maps(model.predict, x), jax.ShapeDtypeStruct((3, 8, 8, 1), jnp.float32)
    )
    assert [m.shape[-1] for m in maps] == [2, 2, 2, 4, 4, 8, 8]


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ArgumentError, match="rule"):
        project(jax.nn.relu, 0, X, X, rule="forward")


def test_without_rectifiers_before_it_and_pooling_a_projection_is_the_gradient_exactly() -> None:
    network = lambda x: jax.nn.relu(convolve(convolve(x).sum(axis=-1, keepdims=True)) + 1e3)  # noqa: E731
    _, signal = strongest(feature_maps(network, X)[0], 1)
    gradient = jax.vjp(network, X)[1](signal)[0]
    for rule in RULES:
        np.testing.assert_array_equal(project(network, 0, X, signal, rule=rule), gradient)


def test_a_patch_is_all_that_a_unit_sees_and_no_more() -> None:
    def network(x: jax.Array) -> jax.Array:
        return jax.nn.relu(convolve(max_pool(jax.nn.relu(convolve(x)), 2)[..., :1]) + 50.0)

    first, second = receptive_fields(network, (8, 10, 1))
    assert [[span.width for span in field] for field in (first, second)] == [[3, 3], [8, 8]]
    image = RNG.uniform(size=(8, 10, 1)).astype(np.float32)
    slope = jax.grad(lambda x: network(x)[0, 2, 2, 0])(jnp.asarray(image)[None])[0, ..., 0]
    touched = np.argwhere(np.asarray(slope) != 0)
    (top, bottom), (left, right) = (span.at({1: 2, 2: 2}) for span in second)
    assert (touched >= [top, left]).all()
    assert (touched <= [bottom, right]).all()
    np.testing.assert_array_equal(seen_patch(image, second, 2, 2), image[:, left : right + 1])
    corner = seen_patch(image, first, 0, 9)
    np.testing.assert_array_equal(corner[1:, :2], image[:2, 8:])
    assert (corner[0] == 0.5).all()
    assert (corner[:, 2] == 0.5).all()


def test_the_probe_shows_the_patches_of_chosen_units_of_chosen_layers(run: Run) -> None:
    settings: dict[str, Any] = {"layers": (-1,), "units": (2, 0), "examples": 20, "patches": 4}
    outcome = probes.examine("features", run, **settings)
    found = outcome.numbers["exciting"]
    assert list(found) == ["1"]
    assert list(found["1"]) == ["2", "0"]
    activity = [one["activity"] for one in found["1"]["2"]]
    assert activity == sorted(activity, reverse=True)
    maps = feature_maps(run.model.predict, jnp.asarray(run.data.train.batch(np.arange(20)).x))[1]
    best = found["1"]["2"][0]
    assert best["activity"] == pytest.approx(float(maps[..., 2].max()), rel=1e-5)
    assert float(maps[best["image"], best["row"], best["column"], 2]) == pytest.approx(
        best["activity"], rel=1e-5
    )
    sheet: Any = outcome.pictures[-1]
    assert sheet.columns == 1 + len(RULES) + 4
    assert len(sheet.images) == 2 * sheet.columns
    for wrong, message in ({"layers": (9,)}, "has 2 rectified layers"), ({"units": (99,)}, "4 channels"):
        with pytest.raises(ArgumentError, match=message):
            probes.examine("features", run, **wrong)


def test_rectifiers_that_end_are_rectifiers_too() -> None:
    x = jnp.array([-1.0, 2.0, 5.0, 9.0]).reshape(1, 2, 2, 1)
    (maps,) = feature_maps(jax.nn.relu6, x)
    np.testing.assert_array_equal(np.ravel(maps), [0, 2, 5, 6])
    back = project(jax.nn.relu6, 0, x, jnp.array([1.0, -1.0, 1.0, 1.0]).reshape(1, 2, 2, 1), rule="guided")
    np.testing.assert_array_equal(np.ravel(back), [0, 0, 1, 0])
