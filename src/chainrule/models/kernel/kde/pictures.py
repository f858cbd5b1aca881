"""Pictures of a density estimate: its density in the plane, likelihoods by width, samples and what they come from."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Images, Lines, Picture, Scatter
from chainrule.core.types import Key
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.kernels.density import width_profile
from chainrule.models.kernel.kde.settings import searched, unit_of
from chainrule.probability.k_means import squares

if TYPE_CHECKING:
    from chainrule.models.kernel.kde.model import KDE

_POINTS = 1000
_GRID = 80
_SAMPLES = 10


def all_of(model: "KDE", data: Data, key: Key) -> Sequence[Picture]:
    """What these data can show."""
    found: list[Picture] = []
    kind = kinds.of(model.schema)
    if kind.is_plane(model.schema):
        found.append(_plane(model, data))
    if kind.shows_pixels(model.schema):
        found.append(_origins(model, key))
    found.append(_widths(model, data))
    return found


def _widths(model: "KDE", data: Data) -> Lines:
    train, held = searched(data)
    chosen = 1.0 if model.config.width == "auto" else model.config.width
    unit = unit_of(model.config.shape, data.schema, train)
    grid = chosen * np.exp(np.linspace(-2, 2, 33))
    values = width_profile(train, unit, grid, model.config.bump, held)
    kept = np.isfinite(values) & (values > values.max() - 20 * max(1.0, abs(values.max())))
    return Lines(
        "widths",
        "Likelihood of held-out examples by width",
        "width, in model units" if model.config.shape == "sphere" else "width, in units of the spread",
        "mean log-density, nats",
        {"validation" if held is not None else "each from the others": (grid[kept], values[kept])},
        log_x=True,
        marks=[(chosen, f"width {chosen:.3g}")],
        caption="Narrow bumps are surprised by what they have not seen, wide ones blur.",
    )


def _origins(model: "KDE", key: Key) -> Images:
    """Samples, and the kept examples nearest to them: what a density estimate draws is a blurred example."""
    drawn = np.asarray(model.sample(key, _SAMPLES), np.float64)
    points = np.asarray(model.points, np.float64)
    nearest = squares(drawn.reshape(_SAMPLES, -1), points).argmin(axis=1)
    origins = points[nearest].reshape(drawn.shape)
    return Images(
        "origins",
        "Samples and the training examples nearest to them",
        np.clip(np.concatenate([drawn, origins]), 0, 1),
        (),
        _SAMPLES,
        "Rows: samples; below each the kept training example that is nearest.",
        aligned=True,
    )


def _plane(model: "KDE", data: Data) -> Scatter:
    part = data.val if len(data.val) else data.train
    x = np.asarray(part.batch(np.arange(min(_POINTS, len(part)))).x)
    low, high = x.min(axis=0), x.max(axis=0)
    margin = 0.15 * (high - low)
    low, high = low - margin, high + margin
    axes = [np.linspace(low[i], high[i], _GRID) for i in range(2)]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    density = np.exp(np.asarray(model.log_prob(jnp.asarray(grid, jnp.float32)))).reshape(_GRID, _GRID)
    return Scatter(
        "density",
        "Density and held-out points",
        "first coordinate",
        "second coordinate",
        {"held out": x},
        field=density,
        extent=(float(low[0]), float(high[0]), float(low[1]), float(high[1])),
    )


__all__ = ["all_of"]
