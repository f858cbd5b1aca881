"""Images as sequences of patches: order, the way back, and sides that do not fit."""

import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.networks.patches import check_patch, cut, join, patch_count, patch_sides

X = jnp.arange(2 * 4 * 6 * 3.0).reshape(2, 4, 6, 3)


def test_patches_are_squares_row_by_row() -> None:
    patches = cut(X, 2)
    assert patches.shape == (2, patch_count(X.shape[1:], 2), 12)
    np.testing.assert_array_equal(patches[1, 4], X[1, 2:4, 2:4].ravel())


def test_joining_undoes_cutting_under_any_leading_axes() -> None:
    np.testing.assert_array_equal(join(cut(X, 2), (4, 6, 3), 2), X)
    np.testing.assert_array_equal(join(cut(X[:, None], 1), (4, 6, 3), 1), X[:, None])
    np.testing.assert_array_equal(cut(X[0], 2), cut(X, 2)[0])


def test_sides_that_fit_are_named() -> None:
    assert patch_sides((4, 6, 3)) == [1, 2]
    with pytest.raises(ArgumentError, match=r"do not cover images of 4×6\n.*sides that do: 1, 2; or load"):
        check_patch((4, 6, 3), 4)
    with pytest.raises(ArgumentError, match=r"not shape \(4,\)"):
        check_patch((4,), 2)
