"""Value iteration on a grid: values and best moves sweep by sweep, and how far from the optimum they can be."""

from typing import Any, Literal, final

import numpy as np
from jaxtyping import Bool
from pydantic import Field

from chainrule.agents import envs, mdp
from chainrule.agents.envs.drawing import Drawing
from chainrule.agents.envs.finite import FiniteEnvironment
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Film, Lines, Picture, Slides, Table
from chainrule.explain.methods.decision_drawings import value_grid
from chainrule.explain.methods.grids import grid_of, is_closed
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings

_SHOWN = (0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 30, 50, 100, 200, 500, 1000, 2000, 5000)
_EQUAL = 1e-9


@final
class ValueIterationSettings(Settings):
    """The world, and how far ahead one looks."""

    env: Literal["frozen-lake", "cliff-walking", "grid-world"] = Field("frozen-lake", description="the grid")
    size: Literal["4x4", "8x8"] = Field("4x4", description="of the frozen lake")
    slippery: bool = Field(True, description="whether steps on the lake slip to the side")
    layout: str = Field(
        "...G/.#.X/S...",
        description="map of the grid world: rows divided by /; S start, . free, # wall, G goal, X trap",
    )
    gamma: float = Field(0.99, ge=0, lt=1, description="discount")
    tolerance: float = Field(1e-6, gt=0, le=1, description="proven error at which sweeps stop")


def run(settings: ValueIterationSettings, listener: Listener) -> Outcome:
    """Sweep, and hold every sweep against the exact solution."""
    env = _environment(settings)
    table = mdp.enumerated(env)
    exact = table.solve(settings.gamma)
    swept = table.solve(settings.gamma, method="value-iteration", tolerance=settings.tolerance)
    programme = table.solve(settings.gamma, method="linear-programme")
    listener(f"{swept.iterations} sweeps of {len(table.states) - 1} states")
    by_sweep = mdp.sweeps(table.transition, table.rewards, settings.gamma, swept.iterations)
    errors = np.abs(by_sweep - exact.values).max(1)
    change = np.abs(np.diff(by_sweep, axis=0)).max(1)
    bounds = settings.gamma / (1 - settings.gamma) * change
    right = next(
        (
            sweep
            for sweep in range(len(by_sweep))
            if _is_optimal(table, by_sweep[sweep], exact, settings.gamma)
        ),
        swept.iterations,
    )
    start = float(table.start @ exact.values)
    findings = [
        f"{settings.env} with gamma = {settings.gamma:g}: the best policy is worth {start:.6f} at the start.",
        f"{swept.iterations} sweeps prove an error below {settings.tolerance:g}; the true one is {errors[-1]:.2g}.",
        f"Acting by the values is optimal from sweep {right} on, when they are still off by {errors[right]:.3g}.",
        f"Policy iteration valued {exact.iterations} policies, the linear programme agrees to "
        f"{np.abs(programme.values - exact.values).max():.1g}.",
    ]
    drawings, notes = _drawn(env, table, by_sweep, exact, settings.gamma)
    frames = np.stack([one.to_pixels(1.0) for one in drawings])[:, None] / 255.0
    pictures: list[Picture] = [
        Slides(
            "sweeps",
            "Values and best moves, sweep by sweep",
            [one.to_svg() for one in drawings],
            notes,
            caption="Arrows: every action that is best by these values; none where an episode is over.",
        ),
        Film(
            "sweeps-film",
            "Values spread from where rewards are",
            frames.astype(np.float32),
            [note.partition("\n")[0] for note in notes],
            columns=1,
            seconds=6.0,
        ),
        _convergence(errors, bounds),
    ]
    numbers: dict[str, Any] = {
        "start_value": start,
        "sweeps": swept.iterations,
        "bound": swept.bound,
        "error": float(errors[-1]),
        "policy_optimal_from_sweep": right,
        "policies_valued": exact.iterations,
        "values": exact.values[:-1].tolist(),
        "policy": [table.actions[action] for action in exact.policy[:-1]],
    }
    return Outcome(findings, pictures, _rows(errors, bounds), numbers)


def _environment(settings: ValueIterationSettings) -> FiniteEnvironment:
    options: dict[str, dict[str, Any]] = {
        "frozen-lake": {"size": settings.size, "slippery": settings.slippery},
        "grid-world": {"layout": settings.layout},
        "cliff-walking": {},
    }
    found = envs.make(settings.env, **options[settings.env])
    if not isinstance(found, FiniteEnvironment):
        raise ArgumentError(f"env={settings.env}: its states cannot be counted")
    return found


def _good(
    table: mdp.EnumeratedEnvironment, values: np.ndarray, gamma: float
) -> Bool[np.ndarray, "states actions"]:
    """Which actions are best by some values."""
    q = table.rewards + gamma * table.transition @ values
    good: np.ndarray = q >= q.max(1, keepdims=True) - _EQUAL
    return good


def _is_optimal(
    table: mdp.EnumeratedEnvironment, values: np.ndarray, exact: mdp.DecisionSolution, gamma: float
) -> bool:
    """Whether every action that is best by the values is an optimal one."""
    good = _good(table, values, gamma)
    optimal = np.zeros_like(good)
    for state, actions in enumerate(exact.actions):
        optimal[state, list(actions)] = True
    return bool((~good | optimal).all())


def _drawn(
    env: FiniteEnvironment,
    table: mdp.EnumeratedEnvironment,
    by_sweep: np.ndarray,
    exact: mdp.DecisionSolution,
    gamma: float,
) -> tuple[list[Drawing], list[str]]:
    """A drawing of chosen sweeps, and what is said of each."""
    colors, shape = grid_of(env)
    closed = is_closed(table)
    scale = float(np.abs(exact.values[:-1][~closed]).max(initial=0.0))
    drawings, notes = [], []
    for sweep in sorted({min(sweep, len(by_sweep) - 1) for sweep in _SHOWN}):
        values = by_sweep[sweep]
        good = _good(table, values, gamma)
        # Before anything is known all actions are equally good, and arrows would say nothing.
        actions = [
            () if end else ("",) if row.all() else tuple(table.actions[a] for a in np.flatnonzero(row))
            for row, end in zip(good[:-1], closed, strict=True)
        ]
        drawings.append(
            value_grid(values[:-1].reshape(shape), actions, colors, f"values after {sweep} sweeps", scale)
        )
        off = np.abs(values - exact.values).max()
        notes.append(f"sweep {sweep}\noff by {off:.3g} at most")
    return drawings, notes


def _convergence(errors: np.ndarray, bounds: np.ndarray) -> Lines:
    time = np.arange(1, len(errors))
    return Lines(
        "sweeps-error",
        "How far the values are off",
        "sweep",
        "largest error",
        {
            "true error": (time, np.maximum(errors[1:], 1e-16)),
            "proven bound": (time, np.maximum(bounds, 1e-16)),
        },
        log_y=True,
        caption="The bound is gamma / (1 - gamma) times the last change; it needs no knowledge of the optimum.",
    )


def _rows(errors: np.ndarray, bounds: np.ndarray) -> Table:
    shown = sorted({min(sweep, len(errors) - 1) for sweep in _SHOWN if sweep})
    rows = [[sweep, float(f"{errors[sweep]:.4g}"), float(f"{bounds[sweep - 1]:.4g}")] for sweep in shown]
    return Table("sweeps-table", "Errors and bounds", ["sweep", "true error", "proven bound"], rows)


experiment = Experiment(
    "Value iteration on a lake, a cliff or a map of your own: values and best moves, sweep by sweep, with the bound.",
    ValueIterationSettings,
    run,
    toy={"gamma": 0.8, "tolerance": 0.01},
    reference="Bellman, Dynamic Programming, 1957; Puterman, Markov Decision Processes, 1994, section 6.3",
)

__all__ = ["ValueIterationSettings", "experiment", "run"]
