"""A lower bound of a divergence between two samples, beside that between two real samples; words and a picture of it.

The second number is the floor: what chance and the critic's habits make of samples of one and the same law.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.core.pictures import Lines, Table
from chainrule.core.types import Key
from chainrule.information import DivergenceEstimate, divergence_estimate
from chainrule.probability.divergences.named import named

_BINS = 40


@final
@dataclass(frozen=True)
class BesideFloor:
    """Both bounds, and the points they are of."""

    between: DivergenceEstimate
    floor: DivergenceEstimate
    names: tuple[str, str]
    """What the two samples are called, in the plural."""
    of_floor: str
    """What the floor is between."""

    @property
    def findings(self) -> list[str]:
        """Both bounds in sentences."""
        one, floor = self.between, self.floor
        name, (first, second) = one.divergence.name, self.names
        apart = one.value - floor.value
        error = float(np.hypot(one.error, floor.error))
        verdict = (
            f"The critic tells {second} from {first}: {apart:.3g} ± {error:.2g} above the floor."
            if apart > 2 * error
            else f"That is no more than chance: {apart:.3g} ± {error:.2g} above the floor."
        )
        return [
            f"{name} between {first} and {second}: at least {one.value:.4g} ± {one.error:.2g}, on {one.scored_on} "
            f"({one.counts[0]:,} and {one.counts[1]:,}); between {self.of_floor}: {floor.value:.4g} ± "
            f"{floor.error:.2g}.",
            verdict,
            *one.remarks,
        ]

    @property
    def numbers(self) -> dict[str, Any]:
        """The same for machines."""
        return {
            "divergence": self.between.divergence.name,
            "bound": self.between.value,
            "error": self.between.error,
            "on_fitted": self.between.on_fitted,
            "floor": self.floor.value,
            "floor_error": self.floor.error,
            "steps": self.between.steps,
        }

    def table(self) -> Table:
        """Both, with how they came about."""
        rows: list[list[str | float | int]] = [
            [
                label,
                *(float(f"{v:.4g}") for v in (one.value, one.error, one.on_fitted)),
                *one.counts,
                one.best_step,
            ]
            for label, one in ((" and ".join(self.names), self.between), (self.of_floor, self.floor))
        ]
        columns = ["between", "bound", "±", "on the fitted half", "points", "and", "best step"]
        return Table("bounds", f"Lower bounds of {self.between.divergence.name}", columns, rows)

    def picture(self, x: np.ndarray, y: np.ndarray) -> Lines:
        """The learned critic over the points of both samples, and over its f'(1)."""
        critic, one = self.between.critic, self.between.divergence
        values = [critic(points) for points in (x, y)]
        low, high = np.quantile(np.concatenate(values), [0.005, 0.995])
        edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
        middle = (edges[1:] + edges[:-1]) / 2
        series = {
            name: (middle, np.histogram(points, edges)[0] / len(points))
            for name, points in zip(self.names, values, strict=True)
        }
        remark = f" {one.remark}" if one.remark else ""
        return Lines(
            "critic",
            f"What the critic of {one.name} makes of both",
            "T(x)",
            "share of the points",
            series,
            marks=((one.threshold, "f'(1)"),),
            caption=f"Right of f'(1) = {one.threshold:.3g} a point looks like one of the {self.names[0]}. "
            f"Histograms of equal laws are one.{remark}",
        )


def beside_floor(
    x: np.ndarray,
    y: np.ndarray,
    others: np.ndarray,
    *,
    names: tuple[str, str],
    of_floor: str,
    divergence: str,
    key: Key,
    **options: Any,
) -> BesideFloor:
    """The bound of D(law of x, law of y), and that between x and `others`, more points of the law of x."""
    chosen = named(divergence)
    return BesideFloor(
        divergence_estimate(x, y, chosen, key=key, **options),
        divergence_estimate(x, others, chosen, key=key, **options),
        names,
        of_floor,
    )


__all__ = ["BesideFloor", "beside_floor"]
