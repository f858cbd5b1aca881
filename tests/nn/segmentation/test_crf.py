"""Mean field against loops over pixels, its free energy, and the two sparser graphs against the dense one."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn.detection.superpixels import slic
from chainrule.nn.segmentation import (
    Potentials,
    crf,
    dense_kernel,
    free_energy,
    mean_field,
    superpixel_crf,
    unary,
)

RNG = np.random.default_rng(0)
STRONG = Potentials(1.5, 2.0, 0.3, 0.5, 1.0)
NOTHING = Potentials(appearance=0.0, smoothness=0.0)


def grid(height: int, width: int, classes: int = 3) -> tuple[jax.Array, jax.Array]:
    """Energies and an image."""
    return (
        jnp.asarray(RNG.normal(size=(height, width, classes)), jnp.float32),
        jnp.asarray(RNG.random((height, width, 3)), jnp.float32),
    )


def cost(image: np.ndarray, i: tuple[int, int], j: tuple[int, int], p: Potentials) -> float:
    apart = float((i[0] - j[0]) ** 2 + (i[1] - j[1]) ** 2)
    unlike = float(((image[i].astype(np.float64) - image[j]) ** 2).sum())
    return p.appearance * np.exp(
        -apart / (2 * p.position**2) - unlike / (2 * p.colour**2)
    ) + p.smoothness * np.exp(-apart / (2 * p.reach**2))


def by_loops(energies: np.ndarray, image: np.ndarray, p: Potentials, iterations: int) -> np.ndarray:
    """Mean field as it is written on paper, in double precision."""
    height, width, classes = energies.shape
    pixels = list(itertools.product(range(height), range(width)))
    q = {i: np.exp(-energies[i].astype(np.float64)) for i in pixels}
    q = {i: v / v.sum() for i, v in q.items()}
    for _ in range(iterations):
        new = {}
        for i in pixels:
            total = energies[i].astype(np.float64).copy()
            for label in range(classes):
                total[label] += sum(cost(image, i, j, p) * (1 - q[j][label]) for j in pixels if j != i)
            v = np.exp(-(total - total.min()))
            new[i] = v / v.sum()
        q = new
    return np.array([[q[y, x] for x in range(width)] for y in range(height)])


def test_without_pairs_it_is_the_softmax_of_minus_the_energies() -> None:
    energies, image = grid(4, 5)
    expected = jax.nn.softmax(-energies, axis=-1)
    for window in (None, 2):
        np.testing.assert_allclose(crf(energies, image, NOTHING, window=window), expected, atol=1e-6)
    kernel = dense_kernel(image, NOTHING)
    flat = mean_field(energies.reshape(20, 3), kernel, sequential=True)
    np.testing.assert_allclose(flat.reshape(energies.shape), expected, atol=1e-6)
    pieces = superpixel_crf(np.asarray(energies), np.asarray(image), np.arange(20).reshape(4, 5), NOTHING)
    np.testing.assert_allclose(pieces, expected, atol=1e-6)


@pytest.mark.parametrize("iterations", [1, 10])
def test_mean_field_on_a_small_grid_is_that_of_loops_over_pixels(iterations: int) -> None:
    energies, image = grid(2, 3)
    expected = by_loops(np.asarray(energies), np.asarray(image), STRONG, iterations)
    assert np.abs(expected - np.asarray(jax.nn.softmax(-energies, axis=-1))).max() > 0.1
    found = crf(energies, image, STRONG, iterations=iterations)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    windowed = crf(energies, image, STRONG, iterations=iterations, window=3)
    np.testing.assert_allclose(windowed, expected, atol=1e-5)


def test_the_free_energy_never_rises_when_nodes_move_one_after_the_other() -> None:
    for _ in range(3):
        energies, image = grid(3, 4)
        flat, kernel = energies.reshape(12, 3), dense_kernel(image, Potentials(3.0, 2.0, 0.5, 2.0, 1.0))
        states = [jax.nn.softmax(-flat, axis=-1)]
        states += [mean_field(flat, kernel, iterations=n, sequential=True) for n in range(1, 6)]
        values = np.array([float(free_energy(q, flat, kernel)) for q in states])
        assert (np.diff(values) <= 1e-5).all()
        assert values[-1] < values[0] - 0.1


def test_the_free_energy_lies_above_that_of_all_labellings() -> None:
    energies, image = grid(2, 2, 2)
    flat, kernel = energies.reshape(4, 2), dense_kernel(image, STRONG)
    every = []
    for labels in itertools.product((0, 1), repeat=4):
        own = sum(float(flat[i, label]) for i, label in enumerate(labels))
        pairs = [
            float(kernel[i, j]) for i, j in itertools.combinations(range(4), 2) if labels[i] != labels[j]
        ]
        every.append(own + sum(pairs))
    exact = -np.log(np.exp(-np.array(every)).sum())
    q = mean_field(flat, kernel, iterations=50, sequential=True)
    found = float(free_energy(q, flat, kernel))
    assert exact - 1e-6 <= found < exact + 1.0
    sure = jax.nn.one_hot(jnp.array([0, 1, 1, 0]), 2)
    np.testing.assert_allclose(float(free_energy(sure, flat, kernel)), every[0b0110], rtol=1e-5)


def test_a_window_that_covers_the_image_gives_what_all_pairs_give() -> None:
    energies, image = grid(6, 7)
    every = np.asarray(crf(energies, image, STRONG))
    np.testing.assert_allclose(crf(energies, image, STRONG, window=7), every, atol=1e-5)
    assert np.abs(np.asarray(crf(energies, image, STRONG, window=1)) - every).max() > 1e-3


def test_larger_images_are_refined_within_windows() -> None:
    energies, image = grid(65, 66, 2)
    found = np.asarray(jax.jit(crf)(energies, image))
    assert found.shape == energies.shape
    near = Potentials(
        position=0.5, reach=0.5
    )  # beyond three pixels there is nothing, so a window of 3 has it all
    small = crf(energies[:20, :20], image[:20, :20], near)
    large = np.asarray(crf(energies, image, near, window=3))[:20, :20]
    np.testing.assert_allclose(large[:10, :10], np.asarray(small)[:10, :10], atol=1e-4)


def test_superpixels_have_one_class_each_and_noise_within_them_goes() -> None:
    image = np.zeros((24, 24, 3), np.float32)
    image[:, 12:] = 1.0
    true = (image[..., 0] > 0.5).astype(int)
    noisy = np.where(RNG.random(true.shape) < 0.25, 1 - true, true)
    p = np.where(np.eye(2)[noisy] > 0, 0.7, 0.3)
    pieces = slic(image, 16)
    found = superpixel_crf(np.asarray(unary(jnp.asarray(p))), image, pieces).argmax(axis=-1)
    assert all(len(np.unique(found[pieces == one])) == 1 for one in np.unique(pieces))
    assert (found == true).mean() > (noisy == true).mean() + 0.2


def test_neighbours_of_one_colour_correct_what_one_pixel_says() -> None:
    image = np.zeros((16, 16, 3), np.float32)
    image[4:12, 4:12] = (1.0, 0.2, 0.1)
    true = (image[..., 0] > 0.5).astype(int)
    noisy = np.where(RNG.random(true.shape) < 0.15, 1 - true, true)
    p = np.where(np.eye(2)[noisy] > 0, 0.8, 0.2)
    found = np.asarray(crf(unary(jnp.asarray(p)), jnp.asarray(image))).argmax(axis=-1)
    assert (found == true).mean() > 0.98 > (noisy == true).mean()


def test_what_cannot_be_refined_is_refused() -> None:
    energies, image = grid(3, 3)
    with pytest.raises(ArgumentError, match="3×3 pixels and an image of 4×3"):
        crf(energies, jnp.zeros((3, 4, 3)))
    with pytest.raises(ArgumentError, match="colour=0"):
        crf(energies, image, Potentials(colour=0.0))
    with pytest.raises(ArgumentError, match="appearance=-1"):
        crf(energies, image, Potentials(appearance=-1.0))
    with pytest.raises(ArgumentError, match="for 9 nodes"):
        mean_field(energies.reshape(9, 3), jnp.zeros((2, 2)))
    with pytest.raises(ArgumentError, match="pieces of"):
        superpixel_crf(np.asarray(energies), np.asarray(image), np.zeros((2, 2), int))
