"""A transformer made by hand that copies by induction, so that tests know what every head does.

Vectors have three parts: the token, its position, and the token before, which the first layer's first head fills in
(it attends one position back). The second layer's first head looks for positions whose token before is the present
token: its queries are tokens, its keys tokens before, its values tokens, so that it gathers what followed last time.
The other heads and the MLPs add nothing.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule import models
from chainrule.data.schema import Schema

TOKENS, LENGTH = 8, 16
"""Different tokens, and the most that are read."""
SCHEMA = Schema("text", (LENGTH + 1,), tokens=tuple("abcdefgh"))
_SHARP = 60.0
"""Attention scores of what is looked for."""


def induction_model(**settings: Any) -> Any:
    """The model; its layer 1, head 1 looks at the token before, its layer 2, head 1 copies by induction."""
    width, size = 2 * TOKENS + LENGTH, LENGTH
    token, position, before = np.split(np.eye(width, dtype=np.float32), [TOKENS, TOKENS + LENGTH])
    style = {"positions": "learned", "norm": "rms", "activation": "relu", "bias": False, "tie": False}
    model: Any = models.build(
        "gpt", SCHEMA, **{**style, "layers": 2, "heads": 2, "width": width, "hidden": 4, **settings}
    )

    def inward(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
        parts = np.zeros((3, 2, width, size), np.float32)
        for part, matrix in zip(parts, (query, key, value), strict=True):
            part[0, :, : matrix.shape[1]] = matrix
        return parts.transpose(2, 0, 1, 3).reshape(width, -1)

    def outward(to: np.ndarray) -> np.ndarray:
        matrix = np.zeros((width, width), np.float32)
        matrix[: len(to)] = to
        return matrix

    back = np.eye(LENGTH, k=-1, dtype=np.float32)  # position t asks for position t - 1
    first = inward(_SHARP * position.T @ back, position.T, token.T), outward(before)
    second = inward(_SHARP * token.T, before.T, token.T), outward(token)
    blocks = model.blocks
    for i, (into, out) in enumerate((first, second)):
        zeros = [jnp.zeros_like(blocks[i].widen.weight), jnp.zeros_like(blocks[i].narrow.weight)]
        blocks = eqx.tree_at(
            lambda blocks, i=i: [
                blocks[i].attention.inward.weight,
                blocks[i].attention.outward.weight,
                blocks[i].widen.weight,
                blocks[i].narrow.weight,
            ],
            blocks,
            [jnp.asarray(into), jnp.asarray(out), *zeros],
        )
    return eqx.tree_at(
        lambda model: [model.blocks, model.embedding.weight, model.positions.weight, model.head.weight],
        model,
        [blocks, jnp.asarray(token), jnp.asarray(position), jnp.asarray(4 * token.T)],
    )


__all__ = ["LENGTH", "SCHEMA", "TOKENS", "induction_model"]
