"""Pictures of diffusion in a latent space: the ceiling that the first stage sets, samples below it, and their codes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Picture, Scatter
from chainrule.core.types import Array, Key
from chainrule.data.dataset import Data
from chainrule.models.diffusion.pictures import error_by_level
from chainrule.models.diffusion.stages import beside
from chainrule.models.diffusion.walk_options import WalkOptions
from chainrule.models.protocol import read_options
from chainrule.probability.linear import principal_components

if TYPE_CHECKING:
    from chainrule.models.diffusion.latent_diffusion.model import LatentModel

_CODES = 300


def pictures(model: "LatentModel", data: Data, key: Key) -> Sequence[Picture]:
    """Every picture that suits the data."""
    part, whose = (data.val, "validation") if len(data.val) else (data.train, "training")
    batch = part.batch(np.arange(min(_CODES, len(part))))
    x, codes = jnp.asarray(batch.x), _encoded(model, jnp.asarray(batch.x))
    y = None if batch.y is None or not model.conditional else np.asarray(batch.y)
    drawn = model.draw_codes(key, len(x), condition=y)
    rows = {"held out": x, "rebuilt": _decoded(model, codes), "new": _decoded(model, drawn)}
    found: list[Picture] = [*beside({name: np.asarray(row) for name, row in rows.items()}, data.schema)]
    if codes.shape[1] > 1:
        found.append(in_the_plane(np.asarray(codes), np.asarray(drawn), _how(model)))
    for_errors = jax.random.fold_in(key, 1)
    named = f"{len(x)} {whose} examples"
    return [*found, error_by_level(model.diffusion, model.arranged(codes), for_errors, named)]


@eqx.filter_jit
def _encoded(model: "LatentModel", x: Array) -> Array:
    return model.encode(x)


@eqx.filter_jit
def _decoded(model: "LatentModel", z: Array) -> Array:
    return model.decode(z)


def _how(model: "LatentModel") -> str:
    walk = read_options(model.sample_options(), {})["walk"]
    assert isinstance(walk, WalkOptions)
    return f"{walk.sampler} in {walk.steps} steps"


def in_the_plane(codes: np.ndarray, drawn: np.ndarray, how: str) -> Picture:
    """Codes of examples and codes that diffusion drew, in the plane in which those of the examples vary most."""
    plane = principal_components(codes.astype(np.float64), 2)
    shown = {
        name: (z - plane.mean[None]) @ plane.axes.T for name, z in (("held out", codes), ("drawn", drawn))
    }
    return Scatter(
        "codes",
        "Codes of held-out examples, and codes that were drawn",
        "first direction",
        "second direction",
        shown,
        caption=f"Drawn by {how}. Axes are the two directions in which codes vary most: "
        f"{float(plane.explained.sum()):.0%} of their variance.",
    )


__all__ = ["in_the_plane", "pictures"]
