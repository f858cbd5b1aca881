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
from chainrule.explain.methods.activation_maximisation import (
    PARAMETRISATIONS,
    Ascent,
    ImageRange,
    climb,
    moved,
)
from chainrule.train import Run, fit

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
W = jnp.asarray(RNG.normal(size=(2, 5, 6, 1)), jnp.float32)
BOX = ImageRange(jnp.array([-1.0]), jnp.array([1.0]), jnp.zeros((5, 6, 1)))
FREE: dict[str, Any] = {"jitter": 0, "scale": 0.0, "l2": 0.0, "variation": 0.0}


def linear(x: jax.Array) -> jax.Array:
    return (jnp.tile(W, (len(x) // 2, 1, 1, 1)) * x).sum(axis=(1, 2, 3))


@pytest.mark.parametrize("parametrisation", PARAMETRISATIONS)
def test_what_excites_a_linear_model_most_is_the_corner_of_the_range_its_weights_point_to(
    parametrisation: str,
) -> None:
    ascent = Ascent(steps=400, rate=0.1, parametrisation=parametrisation, **FREE)
    found = np.asarray(climb(linear, KEY, ascent, BOX, units=2)[0])
    reached, most = (W * found).sum(axis=(1, 2, 3)), np.abs(W).sum(axis=(1, 2, 3))
    np.testing.assert_allclose(reached, most, rtol=0.03)
    assert (np.sign(found) == np.sign(W))[np.abs(W) > 0.3].all()


@pytest.mark.parametrize("parametrisation", PARAMETRISATIONS)
def test_penalties_hold_the_climb_back_at_the_solution_of_their_linear_equations(
    parametrisation: str,
) -> None:
    ascent = Ascent(
        steps=600, rate=0.1, parametrisation=parametrisation, **{**FREE, "l2": 60.0, "variation": 90.0}
    )
    found = climb(linear, KEY, ascent, BOX, units=2)[0]
    rows, columns = (np.diff(np.eye(n), axis=0) for n in (5, 6))
    down, across = np.kron(rows, np.eye(6)), np.kron(np.eye(5), columns)
    # In shares of the range, from -1 to 1: x = 2 s - 1, the centre is a half, and the weights count twice.
    curvature = 2 * 60 / 30 * np.eye(30)
    curvature += 2 * 90 * (down.T @ down / len(down) + across.T @ across / len(across))
    weights = 2 * np.asarray(W, np.float64).reshape(2, 30)
    expected = 2 * (0.5 + np.linalg.solve(curvature, weights.T).T) - 1
    assert np.abs(expected).max() < 0.98  # inside of the range
    np.testing.assert_allclose(np.asarray(found).reshape(2, 30), expected, atol=2e-3)


def test_waves_begin_smoother_than_pixels() -> None:
    ascents = [Ascent(steps=1, parametrisation=name, **FREE) for name in PARAMETRISATIONS]
    limits = ImageRange(BOX.low, BOX.high, jnp.zeros((16, 16, 1)))
    waves, pixels = (
        np.asarray(climb(lambda x: 0 * x.sum(axis=(1, 2, 3)), KEY, one, limits, starts=8)) for one in ascents
    )
    rough = [np.square(np.diff(x, axis=2)).mean() / np.square(x).mean() for x in (waves, pixels)]
    assert rough[0] < rough[1] / 2
    assert rough[1] == pytest.approx(2, rel=0.1)  # independent pixels


def test_diversity_drives_the_images_of_one_unit_apart() -> None:
    def likeness(diversity: float) -> float:
        ascent = Ascent(steps=100, rate=0.1, diversity=diversity, **{**FREE, "l2": 20.0})
        flat = np.asarray(climb(linear, KEY, ascent, BOX, starts=2, units=2)).reshape(2, 2, -1)
        return float(np.mean([np.corrcoef(flat[0, u], flat[1, u])[0, 1] for u in range(2)]))

    assert likeness(50.0) < likeness(0.0) - 0.5


def test_jitter_spreads_what_one_pixel_sees_over_its_neighbours_and_no_further() -> None:
    one = lambda x: x[:, 2, 3, 0]  # noqa: E731
    ascent = Ascent(steps=200, rate=0.5, parametrisation="pixels", **{**FREE, "jitter": 1})
    start = Ascent(steps=1, rate=1e-9, parametrisation="pixels", **FREE)
    lit, before = (np.asarray(climb(one, KEY, a, BOX))[0, 0, :, :, 0] for a in (ascent, start))
    expected = np.zeros((5, 6), bool)
    expected[1:4, 2:5] = True
    assert (lit[expected] > 0.98).all()
    np.testing.assert_allclose(lit[~expected], before[~expected], atol=1e-5)


@pytest.mark.parametrize("shift", [(0, 0), (2, -1), (-2, 2)])
def test_a_moved_image_is_the_image_with_its_edge_repeated(shift: tuple[int, int]) -> None:
    rows, columns = (np.clip(np.arange(n) - s, 0, n - 1) for n, s in zip((5, 6), shift, strict=True))
    expected = np.asarray(W)[:, rows][:, :, columns]
    np.testing.assert_allclose(moved(W, jnp.array(shift, jnp.float32)), expected, rtol=1e-6, atol=1e-6)


def test_an_enlarged_ramp_is_flatter_about_its_middle() -> None:
    ramp = jnp.asarray(np.tile(np.arange(7.0), (7, 1))[None, :, :, None], jnp.float32)
    found = np.asarray(moved(ramp, jnp.zeros(2), 1.25))[0, 3, :, 0]
    np.testing.assert_allclose(found, np.clip((np.arange(7) - 3) / 1.25 + 3, 0, 6), rtol=1e-5)


def test_an_image_that_excites_nothing_goes_to_the_centre() -> None:
    silent = lambda x: 0 * linear(x)  # noqa: E731
    ascent = Ascent(steps=300, rate=0.1, **{**FREE, "l2": 1.0})
    np.testing.assert_allclose(climb(silent, KEY, ascent, BOX, units=2)[0], np.zeros(W.shape), atol=0.02)


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
    "wrong",
    [
        {"steps": 0},
        {"jitter": -1},
        {"scale": 0.6},
        {"l2": -0.1},
        {"variation": -1.0},
        {"diversity": -1.0},
        {"rate": 0.0},
        {"parametrisation": "wavelets"},
    ],
)
def test_an_ascent_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ArgumentError, match=f"Ascent\\({name}="):
        Ascent(**wrong)
