"""An atlas of the units of one layer: the image that excites each most, real patches that do, and what in them does it.

Optimised images as in Olah et al., *Feature visualization*, 2017 (doi:10.23915/distill.00007), for the unit at the
middle position of its channel; patches and projections as in Zeiler and Fergus, 2014 (arXiv:1311.2901).
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Images, Table
from chainrule.core.types import Array
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.activation_maximisation import Ascent, dreamer
from chainrule.explain.methods.feature_maps import climbable, feature_maps, layer_number, layer_of
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
from chainrule.models.protocol import HasLogits, Model
from chainrule.train import Run


@final
class UnitsSettings(Settings):
    """Which units, and how they are shown."""

    layer: int | str = Field(
        -1,
        union_mode="left_to_right",  # a command line has numbers as text
        description="rectified layer, counted from 0 (negative: from the last), or the name of the module before it",
    )
    units: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (), description="channels by number; empty: the most active ones"
    )
    count: int = Field(8, ge=1, description="how many of the most active channels")
    examples: int = Field(500, ge=2, description="training images to choose patches from")
    patches: int = Field(4, ge=1, description="patches for each unit")
    steps: int = Field(512, ge=1, description="steps of Adam for the optimised image")
    seed: int = Field(0, ge=0, description="of its random start")


def examine(run: Run, data: Data, settings: UnitsSettings) -> Outcome:
    """One row for each unit: optimised image, best training image with its projections, patches."""
    model: Any = run.model  # a network with logits and rectified feature maps, see `_applies`
    x = jnp.asarray(data.train.batch(np.arange(min(settings.examples, len(data.train)))).x)
    number, name = _layer(model, x, settings.layer)
    maps = np.asarray(_maps(model, x, number))
    units = _units(maps, number, settings)
    field = receptive_fields(model.logits, run.schema.shape)[number]
    found = {unit: most_excited(maps, unit, settings.patches) for unit in units}
    jitter = max(1, min(run.schema.shape[:2]) // 8)
    dream = dreamer(
        lambda model, x: _middle(climbable(model.logits, number)(x)),
        *(x, np.array(units), Ascent(steps=settings.steps, jitter=jitter), 1, settings.seed),
    )
    dreams = dream(model)[0]
    reached = np.asarray(_middle(_maps(model, jnp.asarray(dreams), number)))
    peaks = {unit: float(reached[i, unit]) for i, unit in enumerate(units)}
    seen = " x ".join("all" if span.whole else str(span.width) for span in field)
    classes = _classes(data, found)
    dead = float((maps.max(axis=(0, 1, 2)) <= 0).mean())
    return Outcome(
        [
            f"Layer {number}{f' ({name})' if name else ''}: {maps.shape[-1]} units at {maps.shape[1]} x "
            f"{maps.shape[2]} positions, each sees {seen} pixels; no image excites {dead:.0%} of them.",
            f"Optimised images excite the middle unit of a channel {_times(peaks, found)} times as much (median) as "
            f"the best of {len(x)} training images excites any unit of it.",
        ],
        [_sheet(model, x, number, field, found, dreams, peaks)],
        _table(found, peaks, classes),
        {
            "layer": number,
            "units": units,
            "exciting": {str(unit): [one._asdict() for one in best] for unit, best in found.items()},
            "reached": {str(unit): peak for unit, peak in peaks.items()},
            "silent share": dead,
        },
    )


def _layer(model: HasLogits, x: Array, layer: int | str) -> tuple[int, str]:
    """The number of the layer, and its name where it was asked for by one."""
    if isinstance(layer, str):
        return layer_of(model, x, layer), layer
    count = len(jax.eval_shape(lambda x: feature_maps(model.logits, x), x))
    return layer_number("layer", layer, count), ""


@eqx.filter_jit
def _maps(model: HasLogits, x: Array, layer: int) -> Array:
    return feature_maps(model.logits, x)[layer]


def _middle(maps: Array) -> Array:
    """The units at the middle position."""
    return maps[:, maps.shape[1] // 2, maps.shape[2] // 2]


def _units(maps: np.ndarray, layer: int, settings: UnitsSettings) -> list[int]:
    channels = maps.shape[-1]
    for unit in settings.units:
        if unit >= channels:
            raise ArgumentError(
                f"units={unit}: layer {layer} has {channels} channels", remedy=f"choose 0 to {channels - 1}"
            )
    active = np.argsort(-maps.max(axis=(1, 2)).mean(axis=0), kind="stable")[: settings.count]
    return list(settings.units) or [int(unit) for unit in active]


def _times(peaks: Mapping[int, float], found: Mapping[int, Sequence[Excited]]) -> str:
    """How much more than the best image; units that no image excites are left out."""
    ratios = [peaks[unit] / best[0].activity for unit, best in found.items() if best[0].activity > 0]
    return f"{np.median(ratios):.2g}" if ratios else "no"


def _classes(data: Data, found: Mapping[int, Sequence[Excited]]) -> dict[int, str]:
    """For each unit the classes of the images that excite it most, in their order; empty where there are none."""
    if not data.schema.classes:
        return {}
    rows = np.unique([one.image for best in found.values() for one in best])
    y = np.asarray(data.train.batch(rows).y)
    if y.ndim != 1:
        return {}
    name = {int(row): data.schema.classes[int(label)] for row, label in zip(rows, y, strict=True)}
    return {unit: ", ".join(name[one.image] for one in best) for unit, best in found.items()}


def _sheet(
    model: Any,
    x: Array,
    layer: int,
    field: Any,
    found: Mapping[int, Sequence[Excited]],
    dreams: np.ndarray,
    peaks: Mapping[int, float],
) -> Images:
    views = eqx.filter_jit(
        lambda model, x, unit: [
            project(
                model.logits, layer, x, strongest(feature_maps(model.logits, x)[layer], unit)[1], rule=rule
            )
            for rule in RULES
        ]
    )
    size = x.shape[1:3]
    low, high = (np.asarray(limit(x, axis=(0, 1, 2))) for limit in (jnp.min, jnp.max))
    shown = np.clip((dreams - low) / np.where(high > low, high - low, 1), 0, 1)
    tiles, labels = [], []
    for i, (unit, best) in enumerate(found.items()):
        top = best[0]
        image = np.asarray(x[top.image])
        tiles += [as_tile(shown[i], signed=False), as_tile(image, signed=False)]
        labels += [f"unit {unit}: {peaks[unit]:.2g}", f"{top.activity:.2g}"]
        for rule, view in zip(RULES, views(model, x[top.image][None], jnp.asarray(unit)), strict=True):
            own = seen_patch(as_tile(np.asarray(view[0]), signed=True), field, top.row, top.column)
            tiles.append(enlarged(own, size))
            labels.append("" if i else "deconv" if rule == "deconvolution" else rule)
        for rank, one in enumerate(best, start=1):
            whole = as_tile(np.asarray(x[one.image]), signed=False)
            tiles.append(enlarged(seen_patch(whole, field, one.row, one.column), size))
            labels.append("" if i else f"patch {rank}")
    return Images(
        "units",
        f"Units of layer {layer}: what excites them, and what in it does",
        np.stack(tiles),
        labels,
        columns=len(tiles) // len(found),
        aligned=True,
        caption="A row is a channel. First the image that was optimised for its middle unit, then the training image "
        "that excites it most, each with the activity reached; what the unit sees of this image's projections by "
        f"{', '.join(RULES)} (grey is nothing); last the patches of the images that excite it most, exactly what the "
        "unit sees of each, enlarged.",
    )


def _table(
    found: Mapping[int, Sequence[Excited]], peaks: Mapping[int, float], classes: Mapping[int, str]
) -> Table:
    rows: list[list[str | float | int]] = [
        [unit, peaks[unit], best[0].activity, *([classes[unit]] if classes else [])]
        for unit, best in found.items()
    ]
    return Table(
        "units-table",
        "Units",
        [
            "unit",
            "optimised image",
            "best training image",
            *(["classes of the best images"] if classes else []),
        ],
        rows,
        caption="Activity of the middle unit for the optimised image, of the most active one for the training image.",
    )


def _applies(model: Model, schema: Schema) -> bool:
    if not isinstance(model, HasLogits) or not kinds.of(schema).spatial:
        return False
    blank = jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32)
    return bool(jax.eval_shape(lambda x: feature_maps(model.logits, x), blank))


probe = Probe(
    "An atlas of the units of a layer: optimised image, best patches, and projections by three rules.",
    "a network of images with logits and rectifiers on feature maps",
    _applies,
    examine,
    UnitsSettings,
    toy={"count": 2, "examples": 10, "patches": 2, "steps": 2},
)

__all__ = ["UnitsSettings", "examine", "probe"]
