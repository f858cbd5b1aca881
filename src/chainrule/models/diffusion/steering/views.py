"""Orthogonal views of images, which leave white noise white.

A view has to be linear and orthogonal: then noise seen through it is still standard normal, and the predicted noise can
be brought back by its inverse. Turns by 90°, mirrors, permutations and the negative are; anything that interpolates,
scales or shifts is not, and is refused with the reason.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp
import numpy as np
import scipy.ndimage

from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.types import Array, Float

_X = Float[Array, "batch ..."]
NAMES = (
    *("identity", "rotate(90)", "rotate(180)", "rotate(270)", "mirror", "flip", "transpose"),
    *("negative", "permute", "patches", "jigsaw"),
)
TOLERANCE = 1e-5


@final
@dataclass(frozen=True, eq=False)
class View:
    """A view of a batch and the way back."""

    name: str
    apply: Callable[[Array], Array]
    undo: Callable[[Array], Array]


def view(name: str, shape: tuple[int, ...], seed: int = 0) -> View:
    """The view of this name for pictures of a shape, checked; `seed` chooses among permutations.

    `permute` moves pixels, `patches` 2 x 2 patches, `jigsaw` quarters of the picture, each also turned.

    >>> view("rotate(30)", (8, 8, 1))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: view 'rotate(30)' is not orthogonal (norm changes by 46 %), ...
           use a multiple of 90° or a permutation
    """
    if len(shape) != 3:
        raise ArgumentError(f"view={name}: views are of pictures, not of shape {shape}")
    angle = re.fullmatch(r"rotate\((-?\d+)\)", name)
    if angle is None and name not in NAMES:
        raise ArgumentError(
            f"unknown view {name!r}{suggest(name, NAMES)}", remedy=f"views: {', '.join(NAMES)}"
        )
    if angle is not None:
        return check(_turned(name, int(angle[1])), shape)
    return check(_MAKE[name](name, shape, np.random.default_rng(seed)), shape)


def from_matrix(name: str, matrix: Float[np.ndarray, "entries entries"], shape: tuple[int, ...]) -> View:
    """A view of the user's own: an orthogonal matrix on the entries of a picture."""
    values = np.asarray(matrix)
    there, back = jnp.asarray(values.T), jnp.asarray(values)

    def by(matrix: Array) -> Callable[[Array], Array]:
        return lambda x: (x.reshape(len(x), -1) @ matrix.astype(x.dtype)).reshape(x.shape)

    return check(View(name, by(there), by(back)), shape)


def check(view: View, shape: tuple[int, ...]) -> View:
    """The view itself, if it keeps zero, sums and inner products and is undone by its inverse."""
    one, two = jnp.asarray(np.random.default_rng(0).normal(size=(2, 4, *shape)), jnp.float32)
    zero = view.apply(jnp.zeros_like(one))
    if zero.shape != one.shape:
        raise ArgumentError(
            f"view {view.name!r} changes the shape {shape} to {zero.shape[1:]}",
            remedy="quarter turns and transposes need square pictures",
        )
    if float(jnp.abs(zero).max()) > TOLERANCE:
        raise ArgumentError(
            f"view {view.name!r} moves zero to {float(zero.ravel()[0]):.3g}, so noise would not stay centred",
            remedy="the inversion of colours is x -> -x in the range [-1, 1]: use negative",
        )
    first, second = view.apply(one), view.apply(two)
    if not bool(jnp.allclose(view.apply(one + two), first + second, atol=1e-4)):
        raise ArgumentError(
            f"view {view.name!r} is not linear", remedy="use a turn, a mirror or a permutation"
        )
    axes = tuple(range(1, one.ndim))
    sizes = jnp.square(one).sum(axis=axes)
    change = float(jnp.abs(jnp.sqrt(jnp.square(first).sum(axis=axes) / sizes) - 1).max())
    apart = float((jnp.abs((first * second).sum(axis=axes) - (one * two).sum(axis=axes)) / sizes).max())
    if max(change, apart) > TOLERANCE:
        raise ArgumentError(
            f"view {view.name!r} is not orthogonal (norm changes by {100 * change:.2g} %), so noise would stop "
            "being white",
            remedy="use a multiple of 90° or a permutation",
        )
    if not bool(jnp.allclose(view.undo(first), one, atol=1e-4)):
        raise ArgumentError(f"view {view.name!r} is not undone by its inverse")
    return view


def _turned(name: str, degrees: int) -> View:
    if degrees % 90:

        def turn(x: Array) -> Array:
            host = np.asarray(x)
            return jnp.asarray(scipy.ndimage.rotate(host, degrees, axes=(1, 2), reshape=False, order=1))

        return View(name, turn, turn)
    quarters = degrees // 90 % 4
    return View(
        name,
        lambda x: jnp.rot90(x, quarters, axes=(1, 2)),
        lambda x: jnp.rot90(x, -quarters, axes=(1, 2)),
    )


def _same(name: str, of: Callable[[Array], Array]) -> View:
    """A view that is its own inverse."""
    return View(name, of, of)


def _permuted(name: str, order: np.ndarray) -> View:
    """A permutation of the positions of an image; `order` holds their numbers."""
    back = np.argsort(order)

    def by(order: np.ndarray) -> Callable[[Array], Array]:
        return lambda x: x.reshape(len(x), -1, x.shape[-1])[:, order].reshape(x.shape)

    return View(name, by(order), by(back))


def _blocks(name: str, shape: tuple[int, ...], size: tuple[int, int], random: Any, turn: bool) -> View:
    """Blocks of a size are permuted; with `turn` they are turned by quarters too."""
    height, width, _ = shape
    rows, columns = size
    if height % rows or width % columns or (turn and rows != columns):
        raise ArgumentError(
            f"view {name!r}: {height} x {width} pixels cannot be cut into blocks of {rows} x {columns}"
            + (" that can be turned" if turn else "")
        )
    positions = np.arange(height * width).reshape(height // rows, rows, width // columns, columns)
    blocks = positions.swapaxes(1, 2).reshape(-1, rows, columns)[
        random.permutation(height * width // (rows * columns))
    ]
    if turn:
        blocks = np.stack([np.rot90(block, random.integers(4)) for block in blocks])
    grid = blocks.reshape(height // rows, width // columns, rows, columns).swapaxes(1, 2)
    return _permuted(name, grid.reshape(-1))


_MAKE: dict[str, Callable[[str, tuple[int, ...], Any], View]] = {
    "identity": lambda name, shape, random: _same(name, lambda x: x),
    "mirror": lambda name, shape, random: _same(name, lambda x: x[:, :, ::-1]),
    "flip": lambda name, shape, random: _same(name, lambda x: x[:, ::-1]),
    "transpose": lambda name, shape, random: _same(name, lambda x: x.swapaxes(1, 2)),
    "negative": lambda name, shape, random: _same(name, lambda x: -x),
    "permute": lambda name, shape, random: _permuted(name, random.permutation(shape[0] * shape[1])),
    "patches": lambda name, shape, random: _blocks(name, shape, (2, 2), random, turn=False),
    "jigsaw": lambda name, shape, random: _blocks(
        name, shape, (shape[0] // 2, shape[1] // 2), random, turn=True
    ),
}

__all__ = ["NAMES", "View", "check", "from_matrix", "view"]
