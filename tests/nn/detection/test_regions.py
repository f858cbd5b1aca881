"""Regions of feature maps against plain loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn.detection import roi_align, roi_max_pool, warp_regions

MAP = np.random.default_rng(0).normal(size=(9, 11, 3)).astype(np.float32)
BOXES = np.array([[0.0, 0, 11, 9], [2.3, 1.7, 7.9, 6.2], [-3, -2, 4, 3], [9.5, 7.5, 10, 8], [20, 20, 30, 30]])


def bilinear(x: float, y: float) -> np.ndarray:
    """The value at a point, pixel centres at one half."""
    height, width, _ = MAP.shape
    column, row = x - 0.5, y - 0.5
    if not (-1 <= column <= width and -1 <= row <= height):
        return np.zeros(3)
    column, row = np.clip(column, 0, width - 1), np.clip(row, 0, height - 1)
    left, top = int(column), int(row)
    right, low = min(left + 1, width - 1), min(top + 1, height - 1)
    across, down = column - left, row - top
    upper = MAP[top, left] * (1 - across) + MAP[top, right] * across
    return upper * (1 - down) + (MAP[low, left] * (1 - across) + MAP[low, right] * across) * down


def test_aligned_regions_are_those_of_a_plain_loop() -> None:
    size, samples = (3, 2), 2
    expected = np.zeros((len(BOXES), *size, 3))
    for r, (x0, y0, x1, y1) in enumerate(BOXES):
        for i, j, a, b in np.ndindex(*size, samples, samples):
            y = y0 + (i + (a + 0.5) / samples) * (y1 - y0) / size[0]
            x = x0 + (j + (b + 0.5) / samples) * (x1 - x0) / size[1]
            expected[r, i, j] += bilinear(x, y) / samples**2
    found = jax.jit(lambda m, b: roi_align(m, b, size, samples=samples))(
        jnp.asarray(MAP), jnp.asarray(BOXES, jnp.float32)
    )
    assert np.allclose(found, expected, atol=1e-4)


def test_a_ramp_is_read_at_the_centres_of_the_cells() -> None:
    ramp = jnp.asarray(np.stack(np.meshgrid(np.arange(16) + 0.5, np.arange(16) + 0.5), axis=-1), jnp.float32)
    found = roi_align(ramp, jnp.array([[3.2, 4.1, 11.6, 12.5]]), (4, 2))[0]
    across, down = 3.2 + (np.arange(2) + 0.5) * 8.4 / 2, 4.1 + (np.arange(4) + 0.5) * 8.4 / 4
    assert np.allclose(found[..., 0], np.broadcast_to(across, (4, 2)), atol=1e-4)
    assert np.allclose(found[..., 1], np.broadcast_to(down[:, None], (4, 2)), atol=1e-4)


def test_aligned_regions_have_the_slope_of_their_boxes() -> None:
    with jax.enable_x64(True):
        features, box = jnp.asarray(MAP, jnp.float64), jnp.asarray(BOXES[1:2], jnp.float64)

        @jax.jit
        def value(box: jax.Array) -> jax.Array:
            return (roi_align(features, box, (2, 2)) ** 2).sum()

        slope = jax.grad(value)(box)
        for entry in range(4):
            step = np.zeros((1, 4))
            step[0, entry] = 1e-6
            change = (value(box + step) - value(box - step)) / 2e-6
            assert np.isclose(slope[0, entry], change, rtol=1e-5)


def test_largest_entries_of_regions_are_those_of_a_plain_loop() -> None:
    size = (3, 2)
    expected = np.zeros((len(BOXES), *size, 3), np.float32)
    for r, box in enumerate(BOXES):
        x0, y0, x1, y1 = np.round(box)
        tall, wide = max(y1 - y0, 1) / size[0], max(x1 - x0, 1) / size[1]
        for i, j in np.ndindex(*size):
            rows = range(int(np.floor(i * tall) + y0), int(np.ceil((i + 1) * tall) + y0))
            columns = range(int(np.floor(j * wide) + x0), int(np.ceil((j + 1) * wide) + x0))
            inside = [MAP[y, x] for y in rows for x in columns if 0 <= y < 9 and 0 <= x < 11]
            expected[r, i, j] = np.max(inside, axis=0) if inside else 0
    found = jax.jit(lambda m, b: roi_max_pool(m, b, size))(jnp.asarray(MAP), jnp.asarray(BOXES, jnp.float32))
    assert np.allclose(found, expected)


def test_the_published_example_of_pooling_and_its_gradient_at_the_largest() -> None:
    ramp, box = jnp.arange(16.0).reshape(4, 4, 1), jnp.array([[0.0, 0, 4, 4]])
    assert roi_max_pool(ramp, box, (2, 2))[0, ..., 0].tolist() == [[5, 7], [13, 15]]
    slope = jax.grad(lambda m: roi_max_pool(m, box, (2, 2)).sum())(ramp)[..., 0]
    assert np.flatnonzero(np.asarray(slope)).tolist() == [5, 7, 13, 15]
    assert slope.sum() == 4


def test_what_is_not_finite_stays_so() -> None:
    broken = jnp.zeros((4, 4, 1)).at[1, 1].set(jnp.nan)
    assert np.isnan(roi_max_pool(broken, jnp.array([[0.0, 0, 4, 4]]), (1, 1))).all()


def test_a_warped_region_shows_the_same_share_of_what_is_around_it_whatever_its_shape() -> None:
    across, down = np.meshgrid(np.arange(32) + 0.5, np.arange(32) + 0.5)
    ramp = jnp.asarray(np.stack([across, down], axis=-1), jnp.float32)
    boxes = np.array([[8.0, 8, 24, 16], [10, 4, 14, 28]])
    found = np.asarray(warp_regions(ramp, jnp.asarray(boxes, jnp.float32), (8, 8), context=0.25))
    for (x0, y0, x1, y1), region in zip(boxes, found, strict=True):
        inner = region[2:6, 2:6]  # a quarter at each edge is context: what is left is the box itself
        assert np.allclose(inner[0, :, 0], x0 + (np.arange(4) + 0.5) * (x1 - x0) / 4, atol=1e-4)
        if y0 - (y1 - y0) / 2 >= 0 and y1 + (y1 - y0) / 2 <= 32:
            assert np.allclose(inner[:, 0, 1], y0 + (np.arange(4) + 0.5) * (y1 - y0) / 4, atol=1e-4)


def test_outside_of_the_image_a_warped_region_has_its_mean_colour() -> None:
    image = jnp.asarray(MAP)
    found = np.asarray(warp_regions(image, jnp.array([[40.0, 40, 50, 50]]), (2, 2)))
    assert np.allclose(found[0], MAP.mean(axis=(0, 1)), atol=1e-6)
    with pytest.raises(ArgumentError, match=r"context=0\.5"):
        warp_regions(image, jnp.zeros((1, 4)), (2, 2), context=0.5)
