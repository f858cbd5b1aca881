"""Saliency: how steeply an output changes with each input (Simonyan et al., 2014, arXiv:1312.6034).

Slopes say what a small change would do, not what made the output what it is: they are not meant to add up, and vanish
where a softmax is sure. Ask for logits.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Int
from chainrule.explain.methods.functions import Function
from chainrule.explain.methods.gradients.base import Output, ask, in_blocks, of_classes, slopes_of_block
from chainrule.explain.methods.gradients.occlusion import Scores
from chainrule.explain.methods.shapley.explanation import Explanation
from chainrule.train import Run


def saliency(
    f: Function | Run, x: Any, output: Output = None, *, features: Sequence[str] = ()
) -> Explanation:
    """The size of the slope of an output by each input.

    >>> saliency(lambda x: x[0] - 2 * x[1] ** 2, np.array([5.0, 3.0])).values
    array([ 1., 12.])
    """
    question = ask("saliency", f, x, output, features)
    found = in_blocks(
        lambda x, output: slopes_of_block(question.f, x, output),
        (question.x, question.outputs),
        question.rows_at_once(1),
    )
    return question.answer(
        np.abs(found.slopes),
        found.values,
        found.values,
        method="saliency",
        slopes=True,
        evaluations=len(question.x),
    )


def pixel_saliency(
    scores: Scores, x: Float[Array, "batch height width channels"], classes: Int[Array, " batch"]
) -> Float[Array, "batch height width"]:
    """How steeply the score of a class changes with each pixel: the largest size over its colours."""
    slope = jax.grad(lambda x: of_classes("saliency", scores(x), classes).sum())(x)
    return jnp.abs(slope).max(axis=-1)


__all__ = ["pixel_saliency", "saliency"]
