"""Channels of a convolutional network: the patches that excite them most, and the pixels responsible.

Zeiler and Fergus, *Visualizing and understanding convolutional networks*, ECCV 2014 (arXiv:1311.2901).
"""

from typing import Annotated, Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Images
from chainrule.core.types import Array
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.feature_maps import feature_maps, layer_number
from chainrule.explain.methods.image_tiles import as_tile, enlarged
from chainrule.explain.methods.projections import (
    RULES,
    Excited,
    most_excited,
    project,
    receptive_fields,
    seen_patch,
    strongest,
)
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import CanPredict, Model
from chainrule.nn.summary.dependence import MovingInterval
from chainrule.train import Run


@final
class FeaturesSettings(Settings):
    """What is shown."""

    layers: tuple[int, ...] = Field(
        (),
        description="which rectified layers, counted from 0, negative from the last; empty: four from first to last",
    )
    units: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (), description="which channels of each layer, by number; empty: the most active ones"
    )
    channels: int = Field(8, ge=1, description="how many of the most active channels of each layer")
    examples: int = Field(300, ge=1, description="training images to choose from")
    best: int = Field(1, ge=1, description="images per channel that are shown whole with their projections")
    patches: int = Field(
        9, ge=0, description="patches per channel: what the unit saw in the images that excite it most"
    )


class _Layer(NamedTuple):
    """One rectified layer on the images."""

    number: int
    maps: Array
    field: tuple[MovingInterval, MovingInterval]


def examine(run: Run, data: Data, settings: FeaturesSettings) -> Outcome:
    """For some channels of some layers: the most exciting patches, and projections of the best by three rules."""
    x = jnp.asarray(data.train.batch(np.arange(min(settings.examples, len(data.train)))).x)
    network = _network(run.model)
    maps = eqx.filter_jit(lambda x: feature_maps(network, x))(x)
    fields = receptive_fields(network, run.schema.shape)
    layers = [layer_number("layers", layer, len(maps)) for layer in settings.layers] or sorted(
        set(np.linspace(0, len(maps) - 1, 4).round().astype(int).tolist())
    )
    shown = [_Layer(layer, maps[layer], fields[layer]) for layer in layers]
    dead = [float((m.max(axis=(0, 1, 2)) <= 0).mean()) for m in maps]
    seen = [" x ".join("all" if s.whole else str(s.width) for s in field) for field in fields]
    found = {layer.number: _exciting(layer, settings) for layer in shown}
    return Outcome(
        [
            f"{len(maps)} rectified layers with {', '.join(str(m.shape[-1]) for m in maps)} channels; channels that no "
            f"image excites: {', '.join(f'{share:.0%}' for share in dead)}.",
            f"Pixels that a unit of each sees: {', '.join(seen)}.",
        ],
        [
            *_filters(run.model),
            *(_sheet(network, x, layer, found[layer.number], settings) for layer in shown),
        ],
        None,
        {
            "silent channels": dead,
            "receptive fields": [[None if s.whole else s.width for s in field] for field in fields],
            "exciting": {
                str(layer): {
                    str(channel): [one._asdict() for one in best] for channel, best in channels.items()
                }
                for layer, channels in found.items()
            },
        },
    )


def _exciting(layer: _Layer, settings: FeaturesSettings) -> dict[int, list[Excited]]:
    """By channel the images that excite it most, each at its most active position."""
    maps = np.asarray(layer.maps)
    peaks = maps.max(axis=(1, 2))
    for unit in settings.units:
        if unit >= maps.shape[-1]:
            raise ArgumentError(
                f"units={unit}: layer {layer.number} has {maps.shape[-1]} channels",
                remedy=f"choose 0 to {maps.shape[-1] - 1}, or other layers=",
            )
    channels = settings.units or np.argsort(-peaks.mean(axis=0), kind="stable")[: settings.channels].tolist()
    count = max(settings.best, settings.patches)
    return {channel: most_excited(maps, channel, count) for channel in channels}


def _network(model: Any) -> Any:
    return lambda x: model.predict(x)


def _sheet(
    network: Any, x: Array, layer: _Layer, found: dict[int, list[Excited]], settings: FeaturesSettings
) -> Images:
    """Rows: a channel; columns: its best images, each with its projections, then the patches."""
    views = eqx.filter_jit(
        lambda x, channel: [
            project(
                network,
                layer.number,
                x,
                strongest(feature_maps(network, x)[layer.number], channel)[1],
                rule=rule,
            )
            for rule in RULES
        ]
    )
    size = x.shape[1:3]
    tiles, labels = [], []
    for number, (channel, excited) in enumerate(found.items()):
        best = np.array([one.image for one in excited[: settings.best]])
        columns = [np.asarray(x[best]), *(np.asarray(v) for v in views(x[best], jnp.asarray(channel)))]
        names = ["deconv" if rule == "deconvolution" else rule for rule in RULES]
        for i, one in enumerate(excited[: settings.best]):
            tiles.append(as_tile(columns[0][i], signed=False))
            for view in columns[1:]:  # nothing lies beyond what the unit sees
                seen = seen_patch(as_tile(view[i], signed=True), layer.field, one.row, one.column)
                tiles.append(enlarged(seen, size))
            labels += ["" if i else f"unit {channel}", *("" if number else name for name in names)]
        for rank, one in enumerate(excited[: settings.patches], start=1):
            seen = seen_patch(
                as_tile(np.asarray(x[one.image]), signed=False), layer.field, one.row, one.column
            )
            tiles.append(enlarged(seen, size))
            labels.append("" if number else f"patch {rank}")
    width = " x ".join("all" if s.whole else str(s.width) for s in layer.field)
    count = len(next(iter(found.values()))[: settings.patches])
    return Images(
        f"features-{layer.number}",
        f"What excites channels of layer {layer.number}: image, {', '.join(RULES)}, patches",
        np.stack(tiles),
        labels,
        columns=len(tiles) // len(found),
        aligned=True,
        caption=f"A row is a channel: {'the' if settings.best == 1 else f'each of {settings.best}'} training "
        f"{'image that excites' if settings.best == 1 else 'images that excite'} it most, and what the unit sees of "
        f"its projections by {', '.join(RULES)} (grey is nothing); then the {count} patches of {len(x)} images that "
        f"excite it most, one of an image: what the unit sees of it ({width} pixels, enlarged; grey lies beyond the "
        "edge).",
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
    "The patches that excite each channel most, and what in them does it: gradient, deconvolution, guided.",
    "a network of images with rectifiers on feature maps",
    _applies,
    examine,
    FeaturesSettings,
    toy={"channels": 2, "examples": 10, "patches": 2},
)

__all__ = ["FeaturesSettings", "examine", "probe"]
