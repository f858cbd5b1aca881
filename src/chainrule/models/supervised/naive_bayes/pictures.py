"""Pictures of naive Bayes: the expected image of every class, and what speaks most for each."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Images, Picture, Table
from chainrule.data import kinds

if TYPE_CHECKING:
    from chainrule.models.supervised.naive_bayes.model import NaiveBayes

_CLASSES = 40
_TELLING = 8


def all_of(model: "NaiveBayes") -> Sequence[Picture]:
    """What these data can show."""
    schema = model.schema
    if kinds.of(schema).shows_pixels(schema):
        levels = jnp.linspace(0, 1, schema.levels)
        expected = np.asarray(jnp.exp(model.entries.log_probs()) @ levels)[:_CLASSES]
        images = np.clip(expected.reshape(-1, *schema.shape), 0, 1)
        caption = "The expected level of every pixel: given the class, that is all the model knows of it."
        return [
            Images(
                "expected",
                "The expected image of every class",
                images,
                schema.classes[:_CLASSES],
                10,
                caption,
            )
        ]
    return [_telling(model)]


def _telling(model: "NaiveBayes") -> Table:
    seen = model.entries.telling()
    names = [name for name, _ in seen]
    nats = np.stack([values for _, values in seen], axis=1)
    rows = []
    for k, name in enumerate(model.schema.classes[:_CLASSES]):
        best = np.argsort(-nats[k], kind="stable")[:_TELLING]
        rows.append([name, "   ".join(f"{names[i]} {nats[k, i]:+.2f}" for i in best)])
    return Table(
        "telling",
        "What speaks most for each class",
        ["class", "seen, and how many nats it adds for this class against the mean of the others"],
        rows,
    )


__all__ = ["all_of"]
