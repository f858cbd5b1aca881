"""How long drawing will take, said beforehand where entries come one after another and it is long."""

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chainrule.train import Run

_MANY = 100
"""Passes one after another from which on it is worth asking."""
_FEW = 64
"""Examples by which the time is measured."""
_LONG = 2.0
"""Seconds that nobody needs to be warned of."""


def announce(run: "Run", n: int) -> None:
    """A note with the passes of a draw and about how long they will take, measured by drawing a few examples."""
    from chainrule.cli.output import note
    from chainrule.core.formatting import duration
    from chainrule.models.protocol import HasAudit, HasSampleCaption

    model = run.model
    if not (isinstance(model, HasAudit) and isinstance(model, HasSampleCaption)) or model.needs_condition:
        return
    if model.passes is None or model.passes[1] < _MANY or n < 4 * _FEW:
        return
    seconds = _seconds(run) * n / _FEW
    if seconds > _LONG:
        note(f"{model.sample_caption()}: about {duration(seconds)}")


def _seconds(run: "Run") -> float:
    """Of drawing a few examples, without compiling."""
    run.sample(_FEW)
    begin = time.perf_counter()
    run.sample(_FEW)
    return time.perf_counter() - begin


__all__ = ["announce"]
