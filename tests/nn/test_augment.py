"""Random changes of images against what they say, example by example; masks and boxes go the same way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn.augment import (
    Crops,
    Mix,
    Moves,
    crop_boxes,
    crop_images,
    draw_crops,
    draw_mix,
    draw_moves,
    mix_images,
    move_boxes,
    move_images,
    relight,
)

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


def test_mirroring_twice_gives_the_image_back() -> None:
    x = np.random.default_rng(0).normal(size=(5, 4, 6, 2)).astype(np.float32)
    moves = draw_moves(KEY, 5, flip=True)
    move = jax.jit(move_images)
    np.testing.assert_array_equal(move(move(x, moves), moves), x)


@pytest.mark.parametrize("size", [(8, 8), (6, 20), (30, 5)])
def test_crops_have_a_random_share_of_the_area_and_lie_within_the_image(size: tuple[int, int]) -> None:
    crops = jax.jit(lambda key: draw_crops(key, 2000, size, least=0.2))(KEY)
    corner, sides = np.asarray(crops.corner), np.asarray(crops.size)
    assert corner.min() >= 0
    assert (corner + sides <= np.array(size) * (1 + 1e-5)).all()
    share = sides.prod(axis=1) / np.prod(size)
    np.testing.assert_allclose(np.quantile(share, [0, 0.5, 1]), [0.2, 0.6, 1.0], atol=0.03)
    shape = sides[:, 1] / sides[:, 0]
    fits = np.maximum(share * size[1] / size[0], 1e-9) <= 4 / 3  # a long image has no room for anything else
    assert shape[fits & (size[1] / (size[0] * share) >= 3 / 4)].min() >= 3 / 4 - 1e-4
    assert shape[fits].max() <= 4 / 3 + 1e-4 or size[1] > 4 / 3 * size[0]


def test_a_crop_of_everything_is_the_image_and_parts_are_interpolated() -> None:
    x = np.random.default_rng(0).normal(size=(2, 5, 7, 3)).astype(np.float32)
    cut = jax.jit(crop_images)
    whole = Crops(jnp.zeros((2, 2)), jnp.array([[5.0, 7.0]] * 2))
    np.testing.assert_allclose(cut(x, whole), x, atol=1e-5)
    ramp = np.broadcast_to(np.arange(8.0, dtype=np.float32)[:, None, None], (1, 8, 8, 1))
    part = cut(ramp, Crops(jnp.array([[2.0, 0.0]]), jnp.array([[4.0, 8.0]])))
    np.testing.assert_allclose(part[0, :, 0, 0], 2 + (np.arange(8) + 0.5) / 2 - 0.5, atol=1e-6)
    with pytest.raises(ArgumentError, match="smallest share of the area"):
        draw_crops(KEY, 1, (4, 4), least=0.0)


@pytest.mark.parametrize("settings", [{"mixup": 0.4}, {"cutmix": 1.0}, {"mixup": 0.4, "cutmix": 1.0}])
def test_the_share_of_a_mix_is_that_of_its_pixels(settings: dict[str, float]) -> None:
    draw = jax.jit(jax.vmap(lambda key: draw_mix(key, 4, (16, 12), **settings)))
    mix = draw(jax.random.split(KEY, 200))
    weights = np.asarray(mix.weights)[:, 0, :, :, 0]
    np.testing.assert_allclose(weights.mean(axis=(1, 2)), mix.share, atol=1e-6)
    cut = np.isin(weights, (0, 1)).all(axis=(1, 2))
    alike = (weights == weights[:, :1, :1]).all(axis=(1, 2))
    assert (cut | alike).all()
    expected = {("mixup",): (0, 0), ("cutmix",): (1, 1), ("mixup", "cutmix"): (0.35, 0.65)}[tuple(settings)]
    assert expected[0] <= cut.mean() <= expected[1]
    for one in weights[cut]:  # a box: rows times columns
        box = one == 0
        assert box.sum() == box.any(axis=1).sum() * box.any(axis=0).sum()
    assert 0 <= np.asarray(mix.share).min() < 0.3
    assert 0.7 < np.asarray(mix.share).max() <= 1


def test_mixed_images_hold_both_where_the_weights_say() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 4, 1)).astype(np.float32)
    weights = np.ones((1, 4, 4, 1), np.float32)
    weights[0, :2] = 0.25
    mix = Mix(jnp.asarray(weights), jnp.asarray(weights.mean()), jnp.array([1, 2, 0]))
    np.testing.assert_allclose(mix_images(jnp.asarray(x), mix), weights * x + (1 - weights) * x[[1, 2, 0]])
    with pytest.raises(ArgumentError, match="at least one is above 0"):
        draw_mix(KEY, 3, (4, 4))


def test_boxes_of_a_crop_mark_what_they_marked() -> None:
    crops = draw_crops(KEY, 4, (40, 60), least=0.4)
    boxes = jnp.asarray(np.tile([[[20.0, 10.0, 45.0, 32.0]]], (4, 1, 1)), jnp.float32)
    y, x = np.mgrid[:40, :60] + 0.5
    marked = ((x > 20) & (x < 45) & (y > 10) & (y < 32)).astype(np.float32)
    images = np.tile(marked[None, :, :, None], (4, 1, 1, 1))

    @jax.jit
    def both(images: jax.Array, boxes: jax.Array) -> tuple[jax.Array, jax.Array]:
        return crop_images(images, crops), crop_boxes(boxes, crops, (40, 60))

    for image, (box,) in zip(*map(np.asarray, both(images, boxes)), strict=True):
        inside = (x > box[0]) & (x < box[2]) & (y > box[1]) & (y < box[3])
        assert (inside == (image[:, :, 0] > 0.5)).mean() > 0.97
