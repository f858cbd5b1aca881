"""Pictures of a mixture: its density in the plane, its means as images, its components in a table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Bars, Images, Lines, Picture, Scatter
from chainrule.data import kinds
from chainrule.data.dataset import Data

if TYPE_CHECKING:
    from chainrule.models.latent.mixture.model import GaussianMixtureModel

_POINTS = 1000
_GRID = 80
_MEANS = 40


def all_of(model: "GaussianMixtureModel", data: Data) -> Sequence[Picture]:
    """What these data can show."""
    weights = np.asarray(jax.nn.softmax(model.logits))
    order = np.argsort(-weights)
    found: list[Picture] = []
    kind = kinds.of(model.schema)
    part = data.val if len(data.val) else data.train
    x = np.asarray(part.batch(np.arange(min(_POINTS, len(part)))).x)
    shares = np.asarray(model.encode(jnp.asarray(x)))
    if kind.is_plane(model.schema):
        found.append(_plane(model, x, shares))
    if kind.shows_pixels(model.schema):
        means = np.asarray(model.means)[order[:_MEANS]].reshape(-1, *model.schema.shape)
        labels = [f"{100 * weights[i]:.0f} %" for i in order[:_MEANS]]
        caption = "The middle of every component, under it its weight."
        found.append(Images("means", "Means of the components", np.clip(means, 0, 1), labels, 10, caption))
    names = [f"{i}" for i in order]
    used = shares.mean(axis=0)[order]
    found.append(
        Bars(
            "weights",
            "Weights of the components",
            "component",
            "share",
            names,
            {"weight": weights[order], "of held-out examples": used},
            "Shares of held-out examples are mean responsibilities: like the weights where the mixture fits.",
        )
    )
    certain = np.sort(shares.max(axis=1))
    found.append(
        Lines(
            "certainty",
            "How clearly examples belong to one component",
            "share of held-out examples",
            "largest responsibility",
            {"held out": (np.linspace(0, 1, len(certain)), certain)},
        )
    )
    return found


def _plane(model: "GaussianMixtureModel", x: np.ndarray, shares: np.ndarray) -> Picture:
    low, high = x.min(axis=0), x.max(axis=0)
    margin = 0.1 * (high - low)
    low, high = low - margin, high + margin
    axes = [np.linspace(low[i], high[i], _GRID) for i in range(2)]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    density = np.exp(np.asarray(model.log_prob(jnp.asarray(grid, jnp.float32)))).reshape(_GRID, _GRID)
    nearest = shares.argmax(axis=1)
    groups = {f"component {i}": x[nearest == i] for i in range(shares.shape[1]) if (nearest == i).any()}
    return Scatter(
        "density",
        "Density and components",
        "first coordinate",
        "second coordinate",
        {**groups, "means": np.asarray(model.means)},
        field=density,
        extent=(float(low[0]), float(high[0]), float(low[1]), float(high[1])),
        caption="Held-out points by their likeliest component, over the density of the mixture.",
    )


__all__ = ["all_of"]
