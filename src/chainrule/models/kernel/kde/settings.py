"""Settings of the kernel density estimate, and the widths that validation examples choose."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, final

import numpy as np
from jaxtyping import Float
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels.density import search_width, width_profile
from chainrule.models.kernel import keeping
from chainrule.models.kernel.settings import Kept, kept, refuse_weights, rows
from chainrule.models.protocol import Config
from chainrule.networks import units

MOST = 10_000
"""Training examples that are kept unless told otherwise."""
SEARCHED = 2000
"""Examples on which widths are compared."""
COLUMNS = 256
"""Entries of an example up to which bumps with the covariance of the data are tried."""


@final
class KDEConfig(Config):
    """Settings of the kernel density estimate."""

    width: Annotated[float, Field(gt=0)] | Literal["auto"] = Field(
        "auto",
        description="of the bump around every example: in model units for shape=sphere, otherwise in units of the "
        "spread of the examples; auto: the one under which validation examples are likeliest",
    )
    shape: Literal["auto", "sphere", "columns", "covariance"] = Field(
        "auto",
        description="of a bump: the same in all directions, stretched like the standard deviations of the entries, or "
        "like their covariance; auto: the one under which validation examples are likeliest",
    )
    bump: Literal["gaussian", "exponential"] = Field(
        "gaussian", description="exp(-r²/2), or exp(-r), which has heavier tails"
    )
    points: Kept = "auto"


def measured(config: KDEConfig, data: Data) -> Mapping[str, Any]:
    """The number of kept examples, and shape and width where they are left to the data."""
    refuse_weights("kde", data)
    found: dict[str, Any] = {"points": kept(config.points, data, MOST)}
    if config.shape != "auto" and config.width != "auto":
        unit_of(config.shape, data.schema, rows(data.train.x))
        return found
    if config.shape == "auto" and config.width != "auto":
        raise ArgumentError(
            f"width={config.width}: what a width means depends on the shape of the bumps",
            remedy=f"add shape=sphere (model units), or leave the width to the data: shape={config.shape}",
        )
    train, held = searched(data)
    best = -np.inf
    for shape in candidates(config, data.schema):
        try:
            unit = unit_of(shape, data.schema, train)
        except ArgumentError:
            if config.shape != "auto":
                raise
            continue
        width = search_width(train, unit, config.bump, held)
        value = float(width_profile(train, unit, [width], config.bump, held)[0])
        if value > best:
            best = value
            found |= {"shape": shape, "width": float(f"{width:.6g}")}
    return found


def candidates(config: KDEConfig, schema: Schema) -> tuple[str, ...]:
    """Shapes that are tried."""
    if config.shape != "auto":
        return (config.shape,)
    return ("sphere", "columns") + (("covariance",) if schema.dimensions <= COLUMNS else ())


def searched(data: Data) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows that bumps are put on, and held-out ones as they are scored; none: each training row in its turn."""
    some = keeping.spread(len(data.train), SEARCHED)
    train = rows(data.train.batch(some).x)
    if not len(data.val):
        return noised(data.schema, train), None
    return train, noised(data.schema, rows(data.val.batch(keeping.spread(len(data.val), SEARCHED)).x))


def noised(schema: Schema, x: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows features"]:
    """Rows as their density is that of: levels with uniform noise between them."""
    if not schema.levels:
        return x
    return x + (np.random.default_rng(0).random(x.shape) - 0.5) / (schema.levels - 1)


def unit_of(shape: str, schema: Schema, x: Float[np.ndarray, "rows features"]) -> np.ndarray:
    """What widths multiply: ones, standard deviations, or the lower factor of the covariance.

    The noise between levels counts, so that pixels that are always black have a width, too.
    """
    added = units.dequantization_variance(schema)
    if shape == "sphere":
        return np.ones(x.shape[1])
    variances = x.var(axis=0) + added
    if not (variances > 0).all():
        raise ArgumentError(
            f"shape={shape}: entry {int(np.argmin(variances))} is the same in all training examples",
            remedy="use shape=sphere",
        )
    if shape == "columns":
        return np.sqrt(variances)
    covariance = np.atleast_2d(np.cov(x.T, ddof=0)) + added * np.eye(x.shape[1])
    scaled = covariance / np.sqrt(np.outer(variances, variances))
    if np.linalg.eigvalsh(scaled)[0] < 1e-10:
        raise ArgumentError(
            f"shape=covariance: that of {len(x)} examples with {x.shape[1]} entries is singular",
            remedy="use shape=columns",
        )
    return np.linalg.cholesky(covariance)


__all__ = ["KDEConfig", "candidates", "measured", "noised", "searched", "unit_of"]
