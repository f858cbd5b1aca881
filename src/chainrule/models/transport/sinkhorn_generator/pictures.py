"""Pictures of a generator and what transport asks of it: ways of points, modes, walks through noise."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import random
from chainrule.core.pictures import Bars, Images, Picture, Scatter
from chainrule.core.types import Array, Key, Scalar
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.generated.toys import modes_of
from chainrule.data.previews import heads
from chainrule.models.transport.sinkhorn_generator.losses import divergence, mean_cost
from chainrule.probability.interpolation import between
from chainrule.probability.samples import mode_coverage

_POINTS = 400
_ARROWS = 80
_DRAWN = 2500
_WAY, _WALKS = 10, 5
_EPS = 0.05


def all_of(model: Any, data: Data, key: Key) -> list[Picture]:
    """All that apply to these data."""
    found: list[Picture] = []
    if kinds.of(data.schema).is_plane(data.schema):
        found.append(_ways(model, data, key))
    if modes_of(data.source) is not None:
        found.append(_modes(model, data, key))
    if kinds.of(data.schema).shows_pixels(data.schema):
        found.append(_walks(model, key))
    return found


def _ways(model: Any, data: Data, key: Key) -> Scatter:
    """Where the gradient of the divergence from held-out points sends generated ones."""
    count = min(_POINTS, len(data.val))
    real = np.asarray(data.val.batch(np.arange(count)).x).reshape(-1, 2).astype(np.float32)
    drawn = np.asarray(model.sample(key, _POINTS)).reshape(-1, 2)
    slope = np.asarray(_slope(jnp.asarray(drawn), jnp.asarray(real), model.config.cost))
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
        {"held-out": np.asarray(back(real)), "generated": np.asarray(back(drawn))},
        arrows=(begin, end - begin),
        caption="Arrows: minus the gradient of the Sinkhorn divergence from held-out points, at some of the generated "
        f"ones. Their mean length is {length.mean():.2g} in units of the data; of two sets of real points arrows are "
        "short as well, and of no common direction.",
    )


@eqx.filter_jit
def _slope(drawn: Array, real: Array, cost: str) -> Array:
    def distance(y: Array) -> Scalar:
        return divergence(real, y, _EPS * mean_cost(real, cost), cost).value

    return jax.grad(distance)(drawn)


def _modes(model: Any, data: Data, key: Key) -> Bars:
    modes = modes_of(data.source)
    assert modes is not None
    drawn = np.asarray(data.inverse(np.asarray(model.sample(key, _DRAWN))))
    found = mode_coverage(drawn, modes.centres, max(modes.deviation, 1e-6))
    names = data.schema.classes
    return Bars(
        "modes",
        f"{found.covered} of {found.modes} modes, {found.high_quality:.0%} of samples of high quality",
        "mode",
        "samples",
        list(names),
        {"samples": found.counts.astype(float), "even shares": np.full(len(names), _DRAWN / len(names))},
        caption=f"Of {_DRAWN:,} samples those within three standard deviations of the nearest centre, by centre. A "
        f"mode is covered by {found.threshold} or more. Samples spread {found.deviation:.2f} times as wide as the data "
        f"about a centre; their shares differ from even ones by {found.divergence:.3f} nats.",
    )


def _walks(model: Any, key: Key) -> Images:
    """Great circles between draws of noise."""
    ends = model.noise(random.named(key, "walks"), 2 * _WALKS)
    ways = jnp.concatenate([between(ends[2 * i], ends[2 * i + 1], _WAY) for i in range(_WALKS)])
    images = np.clip(np.asarray(model.generate(ways)), 0, 1)
    return Images(
        "walks",
        "Between vectors of noise",
        images,
        (),
        _WAY,
        "Each row goes along a great circle from one draw of noise to another. Images that change little by little "
        "mean that the generator has learned more than a list.",
        smooth=images.shape[1] <= 32,
        aligned=True,
    )


__all__ = ["all_of"]
