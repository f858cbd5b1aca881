"""Explanations laid over what they explain: texts and images under signed colours."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.colors import to_rgb

from chainrule.core.formatting import number
from chainrule.core.palette import LIGHT
from chainrule.core.pictures import Images, Passage
from chainrule.explain.methods.explanation_pictures import footnote, matrix, single
from chainrule.explain.methods.shapley.explanation import Explanation

_SIDE = 96
"""Pixels to which small images are enlarged."""
RAISES, LOWERS = np.array(to_rgb(LIGHT["1"])), np.array(to_rgb(LIGHT["2"]))
"""Colours of what raises an output, and of what lowers it."""


def text_highlight(
    found: Explanation, pieces: Sequence[str], *, title: str = "", unit: str = "nats"
) -> Passage:
    """A text whose pieces are coloured by their values; pieces beyond the values are not."""
    values = matrix(single(found))[0]
    padded = np.concatenate([values, np.full(max(len(pieces) - len(values), 0), np.nan)])[: len(pieces)]
    return Passage(
        "text",
        title or f"What each token adds to {found.output}",
        list(pieces),
        padded,
        unit=unit,
        signed=True,
        footnote=footnote(found),
    )


def image_overlay(
    explanations: Sequence[Explanation], images: Float[np.ndarray, "rows height width channels"]
) -> Images:
    """Images under the colours of their values: a row for each image, a column for each explained output.

    Colours are around zero and mean the same everywhere, so that outputs can be compared.
    """
    maps = [pixel_values(found) for found in explanations]
    largest = max((float(np.abs(one).max(initial=0.0)) for one in maps), default=0.0) or 1.0
    shown = np.clip(images if images.shape[-1] in (1, 3) else images.mean(axis=-1, keepdims=True), 0, 1)
    colour = np.repeat(shown, 3, axis=-1) if shown.shape[-1] == 1 else shown
    grey = 0.55 + 0.45 * colour.mean(axis=-1, keepdims=True)
    tiles, labels = [], []
    for row in range(len(images)):
        tiles.append(colour[row])
        labels.append("image")
        for found, values in zip(explanations, maps, strict=True):
            share = np.clip(values[row] / largest, -1, 1)[..., None]
            tone = np.where(share > 0, RAISES, LOWERS)
            tiles.append((1 - np.abs(share)) * grey[row] + np.abs(share) * tone)
            labels.append(f"{found.output}\n{number(float(found.outputs[row]), 3)}")
    return Images(
        "overlay",
        "What raises, what lowers",
        _enlarged(np.stack(tiles)),
        labels,
        columns=len(explanations) + 1,
        aligned=True,
        footnote=footnote(
            max(explanations, key=lambda one: float(np.abs(one.residual).max() / one.output_range))
        ),
        caption=f"Blue raises, orange lowers; full colour is {number(largest, 3)} in every image.",
    )


def _enlarged(images: np.ndarray) -> np.ndarray:
    """Small images with whole pixels as squares, so that single ones can be seen."""
    times = max(1, _SIDE // max(images.shape[1:3]))
    return images.repeat(times, axis=1).repeat(times, axis=2)


def pixel_values(found: Explanation) -> Float[np.ndarray, "rows height width"]:
    """What each pixel adds: the value of its patch shared evenly, or the sum of its channels."""
    batch = found.as_batch()
    if batch.membership is None:
        values = batch.values
        return np.asarray(values.sum(axis=-1) if values.ndim == 4 else values)
    owners = (
        np.broadcast_to(batch.membership, batch.x.shape)
        if batch.membership.ndim < batch.x.ndim
        else (batch.membership)
    )
    first = owners[..., 0]  # channels of a pixel belong together
    padded = np.concatenate([matrix(batch), np.zeros((len(batch), 1))], axis=1)  # -1 is the last: nobody's
    rows = np.arange(len(batch)).reshape(-1, 1, 1)
    return np.asarray(padded[rows, first])


__all__ = ["LOWERS", "RAISES", "image_overlay", "pixel_values", "text_highlight"]
