"""Pretrained word vectors as the beginning of a model, and the vectors of a model to take elsewhere.

Any model that gives each token a vector (`HasEmbedding`) can start from a file of GloVe or word2vec: rows of tokens
that the file knows are replaced, the others stay as they were drawn. Whether training moves them is said by `freeze`.
"""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.text import tokenizers, vectors
from chainrule.data.text.tokenizers import Tokenizer
from chainrule.data.text.vectors import Vectors
from chainrule.models.protocol import HasEmbedding, Model


class ModelWithVectors(NamedTuple):
    """A model that begins with vectors of a file, and how many of its tokens the file knows."""

    model: Model
    tokens: float
    """Share of the vocabulary."""
    text: float
    """Share of the training text."""


def with_vectors(model: Model, data: Data, path: str | Path) -> ModelWithVectors:
    """The model with the vectors of a file in its table, which must have their width."""
    if not isinstance(model, HasEmbedding) or not kinds.of(data.schema).has_tokens:
        raise CapabilityError(
            f"vectors={path}: {type(model).__name__} has no table of tokens",
            remedy="train a model of text, such as window-mlp",
        )
    found, table = vectors.read(path), model.embeddings()
    if found.width != table.shape[1]:
        raise ArgumentError(
            f"vectors={path}: its vectors have {found.width} numbers, those of the model {table.shape[1]}",
            remedy=f"give the model {found.width}: embedding={found.width} (of gpt and bert, the width)",
        )
    rows, known = found.table(tokenizers.of(data.schema))
    if not known.any():
        raise ArgumentError(
            f"vectors={path}: it knows none of the {len(known):,} tokens",
            remedy="make tokens of words: data.tokenizer=word",
        )
    new = jnp.where(jnp.asarray(known)[:, None], jnp.asarray(rows, table.dtype), table)
    begun = jax.tree.map(lambda leaf: new if leaf is table else leaf, model)
    return ModelWithVectors(begun, *vectors.coverage(known, np.asarray(data.train.arrays["tokens"])))


def of_model(model: HasEmbedding, tokenizer: Tokenizer) -> Vectors:
    """The vectors a model has learnt, under the texts of its tokens without the space in front of a word."""
    texts = tokenizer.pieces(range(len(tokenizer)))
    return Vectors(tuple(text.strip() or text for text in texts), np.asarray(model.embeddings(), np.float32))


__all__ = ["ModelWithVectors", "of_model", "with_vectors"]
