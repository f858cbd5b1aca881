"""Pictures of Gaussian processes of classes that keep their examples: kernel, columns that matter, how sure it is."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Picture, Table
from chainrule.data.dataset import Data
from chainrule.models.kernel import gram_pictures, wide_pictures
from chainrule.models.kernel.gp import pictures

if TYPE_CHECKING:
    from chainrule.models.kernel.gp.laplace import LaplaceGPClassifier


def all_of(model: "LaplaceGPClassifier", data: Data) -> Sequence[Picture]:
    """What these data can show."""
    found: list[Picture] = [hyperparameters(model)]
    scales = pictures.column_scales(model)
    if scales is not None:
        found.append(pictures.relevance(model, scales, model.known().std(axis=0)))
    if len(data.val):
        found.append(wide_pictures.certainty(model, data))
    gram = gram_pictures.exactly(model.kernel)
    return [*found, gram_pictures.similarities(gram, data), gram_pictures.spectrum(gram, data)]


def hyperparameters(model: "LaplaceGPClassifier") -> Table:
    """Spread and scale of the latent functions, and how many examples they are known by."""
    points = model.known()
    spread = float(np.sqrt(np.asarray(model.kernel.diagonal(jnp.asarray(points))).mean()))
    rows: list[list[str | float | int]] = [
        ["training examples", len(points)],
        ["latent functions", len(model.blocks)],
        ["latent function, standard deviation", float(f"{spread:.4g}")],
    ]
    stationary = pictures.stationary_part(model.kernel)
    if stationary is None:
        rows += [[name, float(f"{value:.4g}")] for name, value in pictures.numbers_of(model.kernel)]
    elif not stationary.scale.ndim:
        rows.append(["scale", float(f"{float(stationary.scale):.4g}")])
    caption = "In model units; " + (
        "learnt by the approximate evidence." if model.config.learn else "as they were given."
    )
    return Table("hyper-parameters", "Hyper-parameters", ["what", "value"], rows, caption=caption)


__all__ = ["all_of", "hyperparameters"]
