"""The code of a hidden Markov model of levels: each given those before it, by the forward recursion."""

from typing import TYPE_CHECKING

import equinox as eqx
import numpy as np

from chainrule.core.errors import CapabilityError
from chainrule.information.compression.codes import LEVELS_WANTED
from chainrule.information.compression.direct import EntryCode, SymbolDistributions
from chainrule.information.compression.levels import distribution_of
from chainrule.models.text.hmm.emission import LevelStates

if TYPE_CHECKING:
    from chainrule.models.text.hmm.model import HMM


def series_code(model: "HMM") -> EntryCode:
    """The code of series of levels."""
    emission = model.emission
    if not isinstance(emission, LevelStates):
        raise CapabilityError(
            "the model was trained on continuous numbers, which have no probabilities",
            remedy=LEVELS_WANTED,
        )
    start, transition, emitted = (
        np.asarray(part, np.float64) for part in (model.start, model.transition, emission.probs)
    )

    def distributions(rows: int, known: np.ndarray | None) -> SymbolDistributions:
        del known
        states = np.tile(start / start.sum(), (rows, 1))
        while True:
            shares = states @ emitted
            shares /= shares.sum(axis=1, keepdims=True)
            symbols = yield distribution_of(
                shares[:, 1] if emitted.shape[1] == 2 else shares, emitted.shape[1]
            )
            # Where a level could not be, rounding lets it pass: any state may have emitted it.
            weighed = states * emitted.T[symbols] + 1e-300
            states = weighed / weighed.sum(axis=1, keepdims=True) @ transition

    entries = model.schema.dimensions
    weights = eqx.filter((model.start, model.transition, emission), eqx.is_array)
    return EntryCode(model.schema, weights, distributions, np.arange(entries), 1)


__all__ = ["series_code"]
