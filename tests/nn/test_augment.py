"""Random changes of images against what they say, example by example; masks and boxes go the same way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn.augment import Moves, draw_moves, move_boxes, move_images, relight

KEY = jax.random.key(0)


def test_images_are_mirrored_then_moved_and_go_on_mirrored_at_their_edges() -> None:
    x = np.random.default_rng(0).normal(size=(6, 5, 7, 2)).astype(np.float32)
    moves = draw_moves(KEY, 6, flip=True, crop=3)
    found = np.asarray(jax.jit(move_images)(x, moves))
    for image, mirrored, shift, one in zip(x, *map(np.asarray, moves), found, strict=True):
        wide = np.pad(image[:, ::-1] if mirrored else image, ((3, 3), (3, 3), (0, 0)), mode="symmetric")
        down, right = shift
        np.testing.assert_array_equal(one, wide[3 - down : 8 - down, 3 - right : 10 - right])


def test_boxes_and_masks_stay_on_what_they_mark() -> None:
    boxes = jnp.array(
        [[[1.0, 2.0, 4.0, 5.0], [0.0, 0.0, 8.0, 1.0]], [[6.0, 3.0, 8.0, 6.0], [2.0, 2.0, 3.0, 3.0]]]
    )
    y, x = np.mgrid[:6, :8] + 0.5
    moves = Moves(jnp.array([True, False]), jnp.array([[1, -1], [-2, 1]]))
    moved = np.asarray(jax.jit(lambda boxes, moves: move_boxes(boxes, moves, (6, 8)))(boxes, moves))
    move = jax.jit(move_images)

    def marked(box: np.ndarray) -> np.ndarray:
        return (box[0] < x) & (x < box[2]) & (box[1] < y) & (y < box[3])

    inside = np.ones((2, 6, 8), bool)  # what comes in from beyond an edge is not looked at
    inside[0, :1], inside[0, :, -1:], inside[1, -2:], inside[1, :, :1] = False, False, False, False
    for number in (0, 1):
        masks = jnp.asarray(np.stack([marked(np.asarray(boxes[i, number])) for i in (0, 1)]))
        went = np.asarray(move(masks, moves))
        expected = np.stack([marked(moved[i, number]) for i in (0, 1)])
        np.testing.assert_array_equal(went & inside, expected & inside)


def test_draws_depend_on_the_key_alone_and_cover_their_range() -> None:
    moves = draw_moves(KEY, 500, flip=True, crop=2)
    assert sorted(set(np.asarray(moves.shift).ravel().tolist())) == [-2, -1, 0, 1, 2]
    assert 0.4 < float(moves.mirrored.mean()) < 0.6
    again = jax.jit(lambda key: draw_moves(key, 500, flip=True, crop=2))(KEY)
    np.testing.assert_array_equal(again.shift, moves.shift)
    assert not draw_moves(KEY, 8).mirrored.any()


def test_light_changes_by_no_more_than_its_share_and_in_any_units() -> None:
    x = np.random.default_rng(0).uniform(size=(40, 4, 4, 3)).astype(np.float32)
    light = jax.jit(lambda x, strength: relight(x, KEY, strength), static_argnums=1)
    lit = np.asarray(light(x, 0.2))
    move = (lit.mean(axis=(1, 2, 3)) - x.mean(axis=(1, 2, 3))) / x.std(axis=(1, 2, 3))
    assert 0.1 < np.abs(move).max() <= 0.2 + 1e-5
    np.testing.assert_allclose(light(255 * x - 3, 0.2), 255 * lit - 3, atol=1e-3)
    grey = x[..., :1]
    stretch = np.asarray(light(grey, 0.2)).std(axis=(1, 2, 3)) / grey.std(axis=(1, 2, 3))
    assert 0.8 <= stretch.min() < 0.9 < 1.1 < stretch.max() <= 1.2
    np.testing.assert_allclose(light(x, 0.0), x, atol=1e-6)
    with pytest.raises(ArgumentError, match=r"strength=1.5.: a share"):
        relight(jnp.asarray(x), KEY, 1.5)
