"""Cat world: a reward process and a decision process solved by hand, by sweeps and by simulation."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float
from pydantic import Field
from scipy.optimize import brentq

from chainrule.agents import mdp
from chainrule.agents.mdp import cat_world
from chainrule.core import random
from chainrule.core.pictures import Bars, Lines, Picture, Slides, Table
from chainrule.explain.methods.decision_drawings import GraphMove, transition_graph
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings

_MIDDLES = ((90, 100), (90, 310), (320, 310), (545, 205), (320, 100), (730, 310))
_SIZE = (800, 360)
_RELAXED, _CONFUSED, _SLEEPING = (
    cat_world.STATES.index(name) for name in ("relaxed", "confused", "sleeping")
)
_PATH = ("hungry", "hunting", "hungry", "affectionate", "sleeping")
_SHOWN = (0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500)
"""Sweeps that have a slide."""


@final
class CatWorldSettings(Settings):
    """How far ahead one looks, and how much is simulated."""

    gamma: float = Field(
        0.9, ge=0, le=1, description="discount: what a reward of the next step counts for now"
    )
    sweeps: int = Field(100, ge=1, le=500, description="sweeps of value iteration that are shown")
    paths: int = Field(10_000, ge=2, le=100_000, description="simulated paths from each state")
    seed: int = Field(0, ge=0, description="of the paths")


def run(settings: CatWorldSettings, listener: Listener) -> Outcome:
    """Solve the cat in every way and draw it."""
    gamma = settings.gamma
    names = cat_world.STATES
    process = mdp.RewardProcess(cat_world.chain(), cat_world.rewards(), gamma, names=names)
    listener(f"simulating {settings.paths:,} paths from each state")
    simulated = process.simulate(random.key(settings.seed, "cat-world"), settings.paths)
    methods = ["policy-iteration", "linear-programme", *(["value-iteration"] if gamma < 1 else [])]
    solved = [_decided(gamma, method=method) for method in methods]
    best = solved[0]
    apart = max(float(np.abs(one.values - best.values).max()) for one in solved)
    flip = turning_point()
    by_sweep = mdp.sweeps(cat_world.chain(), cat_world.rewards(), gamma, settings.sweeps)
    decided_by_sweep = mdp.sweeps(cat_world.decisions(), cat_world.rewards(), gamma, settings.sweeps)
    talk, stroke = best.q[_RELAXED]
    better = " or ".join(cat_world.ACTIONS[action] for action in best.actions[_RELAXED])
    off = float(np.abs(simulated.deviations).max())
    findings = [
        f"Left to itself with gamma = {gamma:g}, the cat is worth {_spelled(names, process.values)}.",
        f"It sleeps after {process.steps[0]:.3f} steps if it is hunting, {process.steps[1]:.3f} if it is hungry, "
        f"{process.steps[_RELAXED]:.3f} if it is relaxed, on average.",
        f"The path {', '.join(_PATH)} returns {process.path_return(_PATH):.6g}; without a discount "
        f"{_undiscounted():.6g}.",
        f"Means of {settings.paths:,} simulated paths from each state are off by at most {off:.1f} standard errors.",
        f"With somebody beside it, a relaxed cat is worth {talk:.5f} if one talks and {stroke:.5f} if one strokes: "
        f"{better} is best.",
        f"{len(solved)} methods ({', '.join(methods)}) agree to {apart:.1g}.",
        f"Talking is best for gamma below {flip:.6f}, stroking above it: who looks far ahead lets the cat sleep.",
    ]
    pictures: list[Picture] = [
        _slides("cat-chain", "The cat by itself, sweep by sweep", by_sweep, gamma, decisions=False),
        _slides(
            "cat-decisions", "The cat with company, sweep by sweep", decided_by_sweep, gamma, decisions=True
        ),
        _convergence(by_sweep, process.values),
        _over_gamma(flip),
        _simulated(simulated),
    ]
    return Outcome(findings, pictures, _table(process, best), _numbers(process, best, simulated, flip, apart))


def turning_point() -> float:
    """The discount at which talking and stroking are worth the same."""

    def lead(gamma: float) -> float:
        talk, stroke = _decided(gamma).q[_RELAXED]
        return float(talk - stroke)

    return float(brentq(lead, 0.5, 0.999, xtol=1e-12))


def _decided(gamma: float, **options: Any) -> mdp.DecisionSolution:
    found: mdp.DecisionSolution = mdp.solve(cat_world.decisions(), cat_world.rewards(), gamma, **options)
    return found


def _undiscounted() -> float:
    patient = mdp.RewardProcess(cat_world.chain(), cat_world.rewards(), 1.0, names=cat_world.STATES)
    return patient.path_return(_PATH)


def _spelled(names: Sequence[str], values: np.ndarray) -> str:
    return ", ".join(f"{value:.5f} {name}" for name, value in zip(names, values, strict=True))


def _moves(q: Float[np.ndarray, "actions"] | None) -> list[GraphMove]:
    """Arrows of the chain; with values of the two actions those of a relaxed cat are decisions."""
    found = [
        GraphMove(int(i), int(j), f"{cat_world.chain()[i, j]:g}")
        for i, j in np.argwhere(cat_world.chain() > 0)
        if q is None or i != _RELAXED
    ]
    if q is not None:
        ends = (_CONFUSED, _SLEEPING)
        found += [
            GraphMove(_RELAXED, end, f"{action} {value:.4g}", strong=bool(value >= q.max() - 1e-9))
            for action, value, end in zip(cat_world.ACTIONS, q, ends, strict=True)
        ]
    return found


def _slides(name: str, title: str, by_sweep: np.ndarray, gamma: float, *, decisions: bool) -> Slides:
    drawings, notes = [], []
    for sweep in sorted({min(sweep, len(by_sweep) - 1) for sweep in _SHOWN}):
        values = by_sweep[sweep]
        q = None
        if decisions:
            after = cat_world.decisions()[_RELAXED] @ values
            q = cat_world.rewards()[_RELAXED] + gamma * after
        lines = [
            f"{reward:+g}   V {value:.2f}" for reward, value in zip(cat_world.REWARDS, values, strict=True)
        ]
        drawn = transition_graph(
            cat_world.STATES, _MIDDLES, _moves(q), lines, values, _SIZE, f"the cat after {sweep} sweeps"
        )
        drawings.append(drawn.to_svg())
        change = np.abs(values - by_sweep[sweep - 1]).max() if sweep else 0.0
        notes.append(f"sweep {sweep}\n" + (f"largest change {change:.3g}" if sweep else "nothing is known"))
    said = (
        "Thick: the better action of a relaxed cat, with what both are worth."
        if decisions
        else "Numbers at arrows are probabilities."
    )
    return Slides(
        name, title, drawings, notes, caption=f"In a box: the reward of the state, and its value. {said}"
    )


def _convergence(by_sweep: np.ndarray, exact: np.ndarray) -> Lines:
    time = np.arange(len(by_sweep))
    series: dict[str, tuple[np.ndarray, ...]] = {
        name: (time, by_sweep[:, state]) for state, name in enumerate(cat_world.STATES[:-1])
    }
    return Lines(
        "cat-values",
        "Values sweep by sweep",
        "sweep",
        "value",
        series,
        dots=(np.full(len(exact) - 1, len(by_sweep) - 1.0), exact[:-1]),
        caption="Of the cat by itself; dots: the solution of the linear equations.",
    )


def _over_gamma(flip: float) -> Lines:
    gammas = np.concatenate([np.linspace(0.5, 0.999, 60), [flip]])
    gammas.sort()
    q = np.stack([_decided(float(one)).q[_RELAXED] for one in gammas])
    return Lines(
        "cat-flip",
        "What to do with a relaxed cat",
        "gamma",
        "value of the action",
        {action: (gammas, q[:, i]) for i, action in enumerate(cat_world.ACTIONS)},
        marks=[(flip, f"{flip:.6f}")],
        caption="A reward later counts for more as gamma grows, and so does the hunting that follows a confused cat.",
    )


def _simulated(found: mdp.SimulatedReturns) -> Bars:
    awake = slice(0, _SLEEPING)
    return Bars(
        "cat-simulated",
        "Simulated and exact values",
        "state",
        "return",
        list(cat_world.STATES[awake]),
        {"exact": found.exact[awake], "simulated": found.mean[awake]},
        errors={"simulated": found.standard_error[awake]},
        caption=f"Means of {found.paths:,} paths from each state, with standard errors.",
    )


def _table(process: mdp.RewardProcess, best: mdp.DecisionSolution) -> Table:
    rows: list[list[str | float | int]] = []
    for state, name in enumerate(cat_world.STATES):
        actions = " or ".join(cat_world.ACTIONS[action] for action in best.actions[state])
        numbers = (
            process.values[state],
            float(np.sqrt(process.variance[state])),
            process.steps[state],
            best.values[state],
        )
        decides = actions if state == _RELAXED else "nothing to decide"
        rows.append([name, cat_world.REWARDS[state], *(round(float(one), 5) for one in numbers), decides])
    columns = ["state", "reward", "value alone", "deviation of the return", "steps to sleep", "value", "best"]
    return Table("cat", "The cat in numbers", columns, rows)


def _numbers(
    process: mdp.RewardProcess,
    best: mdp.DecisionSolution,
    simulated: mdp.SimulatedReturns,
    flip: float,
    apart: float,
) -> dict[str, Any]:
    return {
        "states": list(cat_world.STATES),
        "values": process.values.tolist(),
        "variance": process.variance.tolist(),
        "steps_to_sleep": process.steps.tolist(),
        "path_return": process.path_return(_PATH),
        "simulated": simulated.mean.tolist(),
        "standard_errors": simulated.standard_error.tolist(),
        "optimal_values": best.values.tolist(),
        "q_relaxed": best.q[_RELAXED].tolist(),
        "best_relaxed": [cat_world.ACTIONS[action] for action in best.actions[_RELAXED]],
        "flip": flip,
        "methods_differ_by": apart,
    }


experiment = Experiment(
    "A cat's day as a reward process and as a decision process: solved, swept, simulated, and where the choice flips.",
    CatWorldSettings,
    run,
    toy={"sweeps": 5, "paths": 200},
    reference="Puterman, Markov Decision Processes, 1994; Sutton and Barto, Reinforcement Learning, 2018, chapter 4",
)

__all__ = ["CatWorldSettings", "experiment", "run", "turning_point"]
