"""Pictures of Gaussian classes: what is known of each, their means, the directions that tell them apart."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Images, Picture, Scatter, Table
from chainrule.data import kinds
from chainrule.data.dataset import Data

if TYPE_CHECKING:
    from chainrule.models.supervised.gaussian_classifier.model import GaussianClassifier

_POINTS = 1000
_CLASSES = 40


def all_of(model: "GaussianClassifier", data: Data) -> Sequence[Picture]:
    """What these data can show."""
    found: list[Picture] = [_table(model, data)]
    schema = model.schema
    if kinds.of(schema).shows_pixels(schema):
        means = np.clip(np.asarray(model.means[:_CLASSES]).reshape(-1, *schema.shape), 0, 1)
        caption = "The mean of the training examples of every class."
        found.append(Images("means", "Means of the classes", means, schema.classes[:_CLASSES], 10, caption))
    if schema.dimensions > 2:
        found.append(discriminants(model, data))
    return found


def _table(model: "GaussianClassifier", data: Data) -> Table:
    prior = np.exp(jax.nn.log_softmax(model.log_prior))
    counts = np.bincount(np.asarray(data.train.y), minlength=len(prior))
    raised = np.broadcast_to(np.asarray(model.raised), len(prior))
    rows: list[list[str | float | int]] = [
        [name, int(count), float(f"{share:.4g}"), int(mended)]
        for name, count, share, mended in zip(model.schema.classes, counts, prior, raised, strict=True)
    ]
    columns = ["class", "training examples", "prior", "directions raised to the least variance"]
    return Table(
        "classes", "Classes", columns, rows, caption="Directions are raised where a class hardly varies."
    )


def discriminants(model: "GaussianClassifier", data: Data) -> Scatter:
    """Held-out examples along the two directions in which means differ most, by the variation within classes."""
    part = data.val if len(data.val) else data.train
    chosen = np.linspace(0, len(part) - 1, min(_POINTS, len(part))).astype(int)
    batch = part.batch(chosen)
    x, y = np.asarray(batch.x, np.float64).reshape(len(chosen), -1), np.asarray(batch.y)
    prior = np.exp(np.asarray(jax.nn.log_softmax(model.log_prior), np.float64))
    every = jnp.arange(len(prior))
    covariances = np.asarray(model.spread.of(model.means, every).covariance, np.float64)
    within = np.tensordot(prior, covariances, axes=1)
    means = np.asarray(model.means, np.float64)
    middle = prior @ means
    white = np.linalg.inv(np.linalg.cholesky(within))
    spread = np.sqrt(prior)[:, None] * (means - middle) @ white.T
    strengths, directions = np.linalg.svd(spread, full_matrices=True)[1:]
    axes = white.T @ directions[:2].T
    at = (x - middle) @ axes
    groups = {name: at[y == k] for k, name in enumerate(model.schema.classes) if (y == k).any()}
    share = (strengths[:2] ** 2).sum() / max((strengths**2).sum(), 1e-300)
    return Scatter(
        "discriminants",
        "Held-out examples along the two best discriminants",
        "first discriminant",
        "second discriminant",
        groups,
        caption="In units of the standard deviation within classes; the two directions hold "
        f"{100 * share:.0f} % of what the means differ by.",
    )


__all__ = ["all_of", "discriminants"]
