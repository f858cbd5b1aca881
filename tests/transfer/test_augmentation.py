"""Augmentation of source images: what keeps labels, pure functions of a key, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.data import load
from chainrule.nn.rand_augment import DEGREES, OPERATIONS, ImageOperations, operate_images
from chainrule.transfer import augmentation as augment

X = jnp.asarray(load("digits").train.x[:6], jnp.float32)
Y = np.arange(6)
SAFE = [augment.shift(1), augment.rotate(15), augment.colour(0.2), augment.noise(0.1), augment.crop(0.9)]


def test_every_change_is_a_function_of_the_key_alone() -> None:
    change = jax.jit(augment.compose(*SAFE).apply)
    first, again, other = (np.asarray(change(jax.random.key(k), X)) for k in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert first.shape == X.shape
    assert not np.allclose(first, other)
    assert augment.compose()(jax.random.key(0), X) is X


@pytest.mark.parametrize("content", ["digits", "text"])
@pytest.mark.parametrize(
    "unsafe", [augment.flip(), augment.rotate(90), augment.crop(0.2)], ids=lambda one: one.name
)
def test_flips_and_large_turns_are_refused_where_they_change_the_label(
    content: str, unsafe: augment.Augmentation
) -> None:
    assert content not in unsafe.label_safe_for
    with pytest.raises(ArgumentError, match=f"does not keep the labels of {content}"):
        augment.enlarged(X, Y, [*SAFE, unsafe], content=content)
    assert content not in augment.compose(*SAFE, unsafe).label_safe_for
    assert content in augment.compose(*SAFE).label_safe_for


def test_copies_follow_the_images_with_their_labels() -> None:
    x, y = augment.enlarged(X, Y, [augment.shift(1)], content="digits", copies=2)
    assert x.shape == (18, 8, 8, 1)
    np.testing.assert_array_equal(x[:6], X)
    np.testing.assert_array_equal(y, np.tile(Y, 3))
    assert not np.allclose(x[6:12], x[12:])
    turned, _ = augment.enlarged(X, Y, [augment.rotate(180)], content="digits", unsafe=True)
    assert turned.shape == (12, 8, 8, 1)


def test_turns_are_in_degrees() -> None:
    turned = operate_images(
        X, ImageOperations(jnp.full((1, 6), OPERATIONS.index("rotate")), jnp.full((1, 6), 180 / DEGREES))
    )
    np.testing.assert_allclose(turned, X[:, ::-1, ::-1], atol=1e-6)
    np.testing.assert_array_equal(augment.rotate(0)(jax.random.key(0), X), X)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ArgumentError, match="between 0 and 180"):
        augment.rotate(200)
    with pytest.raises(ArgumentError, match="above 0 and up to 1"):
        augment.crop(0)
    with pytest.raises(ArgumentError, match="from 0 to below 1"):
        augment.colour(-1)
    with pytest.raises(ArgumentError, match="at least 0"):
        augment.noise(-1)
    with pytest.raises(ArgumentError, match="content must be"):
        augment.enlarged(X, Y, [], content="numbers")
    with pytest.raises(ArgumentError, match=r"shape \(6, 64\)"):
        augment.enlarged(X.reshape(6, -1), Y, [augment.flip()], content="objects")
    with pytest.raises(ArgumentError, match="6 images and 2 labels"):
        augment.enlarged(X, Y[:2], [], content="digits")
