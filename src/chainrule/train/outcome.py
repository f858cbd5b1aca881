"""The outcome of a training: however it ends, an honest status is left behind."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import final

from chainrule.core.errors import DiskError, DivergedError
from chainrule.train.folder import RunWriter


@final
@dataclass
class TrainingOutcome:
    """How a training ended: `status` as status.json has it, and why."""

    status: str = "failed"
    message: str = ""


@contextlib.contextmanager
def recorded(writer: RunWriter, best: Callable[[], Mapping[str, float]]) -> Iterator[TrainingOutcome]:
    """Train inside of it and say how that ended; what is raised instead is written down and raised."""
    outcome = TrainingOutcome()
    try:
        yield outcome
    except DivergedError as error:
        outcome.status, outcome.message = "diverged", str(error)
        raise
    except KeyboardInterrupt:
        outcome.status, outcome.message = "interrupted", "stopped at once by a second signal"
        raise
    except BaseException as error:
        outcome.status, outcome.message = "failed", f"{type(error).__name__}: {error}"
        raise
    finally:
        # With a full disk even this may fail; the error on its way out is the one that matters then.
        with contextlib.suppress(DiskError):
            writer.write(status=outcome.status, message=outcome.message, best=dict(best()))
        with contextlib.suppress(DiskError):
            writer.log(f"{outcome.status} at step {writer.status['step']}: {outcome.message}")


__all__ = ["TrainingOutcome", "recorded"]
