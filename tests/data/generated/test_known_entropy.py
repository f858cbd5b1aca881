"""The entropy of points whose distribution is known, by other routes than the one that computes it."""

import math

import numpy as np
import pytest
from scipy.spatial import cKDTree

from chainrule.data import load
from chainrule.data.generated.known_entropy import entropy_of
from chainrule.data.generated.toys import TOYS, alternating


def normal_entropy(noise: float, dimensions: int) -> float:
    return dimensions * math.log(noise * math.sqrt(2 * math.pi * math.e))


def test_modes_far_apart_and_closed_curves_have_the_entropy_of_their_parts() -> None:
    ring = {"name_or_path": "ring", "noise": 0.02}
    assert entropy_of(ring) == pytest.approx(math.log(8) + normal_entropy(0.02, 2), abs=1e-6)
    lengths = 2 * np.pi * np.array([0.6, 1.2, 1.8])
    expected = math.log(3) + np.log(lengths).mean() + normal_entropy(0.05, 1)
    assert entropy_of({"name_or_path": "rings", "noise": 0.05}) == pytest.approx(expected, abs=2e-3)
    assert entropy_of(load("checkerboard", n=50).source) == pytest.approx(math.log(8))


@pytest.mark.parametrize("name", ["moons", "swiss-roll", "xor"])
def test_it_is_the_integral_of_the_density_of_what_is_drawn(name: str) -> None:
    """With much noise a coarse grid is fine enough, and draws without noise say what the density is a mean of."""
    noise, toy = 0.25, TOYS[name]
    labels = alternating(4000, len(toy.classes))
    still = np.unique(toy.draw(np.random.default_rng(0), labels, 0.0).round(2), axis=0, return_counts=True)
    (centres, counts), axis = still, np.arange(-3.5, 3.5, 0.12)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    apart = np.square(grid[:, None] - centres[None]).sum(axis=-1) / (2 * noise**2)
    density = np.exp(-apart) @ (counts / counts.sum()) / (2 * np.pi * noise**2)
    assert density.sum() * 0.12**2 == pytest.approx(1, abs=1e-3)
    expected = -(density * np.log(np.maximum(density, 1e-300))).sum() * 0.12**2
    assert entropy_of({"name_or_path": name, "noise": noise}) == pytest.approx(expected, abs=0.01)


def test_points_on_a_shape_are_where_draws_without_noise_are() -> None:
    for name, toy in TOYS.items():
        if toy.shape is None:
            continue
        labels = alternating(600, len(toy.classes))
        along = (
            np.repeat((np.arange(200) + 0.5) / 200, 3) if len(toy.classes) == 3 else np.linspace(0, 1, 600)
        )
        found = toy.shape(labels, along)
        drawn = toy.draw(np.random.default_rng(0), labels, 0.0)
        assert cKDTree(drawn).query(found)[0].max() < 0.2, name


def test_it_is_not_known_of_other_data_nor_of_noise_that_is_next_to_none() -> None:
    for source in ({}, {"name_or_path": "digits"}, load("pinwheel", n=50).source):
        assert entropy_of(source) is None
    assert entropy_of({"name_or_path": "moons", "noise": 0.0}) is None
