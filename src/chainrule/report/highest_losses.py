"""The images with the highest loss of a run that predicts labels, values or votes."""

import numpy as np

from chainrule.core.formatting import number
from chainrule.core.pictures import Images
from chainrule.data import targets
from chainrule.data.kinds.image import unit_images
from chainrule.data.targets.labels import THRESHOLD
from chainrule.report import predictions
from chainrule.train import Run


def highest_losses(run: Run, x: np.ndarray, y: np.ndarray, answer: np.ndarray, losses: np.ndarray) -> Images:
    """The images with the highest loss, with what is true of them and what is said."""
    schema, target, back = run.schema, targets.of(run.schema), run.target_scaling
    order = np.argsort(-losses, kind="stable")[: predictions.WORST_IMAGES]
    if target.has_values:
        true, said = (
            [number(float(value), 3) for value in (one if back is None else back.inverse(one))]
            if one.ndim == 1
            else []
            for one in (y[order].astype(np.float64), answer[order].astype(np.float64))
        )
    elif target.has_labels:
        true, said = (target.captions(schema, one) for one in (y[order], answer[order] >= THRESHOLD))
    else:
        true, said = (target.captions(schema, one) for one in (y[order], answer[order]))
    images = unit_images(schema, run.data.inverse(x[order]))
    return predictions.highest_losses(images, losses[order], true, said)


__all__ = ["highest_losses"]
