"""Runge-Kutta methods for the probability flow, along straight lines between noise levels.

A step of first order is one of DDIM; that of second order is Heun's rule in time, as flow matching uses it, where the
sampler `heun` takes it in sigma.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, NamedTuple, Self, final

import jax.numpy as jnp
from pydantic import Field

from chainrule.core.types import Array, Key, Tree
from chainrule.models.diffusion.process import Process, VariancePreserving
from chainrule.models.diffusion.samplers.chord import flow, velocity
from chainrule.models.diffusion.samplers.sampler import Estimator, NamedSampler, Span


class _Tableau(NamedTuple):
    """Where each slope after the first is taken, from which slopes its point is reached, and what all of them weigh."""

    nodes: tuple[float, ...]
    rows: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]


_TABLEAUX = {
    2: _Tableau((1.0,), ((1.0,),), (0.5, 0.5)),
    3: _Tableau((0.5, 1.0), ((0.5,), (-1.0, 2.0)), (1 / 6, 2 / 3, 1 / 6)),
    4: _Tableau((0.5, 0.5, 1.0), ((0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
    5: _Tableau(
        (0.161, 0.327, 0.9, 0.9800255409045097, 1.0),
        (
            (0.161,),
            (-0.008480655492356989, 0.335480655492357),
            (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
            (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
            (
                *(5.86145544294642, -12.92096931784711, 8.159367898576159),
                *(-0.071584973281401, -0.028269050394068383),
            ),
        ),
        (
            *(0.09646076681806523, 0.01, 0.4798896504144996),
            *(1.379008574103742, -3.290069515436081, 2.324710524099774),
        ),
    ),
}
"""Heun, Kutta (1901) of third and fourth order, Tsitouras (2011)."""


@final
@dataclass(frozen=True)
class RungeKutta(NamedSampler):
    """Slopes at several points of a straight step, weighed: Heun's rule, Kutta's, or that of Tsitouras (2011)."""

    name: ClassVar[str] = "runge-kutta"
    order: Annotated[
        int,
        Field(
            ge=2, le=5, description="2 is Heun's rule, 5 that of Tsitouras; 2, 3, 4 and 6 evaluations a step"
        ),
    ] = 2
    process: Process = field(default_factory=VariancePreserving)

    @property
    def deterministic(self) -> bool:
        """Always."""
        return True

    def steps_within(self, evaluations: int) -> int:
        """As many evaluations in every step as there are slopes."""
        return max(1, evaluations // len(_TABLEAUX[self.order].weights))

    def for_process(self, process: Process) -> Self:
        """With the levels of the process the network knows."""
        return replace(self, process=process)

    def step(
        self, estimate: Estimator, x: Array, memory: Tree, span: Span, key: Key
    ) -> tuple[Array, Tree, Array]:
        """The weighed slopes, the first of them at the beginning of the step."""
        del key
        nodes, rows, weights = _TABLEAUX[self.order]
        guess = estimate(x, span.here)
        slope, slopes = flow(estimate, span, self.process), [velocity(span, guess)]
        for node, row in zip(nodes, rows, strict=True):
            slopes.append(slope(jnp.asarray(node, x.dtype), _moved(x, row, slopes)))
        return _moved(x, weights, slopes), memory, guess.x0


def _moved(x: Array, weights: tuple[float, ...], slopes: list[Array]) -> Array:
    return x + sum(weight * slope for weight, slope in zip(weights, slopes, strict=True) if weight)


__all__ = ["RungeKutta"]
