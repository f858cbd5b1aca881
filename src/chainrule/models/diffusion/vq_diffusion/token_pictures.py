"""Pictures of diffusion of codes: the ceiling that the first stage sets, samples, and where the bits of a code go."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Lines, Picture
from chainrule.core.types import Array, Int, Key
from chainrule.data.dataset import Data
from chainrule.models.diffusion.stages import beside

if TYPE_CHECKING:
    from chainrule.models.diffusion.vq_diffusion.model import TokenModel

_CODED = 128
_TIMES = 25


def pictures(model: "TokenModel", data: Data, key: Key) -> Sequence[Picture]:
    """Every picture that suits the data."""
    part, whose = (data.val, "validation") if len(data.val) else (data.train, "training")
    batch = part.batch(np.arange(min(_CODED, len(part))))
    x = jnp.asarray(batch.x)
    y = jnp.asarray(batch.y) if model.conditional and batch.y is not None else None
    clean, rebuilt = _coded(model, x)
    new = model.sample(key, len(x), condition=None if y is None else np.asarray(y))
    rows = {"held out": x, "rebuilt": rebuilt, "new": new}
    costs = by_time(model, clean, y, jax.random.fold_in(key, 1), f"{len(x)} {whose} examples")
    return [*beside({name: np.asarray(row) for name, row in rows.items()}, data.schema), costs]


@eqx.filter_jit
def _coded(model: "TokenModel", x: Array) -> tuple[Array, Array]:
    clean = model.tokens(x)
    return clean, model.decode_indices(clean.reshape(len(x), *model.code_shape))


@eqx.filter_jit
def _costs(
    model: "TokenModel", clean: Int[Array, "batch locations"], y: Any, times: Array, key: Key
) -> Array:
    def one(draw: tuple[Array, Key]) -> Array:
        return model.nats_at(clean, jnp.full(len(clean), draw[0]), y, draw[1])

    return jax.lax.map(one, (times, jax.random.split(key, len(times))))


def by_time(model: "TokenModel", clean: Array, y: Any, key: Key, whose: str) -> Picture:
    """What every time of the chain would add to the bound if all did as it does, in bits of a code."""
    times = (np.arange(_TIMES) + 0.5) / _TIMES
    nats = np.asarray(_costs(model, clean, y, jnp.asarray(times, jnp.float32), key))
    bits = nats / (clean.shape[1] * math.log(2))
    mean, half = bits.mean(axis=1), 2 * bits.std(axis=1) / math.sqrt(bits.shape[1])
    return Lines(
        "bits-by-time",
        "Where the bits of a code go",
        "time, from the data to nothing",
        "bits per code and unit of time",
        {whose: (times, mean, mean - half, mean + half)},
        caption=f"The area below is the bound, about {mean.mean():.2f} bits for each code of an example; if all were "
        f"equally likely, {math.log2(len(model.codebook)):.2f}. Mean over {whose}, with twice its standard error.",
    )


__all__ = ["by_time", "pictures"]
