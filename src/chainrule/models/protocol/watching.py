"""What a model says about its own training: alarms in words, curves of its own, and examples kept along the way."""

import abc
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Key
from chainrule.data.dataset import Data
from chainrule.models.protocol.model import Model


class Alarm(NamedTuple):
    """Something that went wrong in training though every number is finite."""

    name: str
    """A few words by which it is known; an alarm of one name is raised once in a run."""
    step: int
    """When it was seen."""
    text: str
    """What was seen, and at least two things that help."""


class HasDiagnostics(Model):
    """Knows what its own training looks like when it fails, and how to show it.

    A history is that of `Run.metrics`: columns `step`, `split` and every number that was logged.
    """

    @abc.abstractmethod
    def alarms(self, history: Mapping[str, np.ndarray]) -> Sequence[Alarm]:
        """What has gone wrong by the end of this history; asked after every evaluation."""

    def alarms_along(self, history: Mapping[str, np.ndarray]) -> Sequence[Alarm]:
        """Every alarm that training raised on the way through this history, as it was when it was raised.

        What is wrong in the middle may be well again by the end, and the end alone says nothing of when it began.
        """
        found: dict[str, Alarm] = {}
        for step in np.unique(history["step"][history["split"] == "val"]):
            until = history["step"] <= step
            for alarm in self.alarms({name: column[until] for name, column in history.items()}):
                found.setdefault(alarm.name, alarm)
        return list(found.values())

    @abc.abstractmethod
    def curves(self, history: Mapping[str, np.ndarray]) -> Sequence[Picture]:
        """The numbers of training beside its loss, in the pictures that show most."""

    def when_not_finite(self) -> str:
        """Default: nothing is known of why a loss of this model stops being finite; otherwise a remedy of its own."""
        return ""


class HasSnapshots(Model):
    """Draws the same few examples again and again while it learns, so that one sees them come about."""

    @abc.abstractmethod
    def snapshot(self, key: Key) -> Array:
        """Some examples, in model units; always called with the same key."""


class HasFilm(HasSnapshots):
    """Keeps along the way what is no set of examples, and makes a film of it."""

    @abc.abstractmethod
    def film(self, steps: np.ndarray, snapshots: np.ndarray, data: Data) -> Sequence[Picture]:
        """Pictures of what `snapshot` gave at each of these steps."""


__all__ = ["Alarm", "HasDiagnostics", "HasFilm", "HasSnapshots"]
