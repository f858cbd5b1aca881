"""What the numbers of samples say in words, where a person should not miss it."""

import math
from collections.abc import Mapping

from chainrule.train.generation.features import ClassifierFeatures
from chainrule.train.generation.measures import OF_REAL
from chainrule.train.scoring import Metric

_HALF = 0.5
_SURE = 0.8
"""Share of held-out images that a classifier is right about whose features compare images well."""
_COPIED = 0.01
"""Share of samples, beyond that of held-out examples, that may be copies."""


def alarms(found: Mapping[str, Metric]) -> list[str]:
    """One sentence or two for each thing that is wrong with samples; none where all is well.

    >>> alarms({"training_copies": Metric(0.0), "training_copies_of_real": Metric(0.0)})
    []
    """
    return list(filter(None, (not_finite(found), few(found), unsure(found), collapsed(found), copied(found))))


def not_finite(found: Mapping[str, Metric]) -> str:
    """That some samples are no numbers, so that nothing else was measured.

    >>> not_finite({"finite_samples": Metric(0.5)})[:47]
    '50.0 % of the samples are not finite, and the r'
    """
    if "finite_samples" not in found:
        return ""
    share = 100 * (1 - found["finite_samples"].value)
    return (
        f"{share:.1f} % of the samples are not finite, and the rest was not judged. Train with a lower learning "
        "rate, or take an earlier checkpoint"
    )


def few(found: Mapping[str, Metric]) -> str:
    """That sets have fewer samples than features, so that their covariance has directions nobody saw.

    >>> few({"compared_at_once": Metric(20), "real_examples": Metric(200), "sample_features": Metric(64)})[-40:]
    'by 20 samples. Ask for more: samples=200'
    """
    if not {"compared_at_once", "real_examples", "sample_features"} <= found.keys():
        return ""
    compared, real, features = (
        int(found[name].value) for name in ("compared_at_once", "real_examples", "sample_features")
    )
    if compared >= features:
        return ""
    helps = (
        f"Ask for more: samples={min(real, 4 * features)}"
        if real > max(compared, features)
        else f"There are {real} held-out examples to compare with: hold out more when training, data.split=0.6,0.2,0.2,"
        " or go by the kernel distance, which is right on average however few there are"
    )
    few = (
        f"few samples: the Fréchet distance compares covariances of {features} features by {compared} samples"
    )
    return f"{few}. {helps}"


def unsure(found: Mapping[str, Metric]) -> str:
    """That the classifier in whose features images are compared is often wrong about real ones.

    >>> seen = Metric(64, "what a classifier of the training examples sees")
    >>> unsure({"classifier_accuracy": Metric(0.4), "sample_features": seen})[:36]
    'weak classifier: it is right about 4'
    """
    if "classifier_accuracy" not in found or found["sample_features"].unit != ClassifierFeatures.words:
        return ""
    right = found["classifier_accuracy"].value
    if right >= _SURE:
        return ""
    return (
        f"weak classifier: it is right about {100 * right:.0f} % of held-out examples. Distances in its features and "
        "what it says of classes miss much: compare models by them only where they are far apart, and look at samples; "
        "more training images, or smaller ones (data.size=32), make it better"
    )


def collapsed(found: Mapping[str, Metric]) -> str:
    """That samples leave out more than half of what they should reach, what that looks like, and what helps.

    >>> collapsed({"modes_found": Metric(3), "modes_found_of_real": Metric(8), "high_quality_share": Metric(0.9)})[:33]
    'collapse: samples reach 3 of 8 mo'
    """
    for name, what in (("modes_found", "modes"), ("classes_found", "classes"), ("sample_coverage", "")):
        real = found.get(f"{name}{OF_REAL}")
        if real is None or found[name].value >= _HALF * real.value:
            continue
        reached = (
            f"samples reach {found[name].value:.0f} of {real.value:.0f} {what}"
            if what
            else f"samples reach {100 * found[name].value:.0f} % of the training examples, where as many held-out ones "
            f"reach {100 * real.value:.0f} %"
        )
        return f"{_which(found)}: {reached}. {_help(found)}"
    return ""


def _on_data(found: Mapping[str, Metric]) -> bool:
    """Whether samples are where the data are, as far as that was measured."""
    for name in ("high_quality_share", "sample_density"):
        if name in found:
            real = found.get(f"{name}{OF_REAL}", Metric(1.0)).value
            return found[name].value >= _HALF * real
    return True


def _which(found: Mapping[str, Metric]) -> str:
    return "collapse" if _on_data(found) else "off the data"


def _help(found: Mapping[str, Metric]) -> str:
    if not _on_data(found):
        return "They are not where the data are dense: train longer, or use a larger or another model"
    return (
        "What they draw is like the data, but always the same: train longer with a lower learning rate or larger "
        "batches, draw with less guidance or a higher temperature, or, of two networks that play against each other, "
        "penalise the gradients of the judging one"
    )


def copied(found: Mapping[str, Metric]) -> str:
    """That samples are training examples, more often than held-out examples are.

    >>> copied({"training_copies": Metric(0.2), "training_copies_of_real": Metric(0.0)})[:42]
    'copies: 20.0 % of the samples are training'
    """
    name = "training_copies"
    if name not in found:
        return ""
    share, real = found[name].value, found[f"{name}{OF_REAL}"].value
    errors = [found[one].stderr or 0.0 for one in (name, f"{name}{OF_REAL}")]
    if share <= real + _COPIED + 3 * math.hypot(*errors):  # small images of few levels come twice by chance
        return ""
    return (
        f"copies: {100 * share:.1f} % of the samples are training examples, of held-out examples {100 * real:.1f} %. "
        "Distances from the data say nothing then: use more data, a smaller model or fewer steps"
    )


__all__ = ["alarms", "collapsed", "copied", "few", "not_finite", "unsure"]
