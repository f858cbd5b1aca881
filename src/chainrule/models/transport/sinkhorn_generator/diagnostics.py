"""How training by transport goes: the distance beside the least it can be, and alarms in words."""

from collections.abc import Mapping, Sequence

import numpy as np

from chainrule.core.pictures import Lines, Picture
from chainrule.models.protocol import Alarm

_LINES = 3
"""Lines of training numbers in a row that make an alarm."""
_MISPLACED = 0.1
"""Share of the mass in wrong places from which gradients mislead."""
_LARGER = 4
"""By this an eps is worth raising: iterations grow with its inverse."""


def column(history: Mapping[str, np.ndarray], name: str, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of one number."""
    if name not in history:
        return np.empty(0), np.empty(0)
    chosen = (history["split"] == split) & np.isfinite(history[name])
    return history["step"][chosen].astype(float), history[name][chosen]


def alarms(
    history: Mapping[str, np.ndarray], eps: float, *, annealed: bool, least: float = 0.0
) -> list[Alarm]:
    """Plans that do not converge, and what helps a run with this eps, which falls to it (`annealed`) or not.

    An eps below `least` is not worth trying.
    """
    step, error = column(history, "marginal_error", "train")
    if len(step) < _LINES or error[-_LINES:].min() < _MISPLACED:
        return []
    slower = " a slower fall of it (anneal=0.5)," if annealed else ""
    _, rates = column(history, "lr", "train")
    rate = f"optimizer.lr={rates.max() / 3:.1g}" if len(rates) else "a lower optimizer.lr"
    return [
        Alarm(
            "plans not converged",
            int(step[-1]),
            f"{error[-1]:.2g} of the mass is in the wrong place when the solver gives up: gradients mislead. What "
            f"helps: a larger eps (eps={max(_LARGER * eps, least):g}),{slower} or smaller steps ({rate})",
        )
    ]


def curves(history: Mapping[str, np.ndarray], unit: str, found: Sequence[Alarm]) -> list[Picture]:
    """The distance with its floor, and eps where the distance has one; alarms are marked."""
    marks = [(float(alarm.step), alarm.name) for alarm in found]
    pictures: list[Picture] = []
    series = {
        label: values
        for label, name in (("generated and real", "half_distance"), ("real and other real", "floor"))
        if len((values := column(history, name, "val"))[0])
    }
    if series:
        positive = all((values > 0).all() for _, values in series.values())
        pictures.append(
            Lines(
                "distance-and-floor",
                "Distance from held-out examples, and the least it can be",
                "step",
                unit,
                series,
                log_y=positive,
                marks=marks,
                caption="Both between halves of batches of held-out examples, so that they compare. Two sets of real "
                "examples are apart as well, by chance: a generator that has learned everything is as far away as "
                "they are, and one that is nearer repeats them.",
            )
        )
    eps = column(history, "eps", "train")
    if len(eps[0]):
        pictures.append(
            Lines(
                "eps",
                "Entropic strength",
                "step",
                "eps",
                {"eps": eps},
                log_y=True,
                caption="Large at first, when only means and rough shapes matter; what falls below it is not seen.",
            )
        )
    return pictures


__all__ = ["alarms", "column", "curves"]
