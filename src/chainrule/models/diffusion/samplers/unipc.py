"""UniPC: a predictor of any order, corrected by the estimate that the next step needs anyway (Zhao et al., 2023)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple, final

import jax.numpy as jnp
from pydantic import Field

from chainrule.core.types import Array, Key, Tree
from chainrule.models.diffusion.process import Level
from chainrule.models.diffusion.samplers.sampler import Estimator, NamedSampler, Span, half_lam


class _Past(NamedTuple):
    """What the step before began with, and what is known of earlier ones."""

    x: Array
    """Corrected, at the level before."""
    guesses: Array
    """Estimates of x0 there and at the levels before it, latest first."""
    times: Array
    """log(a/s) of these levels."""
    level: Level
    order: Array
    """Of the step before."""


@final
@dataclass(frozen=True)
class UniPC(NamedSampler):
    """Predicts along the polynomial of log(a/s) through the last estimates of x0, then corrects by the next one.

    A corrector costs no evaluation: the estimate at the predicted point moves the point itself before it serves the
    next step. With it the method is of order `order` + 1. First and last steps are of lower order, as in
    `dpm-solver-3m`.
    """

    name: ClassVar[str] = "unipc"
    spacing: ClassVar[str] = "uniform-lam"
    order: Annotated[
        int, Field(ge=1, le=3, description="of the predictor; 2 suits guidance, 3 samples without")
    ] = 2
    correct: Annotated[bool, Field(description="whether steps are corrected")] = True

    @property
    def deterministic(self) -> bool:
        """Always."""
        return True

    def start(self, x: Array) -> Tree:
        """No step yet."""
        one = jnp.ones((), x.dtype)
        return _Past(
            x,
            jnp.zeros((self.order, *x.shape), x.dtype),
            jnp.arange(self.order, dtype=x.dtype)[::-1],
            Level(one, one),
            jnp.zeros((), int),
        )

    def step(
        self, estimate: Estimator, x: Array, memory: Tree, span: Span, key: Key
    ) -> tuple[Array, Tree, Array]:
        """The last step corrected by the estimate here, and the next one predicted from it."""
        del key
        here, there = span.here, span.there
        guess, time = estimate(x, here).x0, half_lam(here).astype(x.dtype)
        if self.correct:
            corrected = self._moved(
                memory.x, memory.guesses, memory.times, memory.level, here, memory.order, guess
            )
            x = jnp.where(span.number == 0, x, corrected).astype(x.dtype)
        guesses = jnp.concatenate([guess[None], memory.guesses[:-1]])
        times = jnp.concatenate([time[None], memory.times[:-1]])
        left = jnp.where(span.total < 15, span.total - 1 - span.number, self.order)
        order = jnp.minimum(jnp.minimum(span.number, left) + 1, self.order)
        moved = self._moved(x, guesses, times, here, there, order, None)
        moved = jnp.where(there.s == 0, guess, moved).astype(x.dtype)
        kept = _Past(x, guesses, times, Level(*(jnp.asarray(v, x.dtype) for v in here)), order)
        return moved, kept, guess

    def _moved(
        self,
        x: Array,
        guesses: Array,
        times: Array,
        here: Level,
        there: Level,
        order: Array,
        arrived: Array | None,
    ) -> Array:
        """The step from one level to another by the estimates up to it and, to correct it, the one at its end."""
        length = jnp.where(jnp.asarray(there.s) == 0, 1.0, half_lam(there) - times[0])
        gone = jnp.expm1(-length)  # B(h) of the paper, with its sign
        rest = jnp.zeros_like(x)
        for known in range(1, self.order + 1):  # one of them counts
            positions = [(times[i] - times[0]) / length for i in range(1, known)]
            slopes = [(guesses[i] - guesses[0]) / position for i, position in enumerate(positions, start=1)]
            if arrived is not None:
                positions, slopes = [*positions, jnp.ones_like(length)], [*slopes, arrived - guesses[0]]
            weights = _weights(positions, length)
            total = sum(w * slope for w, slope in zip(weights, slopes, strict=True))
            rest = jnp.where(order == known, total, rest)
        return there.s / here.s * x - there.a * gone * (guesses[0] + rest)


def _weights(positions: Sequence[Array], length: Array) -> Sequence[Array]:
    """Weights of slopes towards estimates at `positions` (0 is here, 1 the end of the step) that make the rule exact.

    Exact for estimates that are polynomials of log(a/s) of a degree that is their number. One slope gets a half, which
    is exact up to the order that counts.
    """
    count = len(positions)
    if count <= 1:
        return [jnp.full((), 0.5, length.dtype)] * count
    hh, factorial = -length, 1.0
    scale = jnp.expm1(hh)
    phi = scale / hh - 1
    wanted = []
    for power in range(1, count + 1):
        wanted.append(phi * factorial / scale)
        factorial *= power + 1
        phi = phi / hh - 1 / factorial
    powers = jnp.stack([jnp.stack([position**power for position in positions]) for power in range(count)])
    return list(jnp.linalg.solve(powers, jnp.stack(wanted)))


__all__ = ["UniPC"]
