"""Activation maximisation: closed forms where what excites is linear, and what the probe refuses."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models, report
from chainrule.core.errors import ArgumentError
from chainrule.explain import probes
from chainrule.explain.methods.activation_maximisation import Ascent, blurred, climb, moved
from chainrule.train import Run, fit

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
W = jnp.asarray(RNG.normal(size=(2, 5, 6, 1)), jnp.float32)
BOX: dict[str, Any] = {"low": jnp.array([-1.0]), "high": jnp.array([1.0]), "centre": jnp.zeros((5, 6, 1))}
START = jnp.zeros_like(W)


def linear(x: jax.Array) -> jax.Array:
    return (W * x).sum(axis=(1, 2, 3))


def test_what_excites_a_linear_model_most_is_the_corner_of_the_range_its_weights_point_to() -> None:
    found = climb(linear, START, KEY, Ascent(steps=200, rate=5.0, jitter=0, blur=0.0, decay=0.0), **BOX)
    np.testing.assert_array_equal(found, np.sign(W))


def test_decay_and_blur_hold_the_climb_back_as_the_recursion_says() -> None:
    ascent = Ascent(steps=7, rate=0.1, jitter=0, blur=0.3, decay=0.2)
    found = climb(linear, START, KEY, ascent, **BOX)
    weights = np.asarray(W, np.float64)
    way = weights / np.sqrt((weights**2).mean(axis=(1, 2, 3), keepdims=True))
    x = np.zeros_like(weights)
    for t in range(7):
        share = 1 - t / 7
        x = x + share * 0.1 * way
        wide = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
        mean = sum(
            (2 - abs(i)) * (2 - abs(j)) * wide[:, 1 + i : 6 + i, 1 + j : 7 + j] / 16
            for i in (-1, 0, 1)
            for j in (-1, 0, 1)
        )
        x = x + share * 0.3 * (mean - x)
        x = x * (1 - share * 0.2)
    np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-5)


def test_jitter_spreads_what_one_pixel_sees_over_its_neighbours_and_no_further() -> None:
    one = lambda x: x[:, 2, 3, 0]  # noqa: E731
    ascent = Ascent(steps=100, rate=1.0, jitter=1, blur=0.0, decay=0.0)
    lit = np.asarray(climb(one, START[:1], KEY, ascent, **BOX))[0, :, :, 0]
    expected = np.zeros((5, 6))
    expected[1:4, 2:5] = 1
    np.testing.assert_array_equal(lit, expected)


@pytest.mark.parametrize("shift", [(0, 0), (2, -1), (-2, 2)])
def test_a_moved_image_is_the_image_with_its_edge_repeated(shift: tuple[int, int]) -> None:
    rows, columns = (np.clip(np.arange(n) - s, 0, n - 1) for n, s in zip((5, 6), shift, strict=True))
    expected = np.asarray(W)[:, rows][:, :, columns]
    np.testing.assert_array_equal(moved(W, jnp.array(shift), 2), expected)


def test_blurring_leaves_an_even_image_as_it_is() -> None:
    np.testing.assert_array_equal(
        blurred(jnp.full((1, 3, 1, 2), 0.3)), np.full((1, 3, 1, 2), np.float32(0.3))
    )


def test_an_image_that_excites_nothing_only_fades() -> None:
    silent = lambda x: 0 * linear(x)  # noqa: E731
    found = climb(silent, W, KEY, Ascent(steps=3, jitter=0, blur=0.0, decay=0.5), **BOX)
    factor = (1 - 0.5) * (1 - 1 / 3) * (1 - 1 / 6)
    start = np.asarray(W) * 0.5
    np.testing.assert_allclose(found, np.clip(start, -1, 1) * factor / 0.5, rtol=1e-5)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    digits = data.load("digits")
    model = models.build("cnn", digits, stages=1, blocks=1, width=4)
    return fit(model, digits, run=tmp_path_factory.mktemp("runs") / "digits", steps=60, batch=32)


QUICK = {"steps": 20, "starts": 2, "draws": 1, "examples": 50}


def test_the_dream_of_a_class_beats_the_mean_image_and_is_held_against_data_and_shuffled_weights(
    run: Run,
) -> None:
    found = probes.examine("dreams", run, classes=("3", "7"), **QUICK)
    model: Any = run.model
    mean = eqx.filter_jit(model.logits)(run.data.train.batch(np.arange(50)).x.mean(axis=0)[None])[0]
    assert found.numbers["reached"][0] > mean[3]
    assert found.numbers["reached"][1] > mean[7]
    assert found.numbers["targets"] == ["3", "7"]
    assert {len(found.numbers[name]) for name in ("probability", "alike", "distance")} == {2}
    assert "shuffled weights" in found.findings[1]
    assert "different starts" in found.findings[1]
    sheet: Any = found.pictures[0]
    assert sheet.images.shape == (6, 8, 8, 1)
    assert 0 <= sheet.images.min() <= sheet.images.max() <= 1
    assert report.draw(sheet).startswith("<svg")


def test_channels_of_a_layer_are_excited_instead_of_classes(run: Run) -> None:
    found = probes.examine("dreams", run, layer=-1, channels=(2, 0, 1), **{**QUICK, "starts": 1})
    assert found.numbers["targets"] == ["2", "0", "1"]
    assert found.numbers["starts alike"] is None
    assert found.table is not None
    assert "probability" not in found.table.columns


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classes": ("three",)}, "classes=three: there is no such class"),
        ({"layer": 1}, "layer=1: the network has 1 rectified layers"),
        ({"layer": 0, "channels": (4,)}, "channels=4: layer 0 has 4 channels"),
        ({"channels": (1,)}, "channels of which layer"),
        ({"layer": 0, "classes": ("3",)}, "classes or channels, not both"),
        ({"jitter": 8}, "jitter=8: images are 8 pixels"),
    ],
)
def test_what_is_not_there_cannot_be_dreamt_of(run: Run, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        probes.examine("dreams", run, **QUICK, **settings)


def test_a_model_without_images_or_without_feature_maps_is_refused(run: Run) -> None:
    points = data.load("moons", n=60).schema
    assert not probes.get("dreams").applies(models.build("mlp", points, width=4), points)
    dense = Run(run.path, data=run.data)
    dense.__dict__["model"] = models.build("mlp", run.data, width=4)
    with pytest.raises(ArgumentError, match="no rectified feature maps"):
        probes.examine("dreams", dense, layer=0)


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"jitter": -1}, {"blur": 2.0}, {"decay": -0.1}, {"rate": 0.0}]
)
def test_an_ascent_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(ArgumentError, match=f"Ascent\\({name}="):
        Ascent(**wrong)
