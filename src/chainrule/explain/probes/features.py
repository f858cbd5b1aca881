"""Channels of a convolutional network: the images that excite them most, and the pixels responsible."""

from typing import Annotated, Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Images
from chainrule.core.types import Array
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.features import RULES, as_tile, feature_maps, project, strongest
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import CanPredict, Model
from chainrule.train import Run


@final
class FeaturesSettings(Settings):
    """What is shown."""

    layers: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (), description="which rectifiers, counted from 0; empty: four from first to last"
    )
    channels: int = Field(8, ge=1, description="channels of each layer, the most active ones")
    examples: int = Field(300, ge=1, description="training images to choose from")
    best: int = Field(3, ge=1, description="images per channel")


def examine(run: Run, data: Data, settings: FeaturesSettings) -> Outcome:
    """For some channels of some layers: the most exciting images, and their projections by three rules."""
    x = jnp.asarray(data.train.batch(np.arange(min(settings.examples, len(data.train)))).x)
    network = _network(run.model)
    maps = eqx.filter_jit(lambda x: feature_maps(network, x))(x)
    layers = settings.layers or tuple(
        sorted(set(np.linspace(0, len(maps) - 1, 4).round().astype(int).tolist()))
    )
    sheets = [_sheet(network, x, maps[layer], layer, settings) for layer in layers]
    dead = [float((m.max(axis=(0, 1, 2)) <= 0).mean()) for m in maps]
    return Outcome(
        [
            f"{len(maps)} rectified layers with {', '.join(str(m.shape[-1]) for m in maps)} channels; channels that no "
            f"image excites: {', '.join(f'{share:.0%}' for share in dead)}."
        ],
        [*_filters(run.model), *sheets],
        None,
        {"silent channels": dead},
    )


def _network(model: Any) -> Any:
    return lambda x: model.predict(x)


def _sheet(network: Any, x: Array, maps: Array, layer: int, settings: FeaturesSettings) -> Images:
    """Rows: a channel; columns: its best images, each with its projections."""
    peaks = np.asarray(maps.max(axis=(1, 2)))
    channels = np.argsort(-peaks.mean(axis=0), kind="stable")[: settings.channels]
    tiles, labels = [], []
    views = eqx.filter_jit(
        lambda x, channel: [
            project(network, layer, x, strongest(feature_maps(network, x)[layer], channel)[1], rule=rule)
            for rule in RULES
        ]
    )
    for channel in channels.tolist():
        best = np.argsort(-peaks[:, channel], kind="stable")[: settings.best]
        columns = [np.asarray(x[best]), *(np.asarray(v) for v in views(x[best], jnp.asarray(channel)))]
        for i in range(len(best)):
            tiles += [as_tile(column[i], signed=bool(k)) for k, column in enumerate(columns)]
            labels += [f"{channel}" if not i else "", *("" for _ in RULES)]
    return Images(
        f"features-{layer}",
        f"What excites channels of layer {layer}: image, {', '.join(RULES)}",
        np.stack(tiles),
        labels,
        columns=settings.best * (1 + len(RULES)),
        caption=f"A row is a channel (its number at the left): for the {settings.best} training images that excite it "
        f"most, the image and its projections by {', '.join(RULES)}.",
    )


def _filters(model: Model) -> list[Images]:
    """The kernels of the first convolution, if there is one that sees colours or grey."""
    leaves = [leaf for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)) if leaf.ndim == 4]
    if not leaves or leaves[0].shape[2] not in (1, 3) or max(leaves[0].shape[:2]) < 2:
        return []
    kernels = np.moveaxis(np.asarray(leaves[0]), -1, 0)
    tiles = np.stack([as_tile(kernel, signed=True) for kernel in kernels])
    return [Images("filters", "Kernels of the first convolution", tiles, columns=8, caption="Grey is zero.")]


def _applies(model: Model, schema: Schema) -> bool:
    if not isinstance(model, CanPredict) or not kinds.of(schema).spatial:
        return False
    blank = jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32)
    return bool(jax.eval_shape(lambda x: feature_maps(_network(model), x), blank))


probe = Probe(
    "The images that excite each channel most, and what in them does it.",
    "a network of images with rectifiers on feature maps",
    _applies,
    examine,
    FeaturesSettings,
    toy={"channels": 2, "examples": 10, "best": 1},
)

__all__ = ["FeaturesSettings", "examine", "probe"]
