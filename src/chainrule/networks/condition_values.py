"""Conditions as users give them, as arrays a network reads: captions, numbers, tokens or images.

Whatever the kind, one condition serves all examples, or there is one for each. What was never in training is refused:
unknown words, vectors of another dimension, and, where training knew vectors of one length alone, as
embeddings are, vectors of another length.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Int
from chainrule.data.schema import Schema
from chainrule.data.text import captions
from chainrule.networks.conditions import ConditionEncoder, TokenSequenceEncoder

_TOLERANCE = 1e-2
"""Share by which a vector may be longer or shorter than those of training."""


def texts(schema: Schema, condition: Any, n: int) -> Int[Array, "batch length"]:
    """The caption of each of `n` examples from one caption, or one for each; rows of tokens are taken as they are."""
    given = [condition] if isinstance(condition, str) else condition
    if isinstance(given, Sequence) and all(isinstance(one, str) for one in given):
        given = np.stack([captions.encode(schema, one) for one in given])
    rows = np.asarray(given)
    rows = rows[None] if rows.ndim == 1 else rows
    if rows.dtype.kind not in "iu" or rows.shape[1:] != schema.target_shape or len(rows) not in (1, n):
        raise ArgumentError(f"condition: one caption for all, or one for each of {n} examples")
    end = len(schema.target_tokens)
    if rows.min() < 0 or rows.max() > end:
        raise ArgumentError(f"condition: tokens are numbered 0 to {end - 1}, the end mark is {end}")
    return jnp.broadcast_to(jnp.asarray(rows, jnp.int32), (n, *rows.shape[1:]))


def values(encoder: ConditionEncoder, schema: Schema, condition: Any, n: int) -> Array:
    """The numbers of each of `n` examples from those of one, or of each."""
    given = np.asarray(condition)
    shape = encoder.shape
    if shape[-1:] == (1,) and given.shape[-2:] == shape[:2] and len(shape) == 3:
        given = given[..., None]  # a grey image
    if given.dtype.kind not in "iuf" or given.shape not in (shape, (1, *shape), (n, *shape)):
        raise ArgumentError(
            f"condition of shape {given.shape}: the model was trained on conditions of shape {shape}",
            remedy=f"give one for all, or {n} of them",
        )
    if not (isinstance(encoder, TokenSequenceEncoder) or np.isfinite(given).all()):
        raise ArgumentError("condition: it holds values that are not finite")
    if schema.target_length:
        # Vectors of one length are scaled so that their entries are of order one.
        lengths = np.linalg.norm(given.reshape(-1, shape[-1]), axis=1) / np.sqrt(shape[-1])
        wrong = lengths[np.abs(lengths - 1) > _TOLERANCE]
        if wrong.size:
            raise ArgumentError(
                f"condition of length {wrong[0] * schema.target_length:.4g}: the model was trained on vectors of "
                f"length {schema.target_length:.4g}",
                remedy="divide each by its length; is it from the same space?",
            )
    return jnp.broadcast_to(jnp.asarray(given, jnp.float32), (n, *shape))


__all__ = ["texts", "values"]
