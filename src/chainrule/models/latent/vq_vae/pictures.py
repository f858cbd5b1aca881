"""Pictures of a codebook: what is rebuilt from it, how often each code is met, and what single codes look like."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Bars, Heatmap, Images, Lines, Picture
from chainrule.core.types import Array, Key
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.models.latent import latent_pictures
from chainrule.models.latent.vq_vae.quantizer import perplexity

if TYPE_CHECKING:
    from chainrule.models.latent.vq_vae.model import VQVAE

_SHOWN = 10
"""Examples that are rebuilt."""
_MET = 2000
"""Examples whose codes are counted."""
_TILES = 256
"""Codes that are shown, at most."""
_TEMPERATURES = (0.5, 0.8, 1.0)


def pictures(model: "VQVAE", data: Data, key: Key) -> Sequence[Picture]:
    """All that applies to the data."""
    schema = data.schema
    part, _ = data.held_out()
    x = part.batch(np.arange(min(_MET, len(part)))).x
    indices = np.concatenate(
        [np.asarray(_indices(model, jnp.asarray(x[i : i + 256]))) for i in range(0, len(x), 256)]
    )
    met = np.bincount(indices.ravel(), minlength=model.config.codes)
    found: list[Picture] = [use(met, len(x))]
    if kinds.of(schema).is_plane(schema):
        back = np.asarray(_decoded(model, jnp.asarray(indices[:300])))
        return [latent_pictures.moved(x[:300], back), *found]
    if not kinds.of(schema).shows_pixels(schema):
        return found
    back = np.asarray(_decoded(model, jnp.asarray(indices[:_SHOWN])))
    found.insert(
        0,
        latent_pictures.triptych(x[:_SHOWN], back, "From the nearest code of the codebook at every place. "),
    )
    if len(model.code_shape) == 2:
        found += [tiles(model, met, indices), numbers(indices[0]), drawn(model, key)]
    return found


@eqx.filter_jit
def _indices(model: "VQVAE", x: Array) -> Array:
    return model.encode_indices(x)


@eqx.filter_jit
def _decoded(model: "VQVAE", indices: Array) -> Array:
    return model.decode_indices(indices)


def use(met: np.ndarray, examples: int) -> Lines | Bars:
    """How often every code is met, most frequent first."""
    count = len(met)
    shares = np.sort(met)[::-1] / max(met.sum(), 1)
    rank = np.arange(1, count + 1)
    idle = int((met == 0).sum())
    worth = float(perplexity(jnp.asarray(met, jnp.float32)))
    said = "Every code is met" if not idle else f"{idle} of {count} codes are not met"
    return Lines(
        "codebook-use",
        "How often each code is met",
        "code, most frequent first",
        "share of all codes",
        {
            "held-out examples": (rank, shares),
            "all alike": (rank, np.full(count, 1 / count)),
        },
        caption=f"{said} in {examples:,} held-out examples. Perplexity {worth:.1f}: the use is as spread out as that "
        f"of so many codes, all alike; {count} at most.",
    )


def tiles(model: "VQVAE", met: np.ndarray, indices: np.ndarray) -> Images:
    """What a code adds where it stands: the middle of the most frequent grid, with only that code changed."""
    order = np.argsort(-met, kind="stable")[:_TILES]
    rows, columns = model.code_shape
    common = _commonest(indices, model.config.codes)
    grids = np.repeat(common[None], len(order), axis=0)
    grids[:, rows // 2, columns // 2] = order
    images = np.asarray(_decoded(model, jnp.asarray(grids)))
    height, width = images.shape[1:3]
    # The window that the middle cell stands for, and half a cell around it.
    tall, wide = -(-height // rows), -(-width // columns)
    top, left = (rows // 2) * tall - tall // 2, (columns // 2) * wide - wide // 2
    window = images[:, max(top, 0) : top + 2 * tall, max(left, 0) : left + 2 * wide]
    return Images(
        "codes-as-tiles",
        "What single codes look like",
        np.clip(window, 0, 1),
        columns=16,
        caption=f"The {len(order)} most frequent codes, each put in the middle of a grid of the commonest codes at "
        "every other place, and decoded. Shown are the pixels that the code stands for and half as many around.",
    )


def _commonest(indices: np.ndarray, codes: int) -> np.ndarray:
    """The code that is met most often at each place."""
    flat = indices.reshape(len(indices), -1)
    found = [np.bincount(column, minlength=codes).argmax() for column in flat.T]
    return np.asarray(found, np.int32).reshape(indices.shape[1:])


def numbers(indices: np.ndarray) -> Heatmap:
    """The grid of codes of one example."""
    rows, columns = indices.shape
    return Heatmap(
        "code-grid",
        "The codes of the first example",
        "column",
        "row",
        indices.astype(float),
        [str(i + 1) for i in range(rows)],
        [str(i + 1) for i in range(columns)],
        numbers=indices.size <= 256,
        caption="Numbers of codes, as `encode_indices` gives them; colours only tell them apart.",
    )


def drawn(model: "VQVAE", key: Key) -> Images:
    """Examples from codes of the prior at several temperatures."""
    shown = [
        np.asarray(model.sample(jax.random.fold_in(key, i), _SHOWN, temperature=t))
        for i, t in enumerate(_TEMPERATURES)
    ]
    labels = [f"at {t:g}" for t in _TEMPERATURES for _ in range(_SHOWN)]
    return Images(
        "drawn",
        "Drawn from the prior of the codes",
        np.clip(np.concatenate(shown), 0, 1),
        labels,
        _SHOWN,
        caption="Grids of codes drawn one by one, then decoded: at 1 as the prior has learned them, below 1 likelier "
        "ones.",
        aligned=True,
    )


__all__ = ["drawn", "numbers", "pictures", "tiles", "use"]
