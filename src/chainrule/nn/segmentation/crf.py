"""Refinement of a segmentation by a conditional random field: neighbours of one colour want one class.

The energy of a labelling is `Σ_i U_i(x_i) + Σ_{i<j} [x_i ≠ x_j] k_ij` with
`k_ij = w1 exp(-|p_i - p_j|² / 2 sa² - |I_i - I_j|² / 2 sb²) + w2 exp(-|p_i - p_j|² / 2 sg²)` (Krähenbühl and Koltun,
2011). Mean field takes the labels as independent and repeats `q_i(l) ∝ exp(-U_i(l) - Σ_j k_ij (1 - q_j(l)))`, all at
once or one after the other; the latter never raises the free energy. Images of up to 64 x 64 pixels have every pair;
larger ones pairs within a window; superpixels are a graph of their own, solved in the same way.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int

DENSE = 64 * 64
"""Pixels up to which every pair is looked at."""
_SURE = 1e-6
"""Probabilities below this are taken for it: a class that a network rules out can come back."""

Image: TypeAlias = Float[Array, "height width channels"]
Unary: TypeAlias = Float[Array, "height width classes"]


class Potentials(NamedTuple):
    """What a pair of pixels of different classes costs."""

    appearance: float = 0.3
    """w1: the weight of pixels that are near and of one colour."""
    position: float = 4.0
    """sa: how far such pixels reach, in pixels."""
    colour: float = 0.1
    """sb: how much their colours, each from 0 to 1, differ."""
    smoothness: float = 0.1
    """w2: the weight of pixels that are near, whatever their colours."""
    reach: float = 1.0
    """sg: how far these reach, in pixels."""


Messages: TypeAlias = Callable[[Float[Array, "nodes classes"]], Float[Array, "nodes classes"]]
"""From the probabilities of all nodes to `Σ_j k_ij q_j` for each."""


def unary(probabilities: Float[Array, "*nodes classes"]) -> Float[Array, "*nodes classes"]:
    """Energies of the classes, each pixel by itself: surprisals.

    >>> [round(float(energy), 1) for energy in unary(jnp.array([0.5, 0.0]))]
    [0.7, 13.8]
    """
    wide = probabilities.astype(jnp.promote_types(probabilities.dtype, jnp.float32))
    return -jnp.log(jnp.maximum(wide, _SURE))


def crf(
    energies: Unary,
    image: Float[Array, "image_height image_width channels"],
    potentials: Potentials = Potentials(),  # noqa: B008  (a tuple of numbers, which nobody can change)
    *,
    iterations: int = 10,
    window: int | None = None,
) -> Unary:
    """Probabilities of the classes after mean field; `image` has its colours in [0, 1].

    Up to 64 x 64 pixels every pair counts, beyond that pairs of at most `window` rows and columns apart: three times
    the larger of both reaches, 10 at most, unless told.

    >>> energies = unary(jnp.array([[[0.9, 0.1], [0.4, 0.6], [0.9, 0.1]]]))
    >>> found = crf(energies, jnp.zeros((1, 3, 3)), Potentials(appearance=1.0))
    >>> found.argmax(axis=-1).tolist()
    [[0, 0, 0]]
    """
    iterations = whole("crf", "iterations", iterations)
    _check("crf", potentials)
    if energies.ndim != 3 or image.ndim != 3:
        raise ArgumentError(
            f"crf: energies of shape {energies.shape} and an image of {image.shape}",
            remedy="give (height, width, classes) and (height, width, channels); for several images jax.vmap",
        )
    height, width, classes = energies.shape
    if image.shape[:2] != (height, width):
        raise ArgumentError(
            f"crf: energies of {width}×{height} pixels and an image of {image.shape[1]}×{image.shape[0]}",
            remedy="give both the same size",
        )
    if window is None and height * width <= DENSE:
        kernel = dense_kernel(image, potentials)
        return mean_field(energies.reshape(-1, classes), kernel, iterations=iterations).reshape(
            energies.shape
        )
    radius = min(10, round(3 * max(potentials.position, potentials.reach))) if window is None else window
    radius = whole("crf", "window", max(1, radius) if window is None else radius)
    found = _iterated(
        energies.reshape(-1, classes), _windowed(image, potentials, radius, classes), iterations
    )
    return found.reshape(energies.shape)


def dense_kernel(image: Image, potentials: Potentials) -> Float[Array, "pixels pixels"]:
    """`k_ij` of every pair of pixels, 0 on the diagonal."""
    height, width, channels = image.shape
    grid = jnp.stack(jnp.meshgrid(jnp.arange(height), jnp.arange(width), indexing="ij"), axis=-1)
    return kernel(grid.reshape(-1, 2).astype(jnp.float32), image.reshape(-1, channels), potentials)


def kernel(
    positions: Float[Array, "nodes 2"], colours: Float[Array, "nodes channels"], potentials: Potentials
) -> Float[Array, "nodes nodes"]:
    """`k_ij` of every pair of nodes, 0 on the diagonal."""
    apart, unlike = _squares(positions), _squares(colours.astype(positions.dtype))
    found = _pair(apart, unlike, potentials)
    return jnp.where(jnp.eye(len(positions), dtype=bool), 0.0, found)


def mean_field(
    energies: Float[Array, "nodes classes"],
    kernel: Float[Array, "rows columns"],
    *,
    iterations: int = 10,
    sequential: bool = False,
) -> Float[Array, "nodes classes"]:
    """Mean-field probabilities of any graph whose pairs cost `kernel` where their classes differ.

    `sequential` moves one node after the other, each knowing the present state of the others.

    >>> mean_field(jnp.array([[0.0, 0.0]]), jnp.zeros((1, 1))).tolist()
    [[0.5, 0.5]]
    """
    iterations = whole("mean_field", "iterations", iterations)
    nodes = energies.shape[0]
    if kernel.shape != (nodes, nodes):
        raise ArgumentError(
            f"mean_field: a kernel of shape {kernel.shape} for {nodes} nodes",
            remedy="give a number for every pair, symmetric, 0 on the diagonal",
        )
    if not sequential:
        return _iterated(energies, lambda q: jnp.matmul(kernel, q), iterations)
    total = kernel.sum(axis=1)

    def one(number: Array, q: Array) -> Array:
        i = number % nodes
        new = jax.nn.softmax(-energies[i] - total[i] + jnp.matmul(kernel[i], q))
        return q.at[i].set(new)

    moved: Array = jax.lax.fori_loop(0, iterations * nodes, one, jax.nn.softmax(-energies, axis=-1))
    return moved


def free_energy(
    q: Float[Array, "nodes classes"],
    energies: Float[Array, "nodes classes"],
    kernel: Float[Array, "nodes nodes"],
) -> Float[Array, ""]:
    """The expected energy of independent labels minus their entropy: above `-log Z` by a divergence.

    >>> float(free_energy(jnp.array([[0.5, 0.5]]), jnp.zeros((1, 2)), jnp.zeros((1, 1))))  # -log(2)
    -0.6931...
    """
    unequal = 1 - jnp.matmul(q, q.T)
    entropy = -jnp.where(q > 0, q * jnp.log(jnp.where(q > 0, q, 1.0)), 0.0).sum()
    return (q * energies).sum() + 0.5 * (kernel * unequal).sum() - entropy


def superpixel_crf(
    energies: Float[np.ndarray, "height width classes"],
    image: Float[np.ndarray, "image_height image_width channels"],
    segments: Int[np.ndarray, "rows columns"],
    potentials: Potentials = Potentials(),  # noqa: B008  (a tuple of numbers, which nobody can change)
    *,
    iterations: int = 10,
) -> Float[np.ndarray, "height width classes"]:
    """The same on the graph of the pieces that touch: each has one class, its mean energy, colour and position.

    `segments` are those of `nn.detection.superpixels`. Distances are in units of the mean side of a piece, so that
    potentials mean for pieces what they mean for pixels.
    """
    from chainrule.nn.detection.superpixels import neighbours

    _check("superpixel_crf", potentials)
    if segments.shape != energies.shape[:2] or image.shape[:2] != segments.shape:
        raise ArgumentError(
            f"superpixel_crf: energies of shape {energies.shape}, an image of {image.shape}, "
            f"pieces of {segments.shape}",
            remedy="give all of them the same height and width",
        )
    flat = np.unique(segments, return_inverse=True)[1].reshape(-1)
    count = np.bincount(flat)
    y, x = np.mgrid[: segments.shape[0], : segments.shape[1]]
    positions = np.stack([y, x], axis=-1).reshape(-1, 2) / np.sqrt(flat.size / len(count))

    def means(values: np.ndarray) -> np.ndarray:
        sums = [np.bincount(flat, column, len(count)) for column in values.reshape(flat.size, -1).T]
        return np.stack(sums, axis=-1) / count[:, None]

    touching = np.zeros((len(count),) * 2, bool)
    pairs = np.array(sorted(neighbours(flat.reshape(segments.shape))), np.int64).reshape(-1, 2)
    touching[pairs[:, 0], pairs[:, 1]] = touching[pairs[:, 1], pairs[:, 0]] = True
    own, centres, colours = (jnp.asarray(means(one), jnp.float32) for one in (energies, positions, image))
    costs = jnp.where(jnp.asarray(touching), kernel(centres, colours, potentials), 0.0)
    found = mean_field(own, costs, iterations=iterations)
    return np.asarray(found)[flat].reshape(energies.shape)


def _iterated(energies: Float[Array, "nodes classes"], messages: Messages, iterations: int) -> Array:
    # Σ_j k_ij does not depend on the class: what is the same for all classes falls out of the softmax.
    def step(_: Array, q: Array) -> Array:
        return jax.nn.softmax(-energies + messages(q), axis=-1)

    found: Array = jax.lax.fori_loop(0, iterations, step, jax.nn.softmax(-energies, axis=-1))
    return found


def _windowed(image: Image, potentials: Potentials, radius: int, classes: int) -> Messages:
    """Sums over the pairs within a window, one offset after the other: no pair is ever stored."""
    height, width, _ = image.shape
    around = ((radius, radius), (radius, radius), (0, 0))
    inside = jnp.pad(jnp.ones((height, width, 1)), around)
    colours = jnp.pad(image.astype(jnp.float32), around)
    side = 2 * radius + 1

    def messages(q: Array) -> Array:
        padded = jnp.pad(q.reshape(height, width, classes), around)

        def of(values: Array, row: Array, column: Array) -> Array:
            return jax.lax.dynamic_slice(values, (row, column, 0), (height, width, values.shape[-1]))

        def add(number: Array, total: Array) -> Array:
            row, column = number // side, number % side
            apart = jnp.square(row - radius) + jnp.square(column - radius)
            unlike = jnp.square(of(colours, row, column) - image).sum(axis=-1, keepdims=True)
            cost = _pair(apart.astype(jnp.float32), unlike, potentials) * of(inside, row, column)
            return total + jnp.where(apart == 0, 0.0, cost) * of(padded, row, column)

        found: Array = jax.lax.fori_loop(0, side * side, add, jnp.zeros((height, width, classes), q.dtype))
        return found.reshape(-1, classes)

    return messages


def _pair(apart: Array, unlike: Array, potentials: Potentials) -> Array:
    """`k` from the squared distances of positions and of colours."""
    w1, position, colour, w2, reach = potentials
    near = jnp.exp(-apart / (2 * position**2) - unlike / (2 * colour**2))
    return w1 * near + w2 * jnp.exp(-apart / (2 * reach**2))


def _squares(x: Float[Array, "nodes features"]) -> Float[Array, "nodes nodes"]:
    return jnp.square(x[:, None] - x[None]).sum(axis=-1)


def _check(where: str, potentials: Potentials) -> None:
    for name, value in potentials._asdict().items():
        weight = name in ("appearance", "smoothness")
        if not np.isfinite(value) or value < 0 or (value == 0 and not weight):
            raise ArgumentError(
                f"{where}({name}={value}): {name} must be {'at least' if weight else 'above'} 0"
            )


__all__ = [
    "DENSE",
    "Potentials",
    "crf",
    "dense_kernel",
    "free_energy",
    "kernel",
    "mean_field",
    "superpixel_crf",
    "unary",
]
