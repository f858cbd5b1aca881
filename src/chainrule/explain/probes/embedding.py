"""Where the symbols of a vocabulary lie, and which lie near each other."""

from typing import Any

import numpy as np

from chainrule.data import tokenizers
from chainrule.data.base import Data, Schema
from chainrule.explain.base import NoSettings, Outcome, Probe
from chainrule.models.autoregressive import pictures
from chainrule.models.base import HasEmbedding, Model
from chainrule.train import Run


def look(run: Run, data: Data, settings: NoSettings) -> Outcome:
    """The plane in which frequent symbols vary most, and the nearest neighbours of the most frequent."""
    del settings
    model: Any = run.model  # has embeddings, see `_applies`
    table, tokenizer = np.asarray(model.embeddings()), tokenizers.of(data.schema)
    near = pictures.neighbours(table, tokenizer, data)
    share = pictures.spread(table[pictures.frequent(data, len(table))])
    return Outcome(
        [
            f"Two directions hold {share:.0%} of the variance of {table.shape[1]}-dimensional vectors.",
            f"Nearest to {near.rows[0][0]!r}, the most frequent symbol: {near.rows[0][1]}.",
        ],
        [pictures.symbols(table, tokenizer, data)],
        near,
        {"variance_in_plane": share, "nearest": {str(row[0]): str(row[1]) for row in near.rows}},
    )


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, HasEmbedding) and schema.kind == "text"


probe = Probe(
    "Symbols in the plane, and the nearest neighbours of each.",
    "a model of text with a vector for each symbol",
    _applies,
    look,
)

__all__ = ["look", "probe"]
