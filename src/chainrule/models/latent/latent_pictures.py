"""Pictures of what a latent variable is used for: reconstructions, costs by entry, codes in the plane, a sweep."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

from chainrule.core.pictures import Bars, Images, Picture, Scatter
from chainrule.core.types import Array, Key
from chainrule.data import kinds, targets
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol import HasLatents, LatentUse
from chainrule.models.protocol.latents import ACTIVE

_SHOWN = 10
"""Examples that are rebuilt."""
_CODES = 1000
"""Examples whose codes are drawn."""
_SIDE = 12
"""Codes along each side of the sweep."""
_CONTOURS = 3
"""Standard deviations of the prior that are marked."""


def pictures(model: HasLatents, data: Data, key: Key) -> Sequence[Picture]:
    """All that applies to the data."""
    schema = data.schema
    part = data.val if len(data.val) else data.train
    batch = part.batch(np.arange(min(_CODES, len(part))))
    use = _use(model, Batch(*(None if a is None else jnp.asarray(a) for a in batch[:2])), key)
    codes = np.asarray(_encoded(model, jnp.asarray(batch.x)))
    chief = np.argsort(-np.asarray(use.divergence))[:2]
    found: list[Picture] = [costs(use)]
    if codes.shape[1] > 1:
        found.append(codes_in_the_plane(codes, chief, batch, schema))
    if kinds.of(schema).is_plane(schema):
        found.insert(0, moved(batch.x[:300], np.asarray(_rebuilt(model, jnp.asarray(batch.x[:300])))))
    elif kinds.of(schema).shows_pixels(schema):
        x = batch.x[:_SHOWN]
        found.insert(0, triptych(x, np.asarray(_rebuilt(model, jnp.asarray(x)))))
        if codes.shape[1] > 1:
            found.append(sweep(model, codes.shape[1], chief))
    return found


@eqx.filter_jit
def _use(model: HasLatents, batch: Batch, key: Key) -> LatentUse:
    return model.latent_use(batch, key)


@eqx.filter_jit
def _encoded(model: HasLatents, x: Array) -> Array:
    return model.encode(x)


@eqx.filter_jit
def _rebuilt(model: HasLatents, x: Array) -> Array:
    return model.decode(model.encode(x))


@eqx.filter_jit
def _decoded(model: HasLatents, z: Array) -> Array:
    return model.decode(z)


def triptych(x: np.ndarray, back: np.ndarray) -> Images:
    """Held-out images, the means they are rebuilt as, and what is left: grey where nothing is."""
    rows = [x, back, 0.5 + (x - back) / 2]
    labels = [row for row in ("held out", "rebuilt", "left over") for _ in range(len(x))]
    return Images(
        "rebuilt",
        "What is rebuilt from the codes",
        np.clip(np.concatenate(rows), 0, 1),
        labels,
        len(x),
        caption="From the centre of each code's distribution. Left over: what was there and is missing is light, what "
        "was added is dark.",
        aligned=True,
    )


def moved(x: np.ndarray, back: np.ndarray) -> Scatter:
    """Points and where their reconstruction lies."""
    return Scatter(
        "rebuilt",
        "What is rebuilt from the codes",
        "first coordinate",
        "second coordinate",
        {"held out": x, "rebuilt": back},
        arrows=(x, back - x),
    )


def costs(use: LatentUse) -> Bars:
    """The share of every entry of the code in the rate, largest first."""
    each, active = np.asarray(use.divergence), np.asarray(use.active)
    order = np.argsort(-each)
    count = int(active.sum())
    said = f"{count} of {len(each)} entries are in use"
    if not count:
        said = "collapsed: no entry is in use, the codes say nothing about the examples"
    return Bars(
        "rate-by-entry",
        "What every entry of the code costs",
        "entry of the code",
        "nats",
        [str(number + 1) for number in order],
        {
            "in use": np.where(active, each, 0.0)[order],
            "not in use": np.where(active, 0.0, each)[order],
        },
        caption=f"{said[0].upper()}{said[1:]}: an entry is in use where its mean varies by more than {ACTIVE:g} over "
        f"the examples. Together they cost {each.sum():.4g} nats, the rate.",
    )


def codes_in_the_plane(codes: np.ndarray, chief: np.ndarray, batch: Batch, schema: Schema) -> Scatter:
    """Codes of held-out examples by class, over circles that hold shares of the prior."""
    first, second = (int(one) for one in chief)
    plane = codes[:, chief]
    edge = max(float(np.abs(plane).max()) * 1.05, 3.3)
    axis = np.linspace(-edge, edge, 101)
    radius = np.hypot(axis[:, None], axis[None, :])
    groups = {"held out": plane}
    if batch.y is not None and targets.of(schema).one_class:
        y = np.asarray(batch.y)
        groups = {
            name: plane[y == number] for number, name in enumerate(schema.classes) if (y == number).any()
        }
    rest = "" if codes.shape[1] == 2 else " The two entries that cost most are shown."
    return Scatter(
        "codes",
        "Codes of held-out examples",
        f"entry {first + 1}",
        f"entry {second + 1}",
        groups,
        field=-radius,
        extent=(-edge, edge, -edge, edge),
        contours=[(-float(r), f"{r} σ") for r in range(1, _CONTOURS + 1)],
        caption="Centres of the posteriors. The circles are one, two and three standard deviations of the prior: 39, "
        f"86 and 99 % of its codes in the plane.{rest}",
    )


def sweep(model: HasLatents, size: int, chief: np.ndarray) -> Images:
    """Examples at even quantiles of the prior along two entries of the code, the others at zero."""
    quantiles = norm.ppf((np.arange(_SIDE) + 0.5) / _SIDE)
    z = np.zeros((_SIDE, _SIDE, size), np.float32)
    z[..., chief[0]], z[..., chief[1]] = quantiles[None, :], -quantiles[:, None]
    rest = "" if size == 2 else ", the others are zero"
    return Images(
        "sweep",
        "A sweep through the codes",
        np.clip(np.asarray(_decoded(model, jnp.asarray(z.reshape(-1, size)))), 0, 1),
        columns=_SIDE,
        caption=f"Entry {chief[0] + 1} grows to the right, entry {chief[1] + 1} upwards, in even shares of the prior"
        f"{rest}.",
        aligned=True,
    )


__all__ = ["codes_in_the_plane", "costs", "moved", "pictures", "sweep", "triptych"]
