"""Verdicts on adaptation: what came of comparing a run for another domain with its baselines, kept beside it.

The probe `baselines` writes the numbers; reports, the list of runs and the end of a training read them here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from chainrule import models
from chainrule.data.dataset import Data
from chainrule.train.files import read_own

_FILE = Path("probes", "baselines", "numbers.json")


@final
@dataclass(frozen=True)
class TransferVerdict:
    """Whether adaptation helped, as far as it was tried."""

    words: str
    """The gain over the source alone, or "negative transfer", with the interval."""
    accuracy: Mapping[str, float]
    """By training, the share of the other domain's test examples that it is right on, mean over seeds."""
    seeds: int
    steps: int
    """Of each training; 0 where that was not kept."""

    def sentence(self) -> str:
        """All of it on one line.

        >>> TransferVerdict("gain: +9.0 points ± 2.0", {"source only": 0.6, "method": 0.69}, 3, 100).sentence()
        'gain: +9.0 points ± 2.0   source only 60.0 %, method 69.0 %'
        """
        shares = ", ".join(f"{name} {100 * share:.1f} %" for name, share in self.accuracy.items())
        return "   ".join(filter(None, [self.words, shares]))


def transfer_verdict(folder: Path) -> TransferVerdict | None:
    """The verdict that is kept with a run; nothing where it was never compared, or the file says nothing sensible."""
    try:
        found = json.loads(read_own(folder / _FILE))["baselines"]
        values = {str(name): [float(one) for one in each] for name, each in found.get("accuracy", {}).items()}
        accuracy = {name: sum(each) / len(each) for name, each in values.items()}
        seeds = max(map(len, values.values()), default=0)
        return TransferVerdict(str(found["verdict"]), accuracy, seeds, int(found.get("steps", 0)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError, OverflowError):
        return None


def adapts(config: Mapping[str, Any]) -> bool:
    """Whether the run with these settings brings a model to another domain, so that one asks whether it helped."""
    name = config["model"]["name"]
    if config.get("target") is None or name not in models.names():
        return False
    return models.entry(name).adapts(config["model"]["settings"])


def has_answers(data: Data) -> bool:
    """Whether there is another domain with targets to judge by."""
    return data.other is not None and "y" in data.other.held_out()[0].arrays


__all__ = ["TransferVerdict", "adapts", "has_answers", "transfer_verdict"]
