"""Pictures of segmentation: masks over images beside what is there, overlap by class, the worst images, refinement."""

from collections.abc import Sequence

import numpy as np

from chainrule.core.palette import SPOKEN
from chainrule.core.pictures import Bars, Images
from chainrule.data import targets
from chainrule.data.schema import Schema
from chainrule.data.targets.mask import IGNORE
from chainrule.nn.segmentation import MaskAgreement

SHOWN = 6
_ROW = 4
_WRONG = np.array([0.85, 0.1, 0.1])


def overlays(schema: Schema, images: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Images in [0, 1] with the colours of the classes mixed into their pixels."""
    return targets.of(schema).marked(schema, images, masks).images


def legend(classes: Sequence[str]) -> str:
    """Which colour each class has.

    >>> legend(["ground", "sea", "wood"])
    'sea: blue, wood: orange; ground, the first class, has none.'
    """
    said = [f"{name}: {colour}" for name, colour in zip(classes[1:], SPOKEN, strict=False)]
    more = ", then the same colours again" if len(classes) - 1 > len(SPOKEN) else ""
    return f"{', '.join(said)}{more}; {classes[0]}, the first class, has none."


def beside_truth(
    schema: Schema,
    images: np.ndarray,
    predicted: np.ndarray,
    true: np.ndarray,
    *,
    name: str = "masks",
    title: str = "Masks beside what is there",
    labels: Sequence[str] = (),
) -> Images:
    """A row for each image in [0, 1]: itself, what is there, what is predicted, and where these differ."""
    colours = np.broadcast_to(images, (*images.shape[:3], 3))
    wrong = (predicted != true) & (true != IGNORE)
    grey = np.repeat(colours.mean(axis=-1, keepdims=True), 3, axis=-1) * 0.6 + 0.4
    errors = np.where(wrong[..., None], _WRONG, grey)
    columns = [colours, overlays(schema, images, true), overlays(schema, images, predicted), errors]
    words = labels or [""] * len(images)
    share = wrong.sum(axis=(1, 2)) / np.maximum((true != IGNORE).sum(axis=(1, 2)), 1)
    said = [
        text
        for label, part in zip(words, share, strict=True)
        for text in (label, "truth", "predicted", f"{part:.1%} wrong")
    ]
    return Images(
        name,
        title,
        np.stack(columns, axis=1).reshape(-1, *colours.shape[1:]),
        said,
        _ROW,
        f"{legend(schema.classes)} Red: pixels of the wrong class.",
        aligned=True,
    )


def overlap_bars(found: MaskAgreement, classes: Sequence[str]) -> Bars:
    """Intersection over union of each class, and how well its edges are met."""
    there = np.flatnonzero(found.there)
    absent = [name for number, name in enumerate(classes) if number not in there]
    without = f" There is no pixel of {', '.join(absent)}." if absent else ""
    mean = f"{found.iou[there].mean():.3f}" if len(there) else "not defined"
    return Bars(
        *("iou", "How far each class is found", "", "share"),
        [classes[k] for k in there.tolist()],
        {
            "overlap (IoU)": found.iou[there],
            "edges (F)": np.nan_to_num(found.boundary_f[there]),
        },
        caption=f"Mean intersection over union {mean}.{without}",
    )


def worst(
    schema: Schema, images: np.ndarray, predicted: np.ndarray, true: np.ndarray, losses: np.ndarray
) -> Images:
    """The images with the highest loss."""
    order = np.argsort(-losses, kind="stable")[:SHOWN]
    return beside_truth(
        schema,
        *(images[order], predicted[order], true[order]),
        name="worst-losses",
        title="Images with the highest loss",
        labels=[f"loss {losses[one]:.2f}" for one in order],
    )


__all__ = ["SHOWN", "beside_truth", "legend", "overlap_bars", "overlays", "worst"]
