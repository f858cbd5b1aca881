"""Pictures of a generator and what transport asks of it: ways of points, modes, walks through noise."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Picture, Scatter
from chainrule.core.types import Array, Key, Scalar
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.generated.toys import modes_of
from chainrule.data.previews import heads
from chainrule.models.transport.sinkhorn_generator.losses import divergence, mean_cost
from chainrule.networks.pictures import generators

_POINTS = 400
_ARROWS = 80
_EPS = 0.05
_COST = "sqeuclidean"
"""Whatever a model was trained with: only slopes of squares say how far a point has to go."""


def all_of(model: Any, data: Data, key: Key) -> list[Picture]:
    """All that apply to these data."""
    found: list[Picture] = []
    if kinds.of(data.schema).is_plane(data.schema):
        found.append(_ways(model, data, key))
    if modes_of(data.source) is not None:
        found.append(generators.modes(model.sample, data, key))
    if kinds.of(data.schema).shows_pixels(data.schema):
        found.append(generators.walks(model.noise, model.generate, key))
    return found


def _ways(model: Any, data: Data, key: Key) -> Scatter:
    """Where the gradient of the divergence from held-out points sends generated ones."""
    part, whose = (data.val, "held-out") if len(data.val) else (data.train, "training")
    chosen = np.arange(min(_POINTS, len(part)))
    real = np.asarray(part.batch(chosen).x).reshape(-1, 2).astype(np.float32)
    drawn = np.asarray(model.sample(key, _POINTS)).reshape(-1, 2)
    slope = np.asarray(_slope(jnp.asarray(drawn), jnp.asarray(real)))
    # A step of a half along the slope of a squared distance is the whole way.
    steps = -slope * len(drawn) / 2
    back = data.scaling.inverse
    x_label, y_label = heads(data.schema, 2)
    begin, end = (np.asarray(back(points[:_ARROWS])) for points in (drawn, drawn + steps))
    length = np.linalg.norm(end - begin, axis=1)
    return Scatter(
        "transport-ways",
        "Where transport would send generated points",
        x_label,
        y_label,
        {whose: np.asarray(back(real)), "generated": np.asarray(back(drawn))},
        arrows=(begin, end - begin),
        caption=f"Arrows: minus the gradient of the Sinkhorn divergence (of squared distances) from {whose} points, at "
        f"some of the generated ones. Their mean length is {length.mean():.2g} in units of the data; of two sets of "
        "real points arrows are short as well, and of no common direction.",
    )


@eqx.filter_jit
def _slope(drawn: Array, real: Array) -> Array:
    def distance(y: Array) -> Scalar:
        return divergence(real, y, _EPS * mean_cost(real, _COST), _COST).value

    return jax.grad(distance)(drawn)


__all__ = ["all_of"]
