"""Pictures of codes with levels: what each level costs, examples with the top levels fixed, the plane of the top."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Bars, Images, Lines, Picture, Scatter
from chainrule.core.types import Array, Key
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.models.latent import latent_pictures
from chainrule.models.protocol import LatentUse
from chainrule.models.protocol.latents import IDLE

if TYPE_CHECKING:
    from chainrule.models.latent.hierarchical import Hierarchical

_SHOWN = 10
"""Examples in a row."""
_CODES = 1000
"""Held-out examples that are looked at."""
_MANY = 20
"""Levels that are drawn as bars at most; of more the cost is a curve."""
_POINTS = 300
"""Points drawn with the same top levels."""


def pictures(model: "Hierarchical", data: Data, key: Key) -> Sequence[Picture]:
    """All that applies to the data."""
    schema, hierarchy = data.schema, model.hierarchy
    kind = kinds.of(schema)
    for_use, for_samples = jax.random.split(key)
    part = data.val if len(data.val) else data.train
    batch = part.batch(np.arange(min(_CODES, len(part))))
    use = _use(model, Batch(*(None if a is None else jnp.asarray(a) for a in batch[:2])), for_use)
    codes = np.asarray(_encoded(model, jnp.asarray(batch.x)))[:, hierarchy.part(-1)]
    divergence = np.asarray(use.divergence)
    chief = np.argsort(-divergence[hierarchy.part(-1)])[:2]
    found: list[Picture] = [level_costs(divergence, hierarchy.sizes), latent_pictures.costs(use)]
    if kind.shows_pixels(schema):
        x = batch.x[:_SHOWN]
        back = np.asarray(_rebuilt(model, jnp.asarray(x)))
        found = [latent_pictures.triptych(x, back), *found, fixed_images(model, for_samples)]
    elif kind.is_plane(schema):
        x = batch.x[:_POINTS]
        back = np.asarray(_rebuilt(model, jnp.asarray(x)))
        found = [latent_pictures.moved(x, back), *found, fixed_points(model, for_samples)]
    if codes.shape[1] > 1:
        found.append(latent_pictures.codes_in_the_plane(codes, chief, batch, schema, "of the top level"))
        if kind.shows_pixels(schema):
            found.append(
                latent_pictures.sweep(lambda z: _decoded(model, z), codes.shape[1], chief, "of the top level")
            )
    return found


@eqx.filter_jit
def _use(model: "Hierarchical", batch: Batch, key: Key) -> LatentUse:
    return model.latent_use(batch, key)


@eqx.filter_jit
def _encoded(model: "Hierarchical", x: Array) -> Array:
    return model.encode(x)


@eqx.filter_jit
def _rebuilt(model: "Hierarchical", x: Array) -> Array:
    return model.reconstruct(x)


@eqx.filter_jit
def _decoded(model: "Hierarchical", z: Array) -> Array:
    return model.decode(z, top=True)


def level_costs(divergence: np.ndarray, sizes: tuple[int, ...]) -> Picture:
    """The share of every level in the rate, the lowest first."""
    ends = np.cumsum(sizes)
    each = np.array([divergence[end - size : end].sum() for end, size in zip(ends, sizes, strict=True)])
    title, total = (
        "What every level of the code costs",
        f"Together they cost {each.sum():.4g} nats, the rate.",
    )
    if len(each) > _MANY:
        levels = np.arange(1, len(each) + 1)
        return Lines(
            *("rate-by-level", title, "level, the top one last", "nats"),
            {"rate": (levels, each)},
            caption=f"The divergence of every level from what the one above it expects. {total}",
        )
    names = [f"z{level + 1}" for level in range(len(each))]
    idle = [name for name, nats in zip(names, each, strict=True) if nats < IDLE]
    said = (
        f"Levels that say nothing of the examples: {', '.join(idle)}." if idle else "Every level is in use."
    )
    return Bars(
        *("rate-by-level", title, "level, the top one last", "nats"),
        names,
        {"rate": each},
        caption=f"{said} {total} A level may cost nothing where those above it tell all that it could.",
    )


def _drawn(model: "Hierarchical", key: Key, n: int, fixed: int, entries: str) -> np.ndarray:
    return np.asarray(model.sample(key, n, levels_fixed=fixed, entries=entries))  # type: ignore[arg-type]


def _rows(levels: int) -> list[int]:
    """How many top levels are fixed in each row: all but the lowest, and fewer step by step to none."""
    return sorted({round(share * (levels - 1)) for share in np.linspace(1, 0, 6)}, reverse=True)


def fixed_images(model: "Hierarchical", key: Key) -> Images:
    """Examples with the same top levels, fewer of them from row to row."""
    rows = _rows(len(model.hierarchy.sizes))
    images = [_drawn(model, key, _SHOWN, fixed, "mean") for fixed in rows]
    labels = ["nothing fixed" if not fixed else f"top {fixed} fixed" for fixed in rows for _ in range(_SHOWN)]
    return Images(
        "levels-fixed",
        "Examples with the top levels fixed",
        np.clip(np.concatenate(images), 0, 1),
        labels,
        _SHOWN,
        caption="All examples of a row share so many levels from the top, the same in every row, and differ in the "
        "levels below, drawn anew. What stays the same along a row is what these levels decide.",
        aligned=True,
    )


def fixed_points(model: "Hierarchical", key: Key) -> Scatter:
    """Points with the same top levels, over points with nothing fixed."""
    rows = _rows(len(model.hierarchy.sizes))
    groups = {
        "nothing fixed" if not fixed else f"top {fixed} fixed": _drawn(model, key, _POINTS, fixed, "drawn")
        for fixed in reversed(rows)
    }
    return Scatter(
        "levels-fixed",
        "Points with the top levels fixed",
        "first coordinate",
        "second coordinate",
        groups,
        caption="Points of a group share so many levels from the top and differ in the levels below, drawn anew.",
    )


__all__ = ["fixed_images", "fixed_points", "level_costs", "pictures"]
