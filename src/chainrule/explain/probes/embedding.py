"""Token embeddings: their principal plane, nearest neighbours and analogies."""

from typing import Any, final

import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.data.text.vectors import Vectors
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasEmbedding, Model
from chainrule.models.vectors import of_model
from chainrule.networks.pictures import tokens
from chainrule.train import Run


@final
class EmbeddingSettings(Settings):
    """What is asked of the vectors beyond the most frequent tokens."""

    word: str = Field("", description="a token whose nearest neighbours are wanted")
    analogy: str = Field(
        "", description="three tokens, 'man king woman': what is to the third as the second to the first"
    )


def examine(run: Run, data: Data, settings: EmbeddingSettings) -> Outcome:
    """The plane in which frequent tokens vary most, and the nearest neighbours of the most frequent."""
    model: Any = run.model  # has embeddings, see `_applies`
    table, tokenizer = np.asarray(model.embeddings()), tokenizers.of(data.schema)
    near = tokens.neighbours(table, tokenizer, data)
    share = tokens.spread(table[tokens.frequent(data, len(table))])
    answers = _answers(of_model(model, tokenizer), settings)
    return Outcome(
        [
            f"Two directions hold {share:.0%} of the variance of {table.shape[1]}-dimensional vectors.",
            f"Nearest to {near.rows[0][0]!r}, the most frequent token: {near.rows[0][1]}.",
            *(
                f"{question}: {', '.join(f'{word} {c:.2f}' for word, c in found)}."
                for question, found in answers
            ),
        ],
        [tokens.embedding_map(table, tokenizer, data)],
        near,
        {
            "variance_in_plane": share,
            "nearest": {str(row[0]): str(row[1]) for row in near.rows},
            "answers": {question: dict(found) for question, found in answers},
        },
    )


def _answers(vectors: Vectors, settings: EmbeddingSettings) -> list[tuple[str, list[tuple[str, float]]]]:
    """Questions with their answers."""
    found = []
    if settings.word:
        found.append((f"Nearest to {settings.word!r}", vectors.nearest(settings.word)))
    if settings.analogy:
        words = settings.analogy.split()
        if len(words) != 3:
            raise ArgumentError(
                f"analogy={settings.analogy!r}: it takes three tokens", remedy="analogy='man king woman'"
            )
        first, second, third = words
        found.append((f"{first} : {second} = {third} : ?", vectors.analogy(first, second, third)))
    return found


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, HasEmbedding) and kinds.of(schema).has_tokens


probe = Probe(
    "Tokens in the plane, and the nearest neighbours of each.",
    "a model of text with a vector for each token",
    _applies,
    examine,
    EmbeddingSettings,
)

__all__ = ["EmbeddingSettings", "examine", "probe"]
