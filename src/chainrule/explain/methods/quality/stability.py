"""Stability of explanations: how much they change when the input hardly does.

An explanation that turns over at a change nobody would notice explains little (Alvarez-Melis and Jaakkola, *On the
robustness of interpretability methods*, 2018, arXiv:1806.08049).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.quality.agreement import agreement


@final
@dataclass(frozen=True)
class Stability:
    """What small noise on the inputs does to their explanations."""

    correlation: float
    """Mean rank correlation, by size, with the explanation without noise."""
    change: float
    """Mean length of the change, relative to the length of the explanation without noise."""
    steepest: float
    """The largest length of a change over that of the noise that made it: a local Lipschitz constant, at least."""


def stability(
    attribute: Callable[[np.ndarray], Any], x: Any, noise: Any, *, draws: int = 5, seed: int = 0
) -> Stability:
    """Explanations of inputs with normal noise of this deviation beside those without.

    `attribute` takes a batch of inputs and gives their values: `lambda x: integrated_gradients(f, x).values`.

    >>> found = stability(lambda x: 2 * x, np.ones((4, 3)), 0.01)
    >>> round(found.steepest, 6), found.change < 0.05
    (2.0, True)
    """
    count = whole("stability", "draws", draws)
    if not np.all(np.asarray(noise) > 0):
        raise ArgumentError(
            f"stability(noise={noise}): the deviation of the noise",
            remedy="choose a positive number, as 0.01",
        )
    given = np.asarray(x)
    generator = np.random.default_rng(seed)
    still = _rows(attribute(given))
    size = np.maximum(np.linalg.norm(still, axis=1), 1e-30)
    alike, changes, slopes = [], [], []
    for _ in range(count):
        step = (np.asarray(noise) * generator.standard_normal(given.shape)).astype(given.dtype)
        moved = _rows(attribute(given + step))
        alike.append(agreement({"still": still, "moved": moved}).correlation[0, 1])
        length = np.linalg.norm(moved - still, axis=1)
        changes.append((length / size).mean())
        slopes.append((length / np.linalg.norm(_rows(step), axis=1)).max())
    return Stability(float(np.mean(alike)), float(np.mean(changes)), float(np.max(slopes)))


def _rows(values: Any) -> Float[np.ndarray, "batch entries"]:
    found = np.asarray(values, np.float64)
    return found.reshape(len(found), -1)


__all__ = ["Stability", "stability"]
