"""Losses of masks against their definitions: distances by SciPy, Dice by counting, nothing from pixels left out."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import ndimage

from chainrule.data.generated.shapes import scene
from chainrule.nn.losses import cross_entropy
from chainrule.nn.segmentation import border_weights, dice_loss, objects, pixel_cross_entropy

RNG = np.random.default_rng(0)


def parts_of(mask: np.ndarray) -> list[np.ndarray]:
    found = []
    for number in np.unique(mask[mask > 0]):
        labels, count = ndimage.label(mask == number)
        found += [labels == one for one in range(1, count + 1)]
    return found


def test_borders_weigh_by_the_distances_to_the_two_nearest_objects() -> None:
    scattered = (RNG.random((40, 40)) < 0.03) * RNG.integers(1, 3, (40, 40))
    masks = np.stack([scene(RNG, 40, 5).mask, scattered]).astype(np.int32)
    found = np.asarray(jax.jit(border_weights)(masks))
    for mask, weights in zip(masks, found, strict=True):
        parts = parts_of(mask)
        assert len(np.unique(np.asarray(objects(jnp.asarray(mask))))) == len(parts) + 1
        d1, d2 = np.sort([ndimage.distance_transform_edt(~one) for one in parts], axis=0)[:2]
        expected = 1 + np.where((mask == 0) & (d2 <= 15), 10 * np.exp(-((d1 + d2) ** 2) / 50), 0)
        np.testing.assert_allclose(weights, expected, atol=1e-5)
        assert weights.max() > 2


def test_a_single_object_has_no_border_to_another() -> None:
    mask = np.zeros((1, 8, 8), np.int32)
    mask[:, 2:5, 2:5] = 1
    assert np.array_equal(border_weights(jnp.asarray(mask)), np.ones((1, 8, 8)))


def test_dice_of_sure_predictions_is_that_of_the_masks() -> None:
    true, said = RNG.integers(0, 2, (2, 3, 6, 6))  # two classes of three: the third is in neither
    found = dice_loss(200.0 * jax.nn.one_hot(said, 3), jnp.asarray(true), jnp.ones(true.shape, bool))
    for loss, t, s in zip(np.asarray(found), true, said, strict=True):
        shares = [2 * ((t == k) & (s == k)).sum() / ((t == k).sum() + (s == k).sum()) for k in (0, 1)]
        np.testing.assert_allclose(loss, 1 - np.mean(shares), atol=1e-6)


def test_pixels_that_do_not_count_have_neither_loss_nor_gradient() -> None:
    logits = jnp.asarray(RNG.normal(size=(2, 4, 4, 3)), jnp.float32)
    labels, counted = jnp.asarray(RNG.integers(0, 3, (2, 4, 4))), jnp.asarray(RNG.random((2, 4, 4)) < 0.5)

    def total(logits: jax.Array, labels: jax.Array) -> jax.Array:
        return (dice_loss(logits, labels, counted) + pixel_cross_entropy(logits, labels, counted)).sum()

    slope = np.asarray(jax.jit(jax.grad(total))(logits, labels))
    assert not slope[~np.asarray(counted)].any()
    assert slope[np.asarray(counted)].all()
    other = jnp.where(counted, labels, 255)
    assert float(total(logits, other)) == float(total(logits, labels))


def test_cross_entropy_is_the_mean_over_the_pixels_of_each_image() -> None:
    logits = jnp.asarray(RNG.normal(size=(2, 4, 4, 3)), jnp.float32)
    labels = jnp.asarray(RNG.integers(0, 3, (2, 4, 4)))
    found = pixel_cross_entropy(logits, labels, jnp.ones((2, 4, 4), bool))
    np.testing.assert_allclose(found, cross_entropy(logits, labels).mean(axis=(1, 2)), rtol=1e-6)
    nothing = pixel_cross_entropy(logits, labels, jnp.zeros((2, 4, 4), bool))
    assert np.array_equal(nothing, np.zeros(2))
