"""The code of naive Bayes: every entry by the classes that the entries before it leave likely."""

from typing import TYPE_CHECKING

import equinox as eqx
import numpy as np
from scipy.special import softmax

from chainrule.core.errors import CapabilityError
from chainrule.information.compression.direct import EntryCode, SymbolDistributions
from chainrule.information.compression.levels import distribution_of
from chainrule.models.supervised.naive_bayes.entries import LevelEntries

if TYPE_CHECKING:
    from chainrule.models.supervised.naive_bayes.model import NaiveBayes


def class_code(model: "NaiveBayes") -> EntryCode:
    """The code of data with levels: `P(x_i | x_<i) = Σ_c P(c | x_<i) P(x_i | c)`, exactly."""
    if not isinstance(model.entries, LevelEntries):
        raise CapabilityError(
            "naive-bayes knows which tokens a text has, and not in which order they come",
            remedy="compress texts with gpt, char-rnn or ngram",
        )
    schema = model.schema
    # In double precision, entry by entry on both sides: nothing here depends on how many rows there are.
    logs = np.asarray(model.entries.log_probs(), np.float64)
    log_prior = np.asarray(model.log_prior, np.float64)

    def distributions(rows: int, known: np.ndarray | None) -> SymbolDistributions:
        del known
        seen = np.tile(log_prior, (rows, 1))
        for each in logs.transpose(1, 0, 2):
            shares = np.sum(softmax(seen, axis=1)[:, :, None] * np.exp(each), axis=1)
            shares /= shares.sum(axis=1, keepdims=True)
            symbols = yield distribution_of(shares[:, 1] if schema.levels == 2 else shares, schema.levels)
            seen = seen + each.T[symbols]

    weights = eqx.filter((model.log_prior, model.entries), eqx.is_array)
    return EntryCode(schema, weights, distributions, np.arange(schema.dimensions), 1)


__all__ = ["class_code"]
