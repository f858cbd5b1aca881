"""Proposals of a two-stage detector: its anchors, the first regions it looks at, and how many objects they cover."""

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Images, Mark
from chainrule.data.dataset import Data
from chainrule.data.kinds.image import unit_images
from chainrule.data.schema import Schema
from chainrule.data.targets.boxes import marks_of
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasProposals, Model
from chainrule.networks.pictures import detections
from chainrule.train import Run

_BATCH = 16


@final
class ProposalSettings(Settings):
    """Which images and regions are looked at."""

    examples: int = Field(128, ge=1, description="held-out images")
    shown: int = Field(8, ge=1, le=100, description="images that are drawn")
    first: int = Field(8, ge=1, description="proposals that are drawn in each")


def examine(run: Run, data: Data, settings: ProposalSettings) -> Outcome:
    """The anchors of the middle cell, if any, the first proposals of some images, and recall against their number."""
    model: Any = run.model  # has proposals, see `_applies`
    part, said = data.held_out()
    count = min(settings.examples, len(part))
    batch = part.batch(np.arange(count))
    x, y = np.asarray(batch.x), np.asarray(batch.y)
    propose = eqx.filter_jit(lambda model, x: model.proposals(x))
    size = min(_BATCH, count)
    rows = np.resize(np.arange(count), -(-count // size) * size).reshape(-1, size)
    found = np.concatenate([np.asarray(propose(model, jnp.asarray(x[row]))) for row in rows])[:count]
    curve = detections.proposal_recall(found, y)
    images = unit_images(run.schema, data.inverse(x[: settings.shown]))
    last = {name: float(values[1][-1]) for name, values in curve.series.items()}
    many = int((found[..., 4] > 0).sum(axis=1).mean())
    return Outcome(
        [
            f"About {many} proposals of an image cover {last['IoU 0.5']:.0%} of the objects with an IoU of 0.5, "
            f"{last['IoU 0.7']:.0%} with one of 0.7.",
            *said,
        ],
        [
            curve,
            Images(
                *("first-proposals", f"The first {settings.first} proposals", images, (), 4),
                caption="Dashed: what is there. Whole lines: what is looked at first.",
                marks=[
                    [
                        *marks_of(true, run.schema.classes, dashed=True, named=False),
                        *_first(own, settings.first),
                    ]
                    for own, true in zip(found, y[: settings.shown], strict=False)
                ],
            ),
            *([_drawn_anchors(model, images[:1])] if len(model.anchors()) else []),
        ],
        None,
        {"recall": last, "proposals": many, "anchors": len(model.anchors())},
    )


def _first(proposals: np.ndarray, count: int) -> list[Mark]:
    x = [(row[:4], row[4]) for row in proposals[:count] if row[4] > 0]
    return [Mark(tuple(map(float, box)), f"{score:.2f}", 9) for box, score in x]  # type: ignore[arg-type]


def _drawn_anchors(model: HasProposals, image: np.ndarray) -> Images:
    """Those of the cell nearest to the middle of the image."""
    laid, each = model.anchors().reshape(-1, model.anchors_of_a_cell(), 4), model.anchors_of_a_cell()
    centre = (laid[:, 0, :2] + laid[:, 0, 2:]) / 2
    middle = np.array([image.shape[2], image.shape[1]]) / 2
    cell = int(((centre - middle) ** 2).sum(axis=1).argmin())
    marks = [Mark(tuple(map(float, box)), "", number) for number, box in enumerate(laid[cell])]  # type: ignore[arg-type]
    return Images(
        *("anchors", f"The {each} anchors of one cell", image, (), 1),
        caption=f"There are {len(laid):,} cells; what a region is, is said relative to one of these boxes.",
        marks=[marks],
    )


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return isinstance(model, HasProposals)


probe = Probe(
    "Regions that a two-stage detector looks at: how many objects they cover, the first of them, the anchors.",
    "a model that proposes regions",
    _applies,
    examine,
    ProposalSettings,
    toy={"examples": 4, "shown": 2},
)

__all__ = ["ProposalSettings", "examine", "probe"]
