"""What a conditional random field makes of the masks of held-out images: before and after, by pixels and by pieces."""

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Images, Table
from chainrule.core.types import Array
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.kinds.image import unit_images
from chainrule.data.schema import Schema
from chainrule.data.splits import Subset
from chainrule.data.targets.mask import IGNORE
from chainrule.explain.protocol import Count, Outcome, Probe, Settings
from chainrule.models.protocol import CanPredict, CanRefine, Model, refining
from chainrule.networks.pictures import segmentations
from chainrule.nn.detection.superpixels import slic
from chainrule.nn.segmentation import DENSE, Potentials, agreement, crf, superpixel_crf, unary
from chainrule.train import Run
from chainrule.train.evaluation import over


@final
class RefinementSettings(Settings):
    """The potentials that are tried; those of the model unless given."""

    examples: int = Field(50, ge=1, description="held-out images")
    shown: int = Field(6, ge=1, le=50, description="images that are drawn: those that change most")
    iterations: Count = Field(10, description="of mean field")
    appearance: float | None = Field(
        None, ge=0, description="weight of pixels that are near and of one colour"
    )
    position: float | None = Field(None, gt=0, description="pixels these reach")
    colour: float | None = Field(None, gt=0, description="how much their colours, from 0 to 1, differ")
    smoothness: float | None = Field(
        None, ge=0, description="weight of pixels that are near, whatever their colours"
    )
    reach: float | None = Field(None, gt=0, description="pixels these reach")
    pieces: int = Field(200, ge=2, description="superpixels of an image; at most a quarter of its pixels")


def examine(run: Run, data: Data, settings: RefinementSettings) -> Outcome:
    """Overlap before and after, over pixels and over superpixels, and the images that change most."""
    held_out, said = data.held_out()
    part = held_out if len(held_out) <= settings.examples else Subset.drawn(held_out, settings.examples)
    model = run.model
    assert isinstance(model, CanRefine), "ask what applies first"
    given = {name: getattr(settings, name) for name in Potentials._fields}
    chosen = {name: value for name, value in given.items() if value is not None}
    potentials = model.potentials._replace(**chosen)
    x, y = (np.asarray(one) for one in part.batch(np.arange(len(part)))[:2])
    images = unit_images(run.schema, data.inverse(x))
    p = np.asarray(over("predictions", _predicted, refining(model, False), part, random.key(0, "score")))
    pixels = np.asarray(
        _refined(jnp.asarray(p), jnp.asarray(images, jnp.float32), potentials, settings.iterations)
    )
    count = min(settings.pieces, max(2, y[0].size // 4))
    energies = -np.log(np.maximum(p, 1e-6))
    over_pieces = np.stack(
        [
            superpixel_crf(e, image, slic(image, count), potentials, iterations=settings.iterations)
            for e, image in zip(energies, images, strict=True)
        ]
    )
    masks = {
        "before": p.argmax(axis=-1),
        "after, pixels": pixels.argmax(axis=-1),
        "after, superpixels": over_pieces.argmax(axis=-1),
    }
    classes = run.schema.classes
    found = {name: agreement(one, y, len(classes), ignore=IGNORE) for name, one in masks.items()}
    there = found["before"].there
    miou = {name: float(one.iou[there].mean()) if there.any() else 0.0 for name, one in found.items()}
    edges = {name: _mean(one.boundary_f) for name, one in found.items()}
    changed = (masks["before"] != masks["after, pixels"]).mean(axis=(1, 2))
    pairs = "every pair of pixels" if y[0].size <= DENSE else "pairs of pixels within a window"
    gain = miou["after, pixels"] - miou["before"]
    word = "raises" if gain > 0 else "lowers" if gain < 0 else "leaves"
    return Outcome(
        [
            f"Refinement {word} the mean intersection over union of {len(part):,} held-out images from "
            f"{miou['before']:.4f} to {miou['after, pixels']:.4f} ({pairs}); over {count} superpixels of each image it "
            f"is {miou['after, superpixels']:.4f}.",
            f"{changed.mean():.2%} of the pixels change their class.",
            *said,
        ],
        [_before_after(run.schema, images, masks, y, np.argsort(-changed, kind="stable")[: settings.shown])],
        Table(
            "refinement-table",
            "Before and after",
            ["masks", "mean intersection over union", "pixels right", "edges (F)"],
            [[name, miou[name], found[name].accuracy, edges[name]] for name in masks],
            ", ".join(f"{name} {value:g}" for name, value in potentials._asdict().items()) + ".",
        ),
        {
            "miou": miou,
            "boundary_f": edges,
            "changed": float(changed.mean()),
            "potentials": potentials._asdict(),
        },
    )


def _before_after(
    schema: Schema, images: np.ndarray, masks: dict[str, np.ndarray], y: np.ndarray, rows: np.ndarray
) -> Images:
    every = [y, *masks.values()]
    sheets = [segmentations.overlays(schema, images[rows], one[rows]) for one in every]
    columns = [np.broadcast_to(images[rows], sheets[0].shape), *sheets]
    labels = ["image", "truth", *masks] * len(rows)
    return Images(
        "refinement",
        "Before and after refinement",
        np.stack(columns, axis=1).reshape(-1, *sheets[0].shape[1:]),
        labels,
        len(columns),
        f"The images that change most, a row for each. {segmentations.legend(schema.classes)}",
        aligned=True,
    )


def _mean(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else 0.0


def _predicted(model: CanPredict, batch: Batch, key: Any) -> Array:
    del key
    return model.predict(batch.x)


def _refined(p: Array, images: Array, potentials: Potentials, iterations: int) -> Array:
    """One image at a time: the pairs of one fill the memory."""

    def one(pair: tuple[Array, Array]) -> Array:
        return crf(unary(pair[0]), pair[1], potentials, iterations=iterations)

    found: Array = jax.jit(lambda pairs: jax.lax.map(one, pairs))((p, images))
    return found


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return isinstance(model, CanRefine)


probe = Probe(
    "Masks before and after a conditional random field, over pixels and over superpixels.",
    "a model that gives each pixel a class",
    _applies,
    examine,
    RefinementSettings,
    toy={"examples": 2, "shown": 1, "iterations": 2, "pieces": 16},
)

__all__ = ["RefinementSettings", "examine", "probe"]
