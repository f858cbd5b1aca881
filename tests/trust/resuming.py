"""Training runs that are killed again and again: what to train, and the program that does the killing.

`python -m tests.trust.resuming FOLDER CASE...` trains each case under FOLDER/killed and kills it (SIGKILL) at each of
its instants in turn, going on from the last checkpoint, at last to the end; and once more, in peace, under
FOLDER/uninterrupted. Each attempt is a fork of a process in which everything is imported but JAX has not yet been used.
"""

import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from chainrule.models.protocol import Model
from chainrule.train import events, steppers
from chainrule.train.interruption import Clock
from tests.trust.toys import Spoilt, TwoParts, go_on, mlp, train


@final
@dataclass(frozen=True)
class Case:
    """A way of training, and the instants (event, step) at which it is killed, in order."""

    kills: tuple[tuple[str, int], ...]
    settings: dict[str, Any] = field(default_factory=dict)
    model: Callable[[], Model] = mlp
    resident: bool = True


_STEEP = {"name": "sgd", "lr": 1.0}
_PLATEAU = {"name": "plateau", "patience": 1, "gamma": 0.5}

CASES = {
    # Whatever has a state of its own, at once; the cases after the next one tell which of them fails.
    "everything": Case(
        (("Compiled", 0), ("Logged", 9), ("Progress", 16)),
        {
            "steps": 18,
            "ema": 0.9,
            "accumulate": 2,
            "eval_every": 3,
            "schedule": _PLATEAU,
            "stopping": {"patience": 9},
            "optimizer": {"name": "nesterov", "lr": 0.5},
        },
        lambda: mlp(normalization="batch", dropout=0.3),
        resident=False,
    ),
    "two parts": Case((("Progress", 7),), model=TwoParts),
    "plain": Case((("Compiled", 0), ("Progress", 6), ("Logged", 12))),
    "averaged, dropout, batch normalisation": Case(
        (("Progress", 7),), {"ema": 0.9}, lambda: mlp(normalization="batch", dropout=0.3)
    ),
    "accumulated": Case((("Progress", 9),), {"accumulate": 4, "optimizer": {"name": "nesterov", "lr": 0.05}}),
    # Killed when the decision to stop is saved, but not yet the news that the run is done.
    "early stopping": Case((("Saved", 15),), {"steps": 60, "eval_every": 3, "stopping": {"patience": 2}}),
    # Killed when the rate is lowered, but the lower rate not yet saved.
    "plateau": Case(
        (("Logged", 9),),
        {"steps": 24, "eval_every": 3, "schedule": _PLATEAU, "optimizer": {"lr": 0.5}},
    ),
    "streamed": Case((("Progress", 5),), resident=False),
    # Diverges at step 14, goes back to step 12, and is killed before the halved rate is saved.
    "rolled back": Case(
        (("Progress", 15),),
        {"steps": 24, "rollbacks": 1, "optimizer": _STEEP, "schedule": {"name": "constant"}},
        lambda: Spoilt("runaway"),
    ),
}


def start(case: Case, path: Path, **more: Any) -> None:
    """Train a case, or go on with it."""
    model = case.model()
    if (path / "config.yaml").exists():
        go_on(path, model, **more)
    else:
        train(path, model, **case.settings, **more)


def killed_at(instant: tuple[str, int]) -> events.Listener:
    """A listener that kills its process."""

    def listen(event: events.Event) -> None:
        if (type(event).__name__, getattr(event, "step", 0)) == instant:
            os.kill(os.getpid(), signal.SIGKILL)

    return listen


def attempt(case: Case, path: Path, instant: tuple[str, int] | None = None) -> None:
    """Train a case, or go on with it, in a process of its own: to the end, or to the instant at which it is killed."""
    if (child := os.fork()) == 0:
        if not case.resident:
            steppers._RESIDENT_BYTES = -1
        if instant is None:
            start(case, path)
        else:
            Clock.steps_per_call = lambda self, most: 1  # type: ignore[method-assign]  # every step is an instant
            start(case, path, listener=killed_at(instant))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if instant is None:
        assert status == 0, f"{path} was not trained to the end: {status}"
    else:
        assert os.WIFSIGNALED(status), f"{path} was not killed at {instant}: {status}"


def main(folder: Path, names: Sequence[str]) -> None:
    warnings.simplefilter("ignore", RuntimeWarning)  # JAX warns of forks; here it has no threads yet
    for name in names:
        case = CASES[name]
        for instant in (*case.kills, None):
            attempt(case, folder / "killed" / name, instant)
        attempt(case, folder / "uninterrupted" / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
