"""Attacks as values: what each does with an objective, so that reports, certificates and tables try them alike."""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, final

import jax

from chainrule.core.checks import share, whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Key
from chainrule.explain.methods.attacks.aim import Objective
from chainrule.nn.attacks import (
    MEASURES,
    NORMS,
    Bounds,
    Reached,
    automatic,
    best_of,
    climb,
    furthest,
    inside,
    norm_named,
    single_step,
    square,
)


class Attack(abc.ABC):
    """Moves examples within balls of a radius to where an objective is larger."""

    needs_gradient: ClassVar[bool] = True
    norm: str
    loss: str
    """What is driven up: "cross-entropy" or "margin"."""
    restarts: int = 1
    """Starts, of which every example keeps the one that got furthest."""

    @abc.abstractmethod
    def moved(self, goal: Objective, x: Array, eps: Any, key: Key, bounds: Bounds | None) -> Array:
        """Examples after the attack; `eps` is a number, or one for each example with axes of length one behind it."""

    @abc.abstractmethod
    def check_own(self, where: str) -> None:
        """Refuse settings of its own that mean nothing."""

    def check(self, where: str) -> None:
        """Refuse settings that mean nothing."""
        norm_named(where, self.norm)
        check_choice(where, "loss", self.loss, MEASURES)
        self.check_own(where)


@final
@dataclass(frozen=True)
class RandomNoise(Attack):
    """No attack at all: a random change of the largest size allowed, for comparison."""

    needs_gradient: ClassVar[bool] = False
    norm: str = "inf"
    loss: str = "cross-entropy"

    def moved(self, goal: Objective, x: Array, eps: Any, key: Key, bounds: Bounds | None) -> Array:
        """One draw."""
        del goal
        return inside(x + eps * NORMS[self.norm].extreme(key, x), bounds)

    def check_own(self, where: str) -> None:
        """There are none."""


@final
@dataclass(frozen=True)
class SingleStep(Attack):
    """One step of the whole length up the gradient (FGSM)."""

    norm: str = "inf"
    loss: str = "cross-entropy"

    def moved(self, goal: Objective, x: Array, eps: Any, key: Key, bounds: Bounds | None) -> Array:
        """From the example itself."""
        del key
        return single_step(goal.loss, x, eps, norm=self.norm, bounds=bounds)

    def check_own(self, where: str) -> None:
        """There are none."""


@final
@dataclass(frozen=True)
class Iterated(Attack):
    """Many steps, each projected back (PGD)."""

    norm: str = "inf"
    loss: str = "cross-entropy"
    steps: int = 40
    step: float | None = None
    """Length of a step; 2.5 eps / steps unless given."""
    momentum: float = 0.0
    restarts: int = 1
    random_start: bool = True

    def moved(self, goal: Objective, x: Array, eps: Any, key: Key, bounds: Bounds | None) -> Array:
        """Of all points on the way, and of several starts, for each example the one that got furthest ahead."""
        size = 2.5 * eps / self.steps if self.step is None else self.step

        start = key if self.random_start else None
        further: dict[str, Any] = {"norm": self.norm, "momentum": self.momentum, "bounds": bounds}
        if goal.joint is None:
            return climb(goal.loss, x, eps, size, self.steps, key=start, **further)
        joint = goal.joint
        return best_of(
            lambda key: furthest(joint, x, eps, size, self.steps, key=key, **further), start, self.restarts
        )

    def check_own(self, where: str) -> None:
        """Counts of at least one, and restarts that differ."""
        whole(where, "steps", self.steps)
        whole(where, "restarts", self.restarts)
        share(where, "momentum", self.momentum, "the share of earlier gradients that is kept")
        if self.step is not None and not self.step > 0:
            raise ArgumentError(f"{where}(step={self.step:g}): a step has a positive length")
        if self.restarts > 1 and not self.random_start:
            raise ArgumentError(
                f"{where}(restarts={self.restarts}, random_start=False): all starts would be the same",
                remedy="leave one of the two out",
            )


@final
@dataclass(frozen=True)
class AutomaticSteps(Attack):
    """Many steps that find their own length."""

    norm: str = "inf"
    loss: str = "margin"
    steps: int = 100
    restarts: int = 1

    def moved(self, goal: Objective, x: Array, eps: Any, key: Key, bounds: Bounds | None) -> Array:
        """Of several starts, for each example the one that got furthest ahead."""

        def once(key: Key) -> Reached:
            return automatic(goal.loss, x, eps, self.steps, norm=self.norm, key=key, bounds=bounds)

        return best_of(once, key, self.restarts)

    def check_own(self, where: str) -> None:
        """Counts of at least one."""
        whole(where, "steps", self.steps)
        whole(where, "restarts", self.restarts)


@final
@dataclass(frozen=True)
class SquareSearch(Attack):
    """Random search by queries alone (square attack)."""

    needs_gradient: ClassVar[bool] = False
    norm: str = "inf"
    loss: str = "margin"
    queries: int = 1000
    restarts: int = 1

    def moved(self, goal: Objective, x: Array, eps: Any, key: Key, bounds: Bounds | None) -> Array:
        """Of several searches, for each example the one that got furthest ahead."""

        def once(key: Key) -> Reached:
            return square(goal.loss, x, eps, self.queries, key, norm=self.norm, bounds=bounds)

        return best_of(once, key, self.restarts)

    def check_own(self, where: str) -> None:
        """Counts of at least one."""
        whole(where, "queries", self.queries)
        whole(where, "restarts", self.restarts)


def keys_of(key: Key | None) -> Key:
    """The key that is given, or always the same one."""
    return jax.random.key(0) if key is None else key


__all__ = [
    "Attack",
    "AutomaticSteps",
    "Iterated",
    "RandomNoise",
    "SingleStep",
    "SquareSearch",
    "keys_of",
]
