"""Events of a training run.

The loop calls one function with these records; the command line prints them, tests collect them, and nobody has to
subclass anything. A listener must not block: it is called between two compiled calls.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, final


@final
@dataclass(frozen=True)
class Started:
    """The run folder exists and training is about to be compiled."""

    run: str
    path: str
    data: str
    """One line about the data."""
    model: str
    """One line about the model."""
    device: str
    seed: int
    step: int
    """0, or the step a resumed run goes on from."""
    total: int


@final
@dataclass(frozen=True)
class Compiled:
    """The training step is compiled."""

    seconds: float


@final
@dataclass(frozen=True)
class Estimated:
    """How long the rest will take, measured on the first steps, and what the compiled program holds in memory."""

    steps: int
    """Steps that are left."""
    seconds: float
    nbytes: int


@final
@dataclass(frozen=True)
class Noticed:
    """Something a user may not expect: of the settings, of a damaged checkpoint, of a step back."""

    text: str


@final
@dataclass(frozen=True)
class Progress:
    """Numbers worth showing; `metrics` holds the latest of each, e.g. loss, accuracy, lr, grad_norm, val_loss."""

    step: int
    total: int
    metrics: Mapping[str, float]
    examples_per_second: float
    seconds_left: float
    saved: int | None
    """Step of the newest checkpoint."""


@final
@dataclass(frozen=True)
class Logged:
    """One line was added to metrics.jsonl."""

    step: int
    split: str
    metrics: Mapping[str, float]


@final
@dataclass(frozen=True)
class Saved:
    """A checkpoint is on disk, complete and verified."""

    step: int


@final
@dataclass(frozen=True)
class Finished:
    """Training ended: `status` is "done" or "interrupted"."""

    run: str
    path: str
    status: str
    step: int
    best: Mapping[str, float]
    """Validation loss at the best step, the number that made it the best, and the step; empty without validation."""
    seconds: float
    """How long the run was trained, all sittings together."""
    reason: str
    """Why it ended when it did, e.g. "all steps done", "no improvement for 5 evaluations", "interrupted by SIGINT"."""


Event: TypeAlias = Started | Compiled | Estimated | Noticed | Progress | Logged | Saved | Finished
Listener: TypeAlias = Callable[[Event], None]


def silent(event: Event) -> None:
    """The listener that does nothing."""
    del event


__all__ = [
    "Compiled",
    "Estimated",
    "Event",
    "Finished",
    "Listener",
    "Logged",
    "Noticed",
    "Progress",
    "Saved",
    "Started",
    "silent",
]
