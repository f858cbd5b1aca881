"""What scores say in words, where they say something that a person should not miss."""

from collections.abc import Mapping

from chainrule.train.generation.words import alarms
from chainrule.train.scores.latents import collapsed, heavy_tailed, idle_levels
from chainrule.train.scores.loss import overfitting
from chainrule.train.scoring import Metric


def remarks(found: Mapping[str, Metric]) -> list[str]:
    """One sentence or two for each; none where all is well.

    >>> remarks({"accuracy": Metric(0.9)})
    []
    """
    said = (overfitting(found), collapsed(found), idle_levels(found), heavy_tailed(found), *alarms(found))
    return list(filter(None, said))


__all__ = ["remarks"]
