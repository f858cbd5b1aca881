"""One step of a run of a hidden Markov model: two iterations of Baum-Welch, and whether the second still gained."""

from typing import NamedTuple

import numpy as np

from chainrule.models.text.hmm.config import HMMConfig
from chainrule.probability import HiddenMarkov
from chainrule.probability.markov.observations import observed


class BaumWelchStep(NamedTuple):
    """A model after a step."""

    model: HiddenMarkov
    log_likelihood: float
    """Of all sequences together, before the step."""
    converged: bool


def learned(model: HiddenMarkov, y: np.ndarray, config: HMMConfig) -> BaumWelchStep:
    """The model after two iterations on the sequences `y`."""
    seen = observed("hmm", model.emission, y)
    first = model.improved(seen, config.pseudo_count)
    second = first.model.improved(seen, config.pseudo_count)
    gain = (second.log_likelihood - first.log_likelihood) / seen.count
    return BaumWelchStep(second.model, first.log_likelihood, gain < config.tolerance)


__all__ = ["BaumWelchStep", "learned"]
