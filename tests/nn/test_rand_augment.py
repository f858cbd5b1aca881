"""RandAugment: every operation against Pillow or its own definition; nothing happens at magnitude zero."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from chainrule.core.errors import ArgumentError
from chainrule.nn.rand_augment import MOST, OPERATIONS, operated, rand_augment

PIXELS = np.random.default_rng(0).integers(0, 256, size=(12, 10, 3)).astype(np.uint8)
PIXELS[:, :, 1] //= 3  # a channel without contrast, and one that is mostly dark
PIXELS[:, :, 2] = PIXELS[:, :, 2] // 8 + 100
RUN = jax.jit(operated)


def of_ours(strength: float) -> dict[str, np.ndarray]:
    """The image after every operation, in one call."""
    x = jnp.asarray(np.repeat(PIXELS[None] / 255, len(OPERATIONS), axis=0), jnp.float32)
    out = RUN(x, jnp.arange(len(OPERATIONS)), jnp.full(len(OPERATIONS), strength, jnp.float32))
    return dict(zip(OPERATIONS, np.asarray(out) * 255, strict=True))


@pytest.mark.parametrize("strength", [0.5, -1.0])
def test_operations_on_colours_are_those_of_pillow(strength: float) -> None:
    ours, image, factor = of_ours(strength), Image.fromarray(PIXELS), 1 + 0.9 * strength
    oracles: dict[str, Callable[[], Image.Image]] = {
        "identity": lambda: image,
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(factor),
        "colour": lambda: ImageEnhance.Color(image).enhance(factor),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(factor),
        "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(factor),
        "posterize": lambda: ImageOps.posterize(image, 8 - round(4 * abs(strength))),
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
    }
    for name, oracle in oracles.items():
        # Pillow rounds to whole levels, once or twice on the way.
        np.testing.assert_allclose(ours[name], np.asarray(oracle(), float), atol=2.5, err_msg=name)
    levels = PIXELS.astype(float)
    threshold = 255 * (1 - abs(strength))
    np.testing.assert_allclose(
        ours["solarize"], np.where(levels > threshold, 255 - levels, levels), atol=1e-3
    )


def test_affine_operations_move_pixels_as_said_and_leave_black_behind() -> None:
    up, down = of_ours(1.0), of_ours(-1.0)
    rows, columns = round(150 / 331 * 12), round(150 / 331 * 10)
    np.testing.assert_allclose(up["translate-y"][:-rows], PIXELS[rows:], atol=1e-3)
    assert not up["translate-y"][-rows:].any()
    np.testing.assert_allclose(down["translate-x"][:, columns:], PIXELS[:, :-columns], atol=1e-3)
    # Mirrored images turned the other way are the mirror images.
    flipped = jnp.asarray(PIXELS[None, :, ::-1] / 255, jnp.float32)
    for name in ("rotate", "shear-x"):
        turned = RUN(flipped, jnp.array([OPERATIONS.index(name)]), jnp.array([-1.0]))
        np.testing.assert_allclose(np.asarray(turned)[0, :, ::-1] * 255, up[name], atol=1e-3, err_msg=name)
    dot = np.zeros((21, 21, 1), np.float32)
    dot[9:12, 16:19] = 1
    turned = RUN(jnp.asarray(dot[None]), jnp.array([OPERATIONS.index("rotate")]), jnp.array([1.0]))
    row, column = np.argwhere(np.asarray(turned)[0, :, :, 0]).mean(axis=0) - 10
    assert np.rad2deg(np.arctan2(abs(row), column)) == pytest.approx(30, abs=5)


def test_magnitude_zero_changes_nothing_and_draws_depend_on_the_key_alone() -> None:
    x = jnp.asarray(np.random.default_rng(1).uniform(size=(6, 8, 8, 1)), jnp.float32)
    assert rand_augment(x, jax.random.key(0), 2, 0) is x
    for name, image in of_ours(0.0).items():
        if name not in ("autocontrast", "equalize"):  # which know no strength
            np.testing.assert_allclose(image, PIXELS, atol=1e-3, err_msg=name)
    draw = jax.jit(lambda x, key: rand_augment(x, key, 2, 9.0))
    one, other, same = (np.asarray(draw(x, jax.random.key(seed))) for seed in (0, 1, 0))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert one.min() >= 0
    assert one.max() <= 1
    with pytest.raises(ArgumentError, match=f"magnitudes go from 0 to {MOST}"):
        rand_augment(x, jax.random.key(0), 2, 31)
