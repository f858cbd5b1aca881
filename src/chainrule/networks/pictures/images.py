"""Sheets of images in rows: samples that follow a control, and hidden patches with what fills them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool

from chainrule.core.pictures import Images


def controlled(name: str, x: Any, control: Any, drawn: Mapping[str, Any]) -> Images:
    """Examples, the controls taken from them, and samples, each kind in a row of its own."""
    x, shown = np.asarray(x), np.asarray(control)
    if shown.shape[-1] != x.shape[-1]:
        shown = np.repeat(shown.mean(-1, keepdims=True), x.shape[-1], axis=-1)
    rows = {"example": x, "control": shown, **drawn}
    return Images(
        name,
        "Samples that follow a picture",
        np.clip(np.concatenate([np.asarray(row) for row in rows.values()]), 0, 1),
        [label if i == 0 else "" for label, row in rows.items() for i in range(len(row))],
        len(x),
        "Held-out examples; what the branch is shown of them; samples of their class from the same noise.",
    )


def filled(x: Any, hidden: Bool[np.ndarray, "batch height width"], expected: Any, drawn: Any) -> Images:
    """Images, the same with patches hidden, with what is expected there, and with what is drawn there."""
    grey = np.where(hidden[..., None], 0.5, np.asarray(x))
    return Images(
        "filled-gaps",
        "Hidden patches and what fills them",
        np.clip(np.concatenate([np.asarray(row) for row in (x, grey, expected, drawn)]), 0, 1),
        columns=len(x),
        aligned=True,
        caption="Rows: images; the same with patches hidden, in grey; the mean of every hidden pixel; hidden patches "
        "drawn one after another.",
    )


__all__ = ["controlled", "filled"]
