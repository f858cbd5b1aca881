"""Separation: the scale-invariant signal-to-distortion ratio of what was found, and what ideal masks would reach."""

import numpy as np

from chainrule.models.protocol import CanSeparate
from chainrule.train.scoring import Evaluation, Metric, Score, mean
from chainrule.train.separation import separated

_UNIT = "dB"


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    model = evaluation.model
    assert isinstance(model, CanSeparate), "ask what applies first"
    found = separated(model, evaluation.split)
    whole = {
        "si_sdr": found.found,
        "si_sdr_improvement": found.improvement,
        "si_sdr_mixture": found.mixture,
        **{f"si_sdr_{name}": values for name, values in found.ideal.items()},
    }
    metrics = {name: _mean(values.ravel()) for name, values in whole.items()}
    if model.ordered:
        for number, source in enumerate(model.source_names):
            for name in ("si_sdr", "si_sdr_improvement", "si_sdr_ideal_ratio"):
                metrics[f"{name}.{source}"] = _mean(whole[name][:, number])
    return metrics


def _mean(values: np.ndarray) -> Metric:
    """Over what can be heard: the ratio of a silent source does not exist."""
    heard = values[np.isfinite(values)]
    if not len(heard):
        return Metric(float("nan"), _UNIT, kind="every source is silent")
    silent = len(values) - len(heard)
    return mean(heard, _UNIT, f"without {silent:,} silent sources" if silent else "")


score = Score(
    "How well sources are separated, beside the mixture and beside ideal masks.",
    lambda evaluation: isinstance(evaluation.model, CanSeparate),
    _measure,
    order=10,
)

__all__ = ["score"]
