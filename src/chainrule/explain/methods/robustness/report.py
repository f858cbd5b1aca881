"""An honest report on robustness: accuracy against the size of the change, by attacks of every kind, with alarms.

An example counts as right where it is right before and after the attack: whoever may change it may leave it alone.
Before an alarm is raised the iterated attack is repeated from several random starts: where few numbers move, a single
climb may end on a hill that is not the highest, and that is no fault of the gradients.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from jax.typing import ArrayLike

from chainrule.core.errors import ArgumentError
from chainrule.core.formatting import short_number
from chainrule.core.types import Array, Key
from chainrule.explain.methods.attacks import (
    Aim,
    Attack,
    Attacked,
    Iterated,
    RandomNoise,
    SingleStep,
    SquareSearch,
    Victim,
    aimed,
    attacked,
    probabilities,
)
from chainrule.explain.methods.attacks.attack import keys_of
from chainrule.explain.methods.attacks.functions import check_classes, checked_eps
from chainrule.explain.methods.robustness.alarms import (
    BLACK_BOX,
    MANY_STEPS,
    NOISE,
    ONE_STEP,
    SUSPECTED,
    alarms,
)
from chainrule.nn.attacks import Bounds, largest_change

STARTS = 10
"""Random starts of the iterated attack before an alarm is raised."""
_ADVICE = (
    "Steps went up the cross-entropy, which is led astray where a network is unsure among many classes too: see "
    "whether loss=margin finds more."
)
SHARES = (0.0, 1 / 255, 2 / 255, 4 / 255, 8 / 255, 16 / 255)
"""Radii that are tried unless told, as shares of the range."""


@final
@dataclass(frozen=True)
class Robustness:
    """Accuracy and confidence under attack; `print` shows the table and the alarms."""

    eps: np.ndarray
    """How far examples may be changed, in the units of the attacker, smallest first."""
    accuracy: Mapping[str, np.ndarray]
    """For each attack by name, the share of examples that are right before and after it, at each `eps`."""
    confidence: Mapping[str, np.ndarray]
    """Mean probability of what is then predicted."""
    hits: Mapping[str, np.ndarray]
    """Targeted: the share of examples that are taken for the target; otherwise empty."""
    unlimited: float | None
    """Accuracy under many steps with every change allowed; None where no range is known."""
    alarms: Sequence[str]
    """Signs that gradients are masked."""
    count: int
    """How many examples."""
    repeated: bool
    """Whether many steps were repeated from several random starts, because single ones looked too weak."""
    worst: Array
    """The examples after many steps at the largest `eps`."""
    advice: str = ""
    """What else to try before an alarm is believed."""

    @property
    def masked(self) -> bool:
        """Whether the numbers are no evidence of robustness."""
        return bool(self.alarms)

    def findings(self) -> list[str]:
        """The alarms in sentences; none where there are none."""
        if not self.alarms:
            return []
        return [
            f"{SUSPECTED[0].upper()}{SUSPECTED[1:]}.",
            *self.alarms,
            *([self.advice] if self.advice else []),
        ]

    def __str__(self) -> str:
        """A line for each radius."""
        head = "".join(f"{name:>12}" for name in self.accuracy)
        rows = [
            f"{short_number(float(eps)):>10}"
            + "".join(f"{curve[i]:12.1%}" for curve in self.accuracy.values())
            for i, eps in enumerate(self.eps)
        ]
        return "\n".join([f"{'eps':>10}{head}", *rows, *self.findings()])


def robustness(
    f: Attacked,
    x: ArrayLike,
    y: ArrayLike | None,
    eps: Sequence[float | str] | None = None,
    *,
    norm: str = "inf",
    steps: int = 40,
    loss: str = "cross-entropy",
    momentum: float = 0.0,
    restarts: int = 1,
    queries: int = 500,
    key: Key | None = None,
    bounds: Bounds | None = None,
    targeted: bool = False,
) -> Robustness:
    """Accuracy under noise, one step, many steps and an attack by queries alone, against `eps`, with masking alarms.

    Unless given, `eps` goes from 0 to 16/255 of the range of the data. Without `y`, predicted classes take their place,
    and accuracy says how many of them stay.
    """
    aim = aimed("robustness", f, x, y, bounds=bounds, targeted=targeted)
    check_classes("robustness", aim)
    if eps is not None:
        sizes = sorted({checked_eps("robustness", one, aim, norm) for one in eps})
    elif aim.bounds is not None:
        most = largest_change(aim.bounds, aim.x.shape[1:], norm)
        sizes = [share * most for share in SHARES]
    else:
        raise ArgumentError(
            "robustness(eps=None): the range of the examples is not known",
            remedy="give eps=, or bounds=(low, high)",
        )
    if not sizes:
        raise ArgumentError("robustness(eps=()): give at least one eps")
    tried = attacks_of(norm, steps, loss, momentum, restarts, queries)
    for attack in tried.values():
        attack.check("robustness")
    return examined(aim, sizes, tried, keys_of(key), targeted=targeted)


def attacks_of(
    norm: str,
    steps: int,
    loss: str,
    momentum: float,
    restarts: int,
    queries: int,
    *,
    step: float | None = None,
    random_start: bool = True,
) -> dict[str, Attack]:
    """The attacks of a report by name; no queries: none by them alone."""
    found: dict[str, Attack] = {
        NOISE: RandomNoise(norm),
        ONE_STEP: SingleStep(norm, loss),
        MANY_STEPS: Iterated(norm, loss, steps, step, momentum, restarts, random_start),
    }
    return found | ({BLACK_BOX: SquareSearch(norm, queries=queries)} if queries else {})


def examined(
    aim: Aim,
    sizes: Sequence[float],
    tried: Mapping[str, Attack],
    key: Key,
    *,
    targeted: bool = False,
    own: np.ndarray | None = None,
) -> Robustness:
    """The report on examples; `own` are their classes, where an attack is about others."""
    y = np.asarray(aim.y if own is None else own)
    right = correct(aim.victim, aim.x, y)

    def curve(attack: Attack) -> tuple[np.ndarray, Array]:
        """Accuracy, confidence and hits at every radius; the examples at the last."""
        moved = aim.x
        rows = []
        for eps in sizes:
            moved = attacked(aim, attack, eps, key, targeted=targeted)
            rows.append(measured(aim, moved, y, right, targeted=targeted))
        return np.array(rows).T, moved

    def without_limit(attack: Attack) -> float | None:
        if aim.bounds is None or targeted:
            return None
        moved = attacked(aim, attack, largest_change(aim.bounds, aim.x.shape[1:], attack.norm), key)
        return float((right & correct(aim.victim, moved, y)).mean())

    def raised() -> list[str]:
        # Towards a class an attack may fail although gradients are sound: the class may be out of reach.
        accuracy = {name: found[0][0] for name, found in curves.items()}
        return [] if targeted else alarms(np.asarray(sizes), accuracy, len(y), unlimited)

    curves = {name: curve(attack) for name, attack in tried.items()}
    climbing = tried[MANY_STEPS]
    unlimited = without_limit(climbing)
    found, repeated = raised(), False
    if found and isinstance(climbing, Iterated) and climbing.random_start:
        again = replace(climbing, restarts=max(STARTS, climbing.restarts))
        curves[MANY_STEPS], unlimited = curve(again), without_limit(again)
        found, repeated = raised(), True
    return Robustness(
        np.asarray(sizes, np.float64),
        {name: part[0][0] for name, part in curves.items()},
        {name: part[0][1] for name, part in curves.items()},
        {name: part[0][2] for name, part in curves.items()} if targeted else {},
        *(unlimited, found, len(y), repeated, curves[MANY_STEPS][1]),
        advice=_ADVICE if found and climbing.loss == "cross-entropy" else "",
    )


def correct(victim: Victim, x: Any, y: np.ndarray) -> np.ndarray:
    """Which examples are taken for what they are."""
    return np.asarray(probabilities(victim, x).argmax(axis=-1) == y)


def measured(
    aim: Aim, moved: Any, y: np.ndarray, right: np.ndarray, *, targeted: bool = False
) -> list[float]:
    """Accuracy, confidence and how often the class that the attack is about is predicted."""
    p = probabilities(aim.victim, moved)
    predicted = p.argmax(axis=-1)
    after = predicted == y
    hit = float((predicted == np.asarray(aim.y)).mean()) if targeted else 0.0
    return [float((after & right).mean()), float(p.max(axis=-1).mean()), hit]


__all__ = ["SHARES", "Robustness", "attacks_of", "correct", "examined", "measured", "robustness"]
