"""Eps on its way down: each size of it starts from the potentials of the one before.

Potentials are what stays meaningful while eps falls; scalings `u = exp(f / eps)` do not. A stage before the last ends
when its marginals are roughly right. At the usual eps of a twentieth of the mean cost there is one stage.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Scalar
from chainrule.probability.transport.entropic.costs import EntropicProblem
from chainrule.probability.transport.entropic.iteration import (
    Memory,
    StoppingRule,
    Sweep,
    SweepState,
    converge,
)

_FIRST = 0.05
"""The first eps over the mean cost, unless it is larger from the outset."""
_FALL = 0.5
"""Factor by which eps falls."""
_ROUGH = 0.02
"""Error of the marginals at which eps falls."""
_FEW = 50
"""Sweeps after which it falls at any error."""
_COARSE = 0.1
"""Share of the tolerance that rounding of costs of mean size may take, before half of it is left to rounding."""

SweepAt = Callable[[Array, Array, Array], tuple[Sweep, Callable[[Array, Array], Array]]]
"""From potentials and eps to a sweep, and to whether other potentials are near enough for it."""


class _Stage(NamedTuple):
    state: SweepState
    ahead: Float[Array, " others"]
    memory: Memory
    eps: Scalar
    final: Array
    """Whether the error is that at the last eps."""


def solve_in_stages(
    problem: EntropicProblem,
    limits: StoppingRule,
    depth: int,
    sweep_at: SweepAt,
    f: Float[Array, " some"],
    g: Float[Array, " others"],
    mean: Scalar,
) -> SweepState:
    """Potentials of the best plan, from some to begin with and the mean cost; all sweeps count, at whichever eps."""
    coarse = jnp.finfo(g.dtype).eps * mean > _COARSE * limits.tolerance * problem.eps
    limits = limits._replace(tolerance=jnp.where(coarse, limits.tolerance / 2, limits.tolerance))

    def stage(carry: _Stage) -> _Stage:
        eps, before = carry.eps, carry.state
        final = eps <= problem.eps
        sweep, near = sweep_at(before.f, carry.ahead, eps)
        left = limits.most - before.sweeps
        goal = StoppingRule(
            jnp.where(final, limits.tolerance, _ROUGH), jnp.where(final, left, jnp.minimum(left, _FEW))
        )
        start = before._replace(g=carry.ahead)
        state, ahead, memory, inside = converge(sweep, start, carry.memory, problem.b, eps, goal, near)
        # Steps at one eps say nothing about another.
        falling = inside & ~final
        memory = memory.forgotten(falling)
        eps = jnp.where(falling, jnp.maximum(_FALL * eps, problem.eps), eps)
        return _Stage(state, ahead, memory, eps, final)

    def unfinished(carry: _Stage) -> Array:
        done = carry.final & (carry.state.error <= limits.tolerance)
        return ~done & (carry.state.sweeps < limits.most)

    start = _Stage(
        SweepState(f, g, jnp.asarray(jnp.inf, g.dtype), jnp.zeros((), int)),
        g,
        Memory.empty(g, depth),
        jnp.maximum(_FIRST * mean, problem.eps),
        jnp.asarray(False),
    )
    return jax.lax.while_loop(unfinished, stage, start).state


__all__ = ["SweepAt", "solve_in_stages"]
