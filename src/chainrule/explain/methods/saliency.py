"""Saliency maps: three measures of how much each pixel of an image matters for one class.

`occlusion` covers a patch and sees what is lost (Zeiler and Fergus, 2014, arXiv:1311.2901), `grad_cam` weighs the
feature maps of a layer by the mean of the class's gradient on them (Selvaraju et al., 2017, arXiv:1610.02391),
`gradient` is the slope by each pixel (Simonyan et al., 2014, arXiv:1312.6034). A map that hardly changes when the
weights are shuffled shows the image and not what was learned (Adebayo et al., 2018, arXiv:1810.03292); `shuffled` and
`rank_correlation` are that check.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from jaxtyping import Bool

from chainrule.core.checks import check_class_numbers
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key
from chainrule.explain.methods.features import feature_maps, layer_number, sensitivity
from chainrule.models.protocol import HasLogits, Model, parts_of
from chainrule.train.state import trainable

M = TypeVar("M", bound=Model)
Scores: TypeAlias = Callable[[Array], Array]
"""From images to one number for each class."""
ALIKE = 0.5
"""Rank correlation above which a picture is said to have stayed as it was."""


def gradient(
    scores: Scores, x: Float[Array, "batch height width channels"], classes: Int[Array, " batch"]
) -> Float[Array, "batch height width"]:
    """How steeply the score of a class changes with each pixel: the largest size over its colours."""
    slope = jax.grad(lambda x: _of(scores(x), classes).sum())(x)
    return jnp.abs(slope).max(axis=-1)


def grad_cam(
    model: HasLogits | Scores,
    x: Float[Array, "batch height width channels"],
    layer: int,
    classes: Int[Array, " batch"],
) -> Float[Array, "batch height width"]:
    """Where the feature maps that speak for a class are active, at the size of the image.

    The model is one of ours, its images in model units, or a function from images to scores. `layer` counts the
    rectified maps of `features.feature_maps` from 0, or from the last if negative. The weight of a map is the mean over
    its positions of the derivative of the class's score; the weighted sum is cut off at zero, then resized.
    """
    scores = model.logits if isinstance(model, HasLogits) else model
    count = jax.eval_shape(scores, x).shape[-1]
    check_class_numbers("grad_cam", "classes", classes, count)
    number = layer_number("layer", layer, len(jax.eval_shape(lambda x: feature_maps(scores, x), x)))
    maps, slopes = sensitivity(scores, number, x, jax.nn.one_hot(classes, count, dtype=x.dtype))
    weights = slopes.mean(axis=(1, 2), keepdims=True)
    coarse = jax.nn.relu((weights * maps).sum(axis=-1))
    return jax.image.resize(coarse, x.shape[:3], "bilinear")


def patches(height: int, width: int, patch: int, stride: int) -> Bool[np.ndarray, "patches height width"]:
    """Every position of a square patch, `stride` apart, with the last ones at the far edges so that all is covered.

    >>> patches(2, 5, 2, 2)[:, 0].astype(int).tolist()
    [[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
    """
    if not 1 <= patch <= min(height, width):
        raise ArgumentError(
            f"patch={patch}: images have {height} x {width} pixels",
            remedy=f"choose a side from 1 to {min(height, width)}",
        )
    if not 1 <= stride <= patch:
        raise ArgumentError(
            f"stride={stride}: patches of {patch} pixels would leave gaps", remedy=f"choose 1 to {patch}"
        )
    rows, columns = (sorted({*range(0, n - patch, stride), n - patch}) for n in (height, width))
    found = np.zeros((len(rows) * len(columns), height, width), np.bool_)
    for i, (row, column) in enumerate((r, c) for r in rows for c in columns):
        found[i, row : row + patch, column : column + patch] = True
    return found


def occlusion(
    scores: Scores,
    x: Float[Array, "batch height width channels"],
    classes: Int[Array, " batch"],
    fill: Float[Array, " channels"],
    covers: Bool[Array, "patches height width"],
) -> tuple[Float[Array, "batch height width"], Float[Array, "patches batch"]]:
    """What a class loses when a pixel is covered with `fill`: the mean over all covers that lie on it.

    Also gives what each cover takes away by itself. All covered images are scored in one batch.
    """
    hidden = jnp.where(covers[:, None, :, :, None], fill[None, None, None, None, :], x[None])
    flat = hidden.reshape(math.prod(hidden.shape[:2]), *x.shape[1:])
    left = _of(scores(flat), jnp.tile(classes, len(covers))).reshape(len(covers), len(x))
    lost = _of(scores(x), classes)[None] - left
    weights = covers.astype(x.dtype) / covers.sum(axis=0)[None]
    return jnp.einsum("pb,phw->bhw", lost, weights), lost


def shuffled(model: M, key: Key) -> M:
    """The model with the entries of every weight array in random order: as large as before, but nothing learned.

    Running statistics stay as they are.
    """
    weights, rest = eqx.partition(model, trainable(model, parts_of(model)))
    leaves, structure = jax.tree.flatten(weights)
    keys = jax.random.split(key, len(leaves))
    mixed = [
        jax.random.permutation(k, leaf.ravel()).reshape(leaf.shape)
        for leaf, k in zip(leaves, keys, strict=True)
    ]
    found: M = eqx.combine(jax.tree.unflatten(structure, mixed), rest)
    return found


def rank_correlation(one: Any, other: Any) -> float:
    """Spearman's correlation of two maps; a map that is the same everywhere is like another such map and like no other.

    >>> round(rank_correlation([[1, 2], [3, 4]], [[1, 4], [9, 16]]), 6), rank_correlation([1, 1], [1, 2])
    (1.0, 0.0)
    """
    first, second = np.ravel(one), np.ravel(other)
    flat = [np.ptp(values) == 0 for values in (first, second)]
    if any(flat):
        return float(all(flat))
    return float(scipy.stats.spearmanr(first, second).statistic)


def verdict(
    what: str, alike: Mapping[str, np.ndarray], blank: Mapping[str, int] | None = None, count: int = 0
) -> str:
    """The check with shuffled weights in one sentence, from the rank correlations of every kind of picture.

    `blank` says how many of `count` showed nothing: such a picture is unlike any other, which says less than a
    different one.

    >>> verdict("map", {"edges": np.array([0.9])}).partition("; ")[2]
    'edges hardly changed and cannot be read as what was learned.'
    """
    means = {name: float(values.mean()) for name, values in alike.items()}
    note = {name: f" ({number} of {count} blank)" if number else "" for name, number in (blank or {}).items()}
    listed = ", ".join(f"{name} {mean:.2f}{note.get(name, '')}" for name, mean in means.items())
    same = [name for name, mean in means.items() if mean > ALIKE]
    end = (
        f"{' and '.join(same)} hardly changed and cannot be read as what was learned."
        if same
        else f"every {what} changes with the weights."
    )
    return f"Rank correlation with the {what} of the network with shuffled weights: {listed}; {end}"


def _of(scores: Float[Array, "batch classes"], classes: Int[Array, " batch"]) -> Float[Array, " batch"]:
    check_class_numbers("saliency", "classes", classes, scores.shape[-1])
    return jnp.take_along_axis(scores, classes[:, None], axis=-1)[:, 0]


__all__ = [
    "ALIKE",
    "Scores",
    "grad_cam",
    "gradient",
    "occlusion",
    "patches",
    "rank_correlation",
    "shuffled",
    "verdict",
]
