"""Attacks that are made against one network and judged by another, which the attacker has not seen.

Papernot, McDaniel and Goodfellow, *Transferability in machine learning*, 2016 (arXiv:1605.07277).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Key
from chainrule.explain.methods.attacks import Aim, Attack, Attacked, Iterated, aimed, attacked
from chainrule.explain.methods.attacks.attack import keys_of
from chainrule.explain.methods.attacks.functions import check_classes, checked_eps
from chainrule.explain.methods.robustness.report import correct
from chainrule.nn.attacks import Bounds


class Transfer(NamedTuple):
    """Accuracies of several networks on examples that were made against each of them."""

    clean: np.ndarray
    """Of each network on the examples as they are."""
    accuracy: np.ndarray
    """Rows: whom the examples were made against; columns: who judges them."""


def transfer_attack(
    networks: Sequence[Attacked],
    x: ArrayLike,
    y: ArrayLike,
    eps: float | str,
    steps: int = 40,
    *,
    norm: str = "inf",
    loss: str = "cross-entropy",
    momentum: float = 0.0,
    restarts: int = 1,
    random_start: bool = True,
    key: Key | None = None,
    bounds: Bounds | None = None,
    targeted: bool = False,
) -> Transfer:
    """Accuracy of every network on examples made against every network; off the diagonal nobody saw the judge."""
    attack = Iterated(norm, loss, steps, None, momentum, restarts, random_start)
    attack.check("transfer_attack")
    if len(networks) < 2:
        raise ArgumentError(
            "transfer_attack: examples go from one network to another", remedy="give at least two"
        )
    aims = [aimed("transfer_attack", f, x, y, bounds=bounds, targeted=targeted) for f in networks]
    for aim in aims:
        check_classes("transfer_attack", aim)
    radius = checked_eps("transfer_attack", eps, aims[0], norm)
    return transferred(aims, attack, radius, keys_of(key), np.asarray(y), targeted=targeted)


def transferred(
    aims: Sequence[Aim], attack: Attack, eps: float, key: Key, y: np.ndarray, *, targeted: bool = False
) -> Transfer:
    """The same of networks that are aimed at; `y` are the classes the examples are of."""
    before = np.array([correct(aim.victim, aim.x, y) for aim in aims])
    rows = []
    for source in aims:
        moved = attacked(source, attack, eps, key, targeted=targeted)
        rows.append(
            [(right & correct(aim.victim, moved, y)).mean() for aim, right in zip(aims, before, strict=True)]
        )
    return Transfer(before.mean(axis=1), np.array(rows))


__all__ = ["Transfer", "transfer_attack", "transferred"]
