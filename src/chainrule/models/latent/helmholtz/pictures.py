"""Pictures of a Helmholtz machine: reconstructions, costs of the units, generative fields, units awake and asleep."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Images, Picture, Scatter
from chainrule.core.types import Array, Key
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.models.latent import latent_pictures
from chainrule.models.protocol import LatentUse

if TYPE_CHECKING:
    from chainrule.models.latent.helmholtz.model import Helmholtz

_SHOWN = 10
_FIELDS = 100
_JUDGED = 1000
_DREAMT = 2000


def all_of(model: "Helmholtz", data: Data, key: Key) -> Sequence[Picture]:
    """Every picture that suits the data."""
    part = data.val if len(data.val) else data.train
    x = jnp.asarray(part.batch(np.arange(min(_JUDGED, len(part)))).x)
    use = _use(model, Batch(x), key)
    found: list[Picture] = [latent_pictures.costs(use), awake_and_asleep(model, x, key)]
    if kinds.of(model.schema).shows_pixels(model.schema):
        shown = x[:_SHOWN]
        found = [
            latent_pictures.triptych(
                np.asarray(shown),
                np.asarray(_rebuilt(model, shown)),
                "From the probabilities of the first hidden layer. ",
            ),
            fields(model),
            *found,
        ]
    return found


@eqx.filter_jit
def _use(model: "Helmholtz", batch: Batch, key: Key) -> LatentUse:
    return model.latent_use(batch, key)


@eqx.filter_jit
def _rebuilt(model: "Helmholtz", x: Array) -> Array:
    return model.decode(model.encode(x))


@eqx.filter_jit
def _often(model: "Helmholtz", x: Array, key: Key) -> tuple[list[Array], list[Array]]:
    """How often each unit is one given data, and in dreams."""
    awake = model.recognition.draw(key, model.rows(x))
    return [layer.mean(axis=0) for layer in awake], [
        layer.mean(axis=0) for layer in model.generative.dream(key, _DREAMT)[1]
    ]


def fields(model: "Helmholtz") -> Images:
    """What every unit of the first hidden layer adds to the logits of the pixels: grey is nothing."""
    weights = np.asarray(model.generative.layers[0].weight)
    order = np.argsort(-np.linalg.norm(weights, axis=1))[:_FIELDS]
    reach = float(np.quantile(np.abs(weights), 0.995)) or 1.0
    shades = np.clip(0.5 + weights[order] / (2 * reach), 0, 1)
    return Images(
        "fields",
        "What every unit of the first hidden layer draws",
        shades.reshape(len(order), *model.schema.shape),
        caption=f"Generative weights, strongest units first: light pixels are made likelier by a unit, dark ones less "
        f"likely, grey ones are left alone; white is {reach:.2g}.",
    )


def awake_and_asleep(model: "Helmholtz", x: Array, key: Key) -> Scatter:
    """How often each unit is one when it is recognised in the data, and when it is dreamt."""
    awake, asleep = _often(model, x, key)
    groups = {
        f"layer {number + 1}": np.stack([np.asarray(a), np.asarray(b)], axis=1)
        for number, (a, b) in enumerate(zip(awake, asleep, strict=True))
    }
    apart = np.abs(np.concatenate([points[:, 0] - points[:, 1] for points in groups.values()]))
    return Scatter(
        "awake-and-asleep",
        "Hidden units awake and asleep",
        "share of the held-out examples in which a unit is one",
        "share of the dreams",
        groups,
        caption=f"On the diagonal the machine dreams of what it sees; units are {apart.mean():.2g} apart on average.",
    )


__all__ = ["all_of", "awake_and_asleep", "fields"]
