"""Masks of held-out images: how far each class is found, what it is taken for, and where edges are missed."""

from typing import final

import equinox as eqx
import jax
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Heatmap, Table
from chainrule.core.types import Array
from chainrule.data import targets
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.kinds.image import unit_images
from chainrule.data.schema import Schema
from chainrule.data.splits import Split, Subset
from chainrule.data.targets.mask import IGNORE
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import CanPredict, Model
from chainrule.networks.pictures import segmentations
from chainrule.nn.segmentation import MaskAgreement, agreement, tolerance
from chainrule.train import Run
from chainrule.train.evaluation import over
from chainrule.train.scores.segmentation import predicted_masks
from chainrule.train.scoring import Evaluation


@final
class MaskSettings(Settings):
    """What is looked at."""

    examples: int = Field(200, ge=1, description="held-out images")
    shown: int = Field(6, ge=1, le=50, description="images that are drawn, and as many of the worst")


def examine(run: Run, data: Data, settings: MaskSettings) -> Outcome:
    """Overlap and edges by class, what each is taken for, masks over images, the images of the highest loss."""
    held_out, said = data.held_out()
    part = held_out if len(held_out) <= settings.examples else Subset.drawn(held_out, settings.examples)
    y, classes = np.asarray(part.y), run.schema.classes
    key = random.key(0, "score")
    masks = predicted_masks(Evaluation(run.model, data, part, len(part), key))
    losses = losses_of(run.model, part)
    found = agreement(masks, y, len(classes), ignore=IGNORE)
    order = np.argsort(-losses, kind="stable")[: settings.shown]
    first = np.arange(min(len(part), settings.shown))
    images = [unit_images(run.schema, data.inverse(part.batch(rows).x)) for rows in (first, order)]
    there = np.flatnonzero(found.there).tolist()
    rows: list[list[str | float | int]] = [
        [
            classes[k],
            int(found.confusion[k].sum()),
            float(found.iou[k]),
            float(found.dice[k]),
            float(found.boundary_f[k]) if np.isfinite(found.boundary_f[k]) else "",
        ]
        for k in there
    ]
    return Outcome(
        [*_findings(found, classes, there, len(part)), *said],
        [
            segmentations.beside_truth(run.schema, images[0], masks[first], y[first]),
            segmentations.overlap_bars(found, classes),
            _confusion(found, classes, there),
            segmentations.worst(run.schema, images[1], masks[order], y[order], losses[order]),
        ],
        Table(
            "masks-table",
            "Overlap by class",
            ["class", "pixels", "intersection over union", "Dice", "edges (F)"],
            rows,
            f"Edges may be off by {tolerance(y.shape[1:])} pixels.",
        ),
        {
            "miou": float(found.iou[there].mean()) if there else 0.0,
            "pixel_accuracy": found.accuracy,
            "iou": {classes[k]: float(found.iou[k]) for k in there},
            "confusion": found.confusion.tolist(),
            "losses": losses.tolist(),
        },
    )


def losses_of(model: Model, part: Split) -> np.ndarray:
    """The loss of each example by itself."""
    return np.asarray(over("losses", _loss_each, model, part, random.key(0, "evaluate")))


def _loss_each(model: Model, batch: Batch, key: Array) -> Array:
    still = eqx.nn.inference_mode(model)
    return jax.lax.map(lambda one: still.loss(Batch(one[0][None], one[1][None]), key)[0], (batch.x, batch.y))


def _findings(found: MaskAgreement, classes: tuple[str, ...], there: list[int], count: int) -> list[str]:
    if not there:
        return [f"No pixel of the {count:,} held-out images counts."]
    worst = min(there, key=lambda k: found.iou[k])
    off = found.confusion[worst].copy()
    off[worst] = 0
    sentences = [
        f"On {count:,} held-out images the mean intersection over union is {found.iou[there].mean():.3f}; "
        f"{found.accuracy:.1%} of the pixels are right.",
        f"{classes[worst]} is found worst, with {found.iou[worst]:.3f}"
        + (f"; what is missed of it is taken for {classes[int(off.argmax())]} most." if off.any() else "."),
    ]
    absent = [name for number, name in enumerate(classes) if number not in there]
    return [*sentences, f"Without a pixel, and left out: {', '.join(absent)}."] if absent else sentences


def _confusion(found: MaskAgreement, classes: tuple[str, ...], there: list[int]) -> Heatmap:
    rows = found.confusion[there].astype(np.float64)
    return Heatmap(
        *("mask-confusion", "What the pixels of each class are taken for", "predicted", "true"),
        rows / np.maximum(rows.sum(axis=1, keepdims=True), 1),
        [classes[k] for k in there],
        list(classes),
        numbers=len(classes) <= 12,
        caption="Shares of the true pixels of each class.",
    )


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, CanPredict) and targets.of(schema).has_mask


probe = Probe(
    "Masks beside what is there, overlap by class, what classes are taken for, the worst images.",
    "a model that gives each pixel a class",
    _applies,
    examine,
    MaskSettings,
    toy={"examples": 8, "shown": 2},
)

__all__ = ["MaskSettings", "examine", "losses_of", "probe"]
