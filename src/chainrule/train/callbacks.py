"""Functions of the user's own that training asks after every evaluation, and that may stop it or change its rate."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, final

from chainrule.core.errors import ArgumentError


@final
class Moment:
    """An evaluation during training, as a callback sees it.

    Every `eval_every` steps and after the last one, once the validation split has been evaluated (`val` is empty
    where there is none). A run that is resumed asks its callbacks again from its checkpoint on, with the same numbers:
    a callback that decides by a moment and what it keeps in `memory` decides as before. What it keeps elsewhere is not.
    """

    def __init__(
        self,
        step: int,
        total: int,
        val: Mapping[str, float],
        train: Mapping[str, float],
        best: Mapping[str, float],
        memory: dict[str, Any],
    ) -> None:
        self.step = step
        self.total = total
        self.val = val
        """Loss and metrics of the validation split, now."""
        self.train = train
        """The newest line of training metrics: loss, lr, grad_norm and those of the model."""
        self.best = best
        """What was best so far, and its step; as in `Run.status`."""
        self.memory = memory
        """A place for plain values of this callback, kept with every checkpoint."""
        self.reason = ""
        """Why training should stop; empty while it should go on."""
        self.factor = 1.0
        """What the learning rate is multiplied by from here on."""

    def stop(self, reason: str) -> None:
        """End training here: the run is saved, and done."""
        self.reason = reason or "stopped by a callback"

    def scale_lr(self, factor: float) -> None:
        """Multiply the learning rate by a factor from here on."""
        if not (math.isfinite(factor) and factor > 0):
            raise ArgumentError(f"scale_lr({factor}): the factor must be positive and finite")
        self.factor *= factor


Callback: TypeAlias = Callable[[Moment], None]


def named(callbacks: Sequence[Any]) -> dict[str, Callback]:
    """Callbacks by the names under which their memories are kept."""
    found: dict[str, Callback] = {}
    for number, callback in enumerate(callbacks):
        if not callable(callback):
            raise ArgumentError(
                f"callbacks: number {number} is a {type(callback).__name__}",
                remedy="give functions of a moment: def callback(moment): ...",
            )
        name = getattr(callback, "__name__", type(callback).__name__)
        if name in found:
            raise ArgumentError(f"callbacks: two are called {name!r}", remedy="give them different names")
        found[name] = callback
    return found


def kept(memory: Any, name: str) -> dict[str, Any]:
    """What a callback wants to keep, as a checkpoint can hold it."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(memory, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"the memory of callback {name!r} cannot be kept: {error}",
            remedy="keep plain numbers, texts, lists and dictionaries in moment.memory",
        ) from None
    return plain


__all__ = ["Callback", "Moment", "kept", "named"]
