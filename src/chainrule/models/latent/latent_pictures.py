"""Pictures of what a latent variable is used for: reconstructions, costs by entry, codes in the plane, a sweep."""

from collections.abc import Callable, Sequence

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
_BARS = 128
"""Entries of a code that are drawn as bars at most."""
_SIDE = 12
"""Codes along each side of the sweep."""
_CONTOURS = 3
"""Standard deviations of the prior that are marked."""


def pictures(model: HasLatents, data: Data, key: Key, *, circles: bool = True) -> Sequence[Picture]:
    """All that applies to the data; without `circles`, nothing that takes the prior for a standard normal one."""
    schema = data.schema
    part = data.val if len(data.val) else data.train
    batch = part.batch(np.arange(min(_CODES, len(part))))
    use = _use(model, Batch(*(None if a is None else jnp.asarray(a) for a in batch[:2])), key)
    codes = np.asarray(_encoded(model, jnp.asarray(batch.x)))
    chief = np.argsort(-np.asarray(use.divergence))[:2]
    found: list[Picture] = [costs(use)]
    if codes.shape[1] > 1:
        found.append(codes_in_the_plane(codes, chief, batch, schema, circles=circles))
    if kinds.of(schema).is_plane(schema):
        found.insert(0, moved(batch.x[:300], np.asarray(_rebuilt(model, jnp.asarray(batch.x[:300])))))
    elif kinds.of(schema).shows_pixels(schema):
        x = batch.x[:_SHOWN]
        found.insert(0, triptych(x, np.asarray(_rebuilt(model, jnp.asarray(x)))))
        if codes.shape[1] > 1 and circles:
            found.append(sweep(lambda z: _decoded(model, z), codes.shape[1], chief))
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


def triptych(
    x: np.ndarray, back: np.ndarray, begin: str = "From the centre of each code's distribution. "
) -> Images:
    """Held-out images, the means they are rebuilt as, and what is left: grey where nothing is."""
    rows = [x, back, 0.5 + (x - back) / 2]
    labels = [row for row in ("held out", "rebuilt", "left over") for _ in range(len(x))]
    return Images(
        "rebuilt",
        "What is rebuilt from the codes",
        np.clip(np.concatenate(rows), 0, 1),
        labels,
        len(x),
        caption=f"{begin}Left over: what was there and is missing is light, what was added is dark.",
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
    order = np.argsort(-each)[:_BARS]
    count = int(active.sum())
    said = f"{count} of {len(each)} entries are in use"
    if not count:
        said = "collapsed: no entry is in use, the codes say nothing about the examples"
    rest = f" The {_BARS} that cost most are shown." if len(each) > _BARS else ""
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
        f"the examples. Together they cost {each.sum():.4g} nats, the rate.{rest}",
    )


def codes_in_the_plane(
    codes: np.ndarray,
    chief: np.ndarray,
    batch: Batch,
    schema: Schema,
    which: str = "",
    *,
    circles: bool = True,
) -> Scatter:
    """Codes of held-out examples by class, over circles that hold shares of the prior; `which`: of them, in words."""
    first, second = (int(one) for one in chief)
    plane = codes[:, chief]
    edge = max(float(np.abs(plane).max()) * 1.05, 3.3)
    axis = np.linspace(-edge, edge, 101)
    radius = np.hypot(axis[:, None], axis[None, :])
    rest = "" if codes.shape[1] == 2 else f" The two entries{_of(which)} that cost most are shown."
    if not circles:
        return Scatter(
            "codes",
            "Codes of held-out examples",
            f"entry {first + 1}",
            f"entry {second + 1}",
            by_class(plane, batch, schema),
            caption=f"Centres of the posteriors.{rest}",
        )
    return Scatter(
        "codes",
        f"Codes{_of(which)} of held-out examples",
        f"entry {first + 1}",
        f"entry {second + 1}",
        by_class(plane, batch, schema),
        field=-radius,
        extent=(-edge, edge, -edge, edge),
        contours=[(-float(r), f"{r} σ") for r in range(1, _CONTOURS + 1)],
        caption="Centres of the posteriors. The circles are one, two and three standard deviations of the prior: 39, "
        f"86 and 99 % of its codes in the plane.{rest}",
    )


def by_class(points: np.ndarray, batch: Batch, schema: Schema) -> dict[str, np.ndarray]:
    """The points of each class under its name, where examples have classes."""
    if batch.y is None or not targets.of(schema).one_class:
        return {"held out": points}
    y = np.asarray(batch.y)
    return {name: points[y == number] for number, name in enumerate(schema.classes) if (y == number).any()}


def _of(which: str) -> str:
    return f" {which}" if which else ""


def sweep(decode: Callable[[Array], Array], size: int, chief: np.ndarray, which: str = "") -> Images:
    """Examples at even quantiles of the prior along two entries of the code, the others at zero."""
    quantiles = norm.ppf((np.arange(_SIDE) + 0.5) / _SIDE)
    z = np.zeros((_SIDE, _SIDE, size), np.float32)
    z[..., chief[0]], z[..., chief[1]] = quantiles[None, :], -quantiles[:, None]
    rest = "" if size == 2 else ", the others are zero"
    return Images(
        "sweep",
        f"A sweep through the codes{_of(which)}",
        np.clip(np.asarray(decode(jnp.asarray(z.reshape(-1, size)))), 0, 1),
        columns=_SIDE,
        caption=f"Entry {chief[0] + 1} grows to the right, entry {chief[1] + 1} upwards, in even shares of the prior"
        f"{rest}.",
        aligned=True,
    )


__all__ = ["by_class", "codes_in_the_plane", "costs", "moved", "pictures", "sweep", "triptych"]
