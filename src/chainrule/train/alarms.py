"""What a model says about its own training while it goes on, and where it breaks off."""

from collections.abc import Mapping

import numpy as np

from chainrule.models.protocol import HasDiagnostics, Model


def raised(model: Model, history: Mapping[str, np.ndarray], known: list[str]) -> list[str]:
    """The texts of alarms that are new; their names are added to those that are known."""
    if not isinstance(model, HasDiagnostics):
        return []
    new = [alarm for alarm in model.alarms(history) if alarm.name not in known]
    known += [alarm.name for alarm in new]
    return [alarm.text for alarm in new]


def of_its_own(model: Model) -> list[str]:
    """What a model knows that helps where its loss stops being finite."""
    found = model.when_not_finite() if isinstance(model, HasDiagnostics) else ""
    return [found] if found else []


__all__ = ["of_its_own", "raised"]
