"""Points that flow downhill on a distance to others: entropic transport with its bias, without it, and a kernel's.

Every point moves by its share of the gradient. With the Sinkhorn divergence points end on the target. The entropic cost
is smallest for a shrunken copy, so that points end inside of it. The gradients of a kernel distance fade with distance,
and points that are far off stay behind.
"""

from collections.abc import Callable
from typing import Any, final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Film, Lines, Table
from chainrule.core.types import Array
from chainrule.explain.methods.film_frames import FilmFrame
from chainrule.explain.methods.plane_points import plane_points
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.probability.divergences import median_distance, mmd
from chainrule.probability.transport import PointFlow, cost_matrix, point_flow, wasserstein

_NAMES = {
    "divergence": "S_eps, Sinkhorn divergence",
    "entropic": "OT_eps, with its bias",
    "mmd": "MMD, a kernel",
}
_SIDE = 220
"""Pixels of a panel: three stand in a row."""


@final
class PointFlowSettings(Settings):
    """The points, where they begin, and how they move."""

    data: str = Field("moons", description="name or path of the points in the plane that are the target")
    load: dict[str, Any] = Field(default_factory=dict, description="options of the data, e.g. load.noise=0.1")
    n: int = Field(150, ge=2, le=2000, description="points of the target, and as many that move")
    eps: float = Field(0.05, gt=0, description="entropic strength, beside the mean cost at the beginning")
    distance: float = Field(3.0, ge=0, description="how far from the target points begin, in its deviations")
    step: float = Field(0.1, gt=0, le=1, description="by which points follow their gradients")
    steps: int = Field(200, ge=1, le=10_000, description="moves")
    frames: int = Field(26, ge=2, le=200, description="moments of the film")
    seed: int = Field(0, ge=0, description="the points")


def run(settings: PointFlowSettings, listener: Listener) -> Outcome:
    """Three flows from one start, how far they are from the target on the way, and what they end as."""
    points = plane_points(
        "point-flow",
        settings.data,
        settings.load,
        "data=moons, or a table with two columns and load.target=none",
    ).astype(np.float32)
    target, start = _points(points, settings)
    eps = settings.eps * float(jnp.mean(cost_matrix(start, target)))
    kernel = _kernel_loss(target)
    flows: dict[str, PointFlow] = {}
    for name, loss in (("divergence", "divergence"), ("entropic", "entropic"), ("mmd", kernel)):
        flows[name] = point_flow(
            *(start, target, loss, eps), step=settings.step, steps=settings.steps, frames=settings.frames
        )
        listener(_NAMES[name])
    away = {
        name: np.array([float(wasserstein(np.asarray(frame), target, 2)) for frame in flow.frames])
        for name, flow in flows.items()
    }
    spread = {name: _spread(np.asarray(flow.frames[-1])) / _spread(target) for name, flow in flows.items()}
    floor = _floor(points, settings)
    findings = [
        f"After {settings.steps} moves points are {away['divergence'][-1]:.3g} from the target in W_2 by the Sinkhorn "
        f"divergence, {away['entropic'][-1]:.3g} by the biased cost, {away['mmd'][-1]:.3g} by the kernel; they began "
        f"{away['mmd'][0]:.3g} away"
        + (f", and as many other points of the same data are {floor:.3g} away." if floor else "."),
        f"Their variance, beside the target's: {spread['divergence']:.3g}, {spread['entropic']:.3g} and "
        f"{spread['mmd']:.3g}. The entropic cost is smallest for less spread: with eps = {eps:.3g} a normal "
        f"distribution would lose {eps / 2:.3g} of its variance in each direction.",
    ]
    first = flows["divergence"]
    return Outcome(
        findings,
        [_film(flows, target), _distance(flows, away), _losses(flows)],
        Table(
            "point-flow-table",
            "At the end",
            ["flow", "W_2 from the target", "variance beside the target's", "loss"],
            [
                [_NAMES[name], float(away[name][-1]), float(spread[name]), float(flow.losses[-1])]
                for name, flow in flows.items()
            ],
        ),
        {
            "eps": eps,
            "steps": first.steps.tolist(),
            "distance": {name: values.tolist() for name, values in away.items()},
            "spread": spread,
            "losses": {name: np.asarray(flow.losses, float).tolist() for name, flow in flows.items()},
            "floor": floor,
        },
    )


def _points(found: np.ndarray, settings: PointFlowSettings) -> tuple[np.ndarray, np.ndarray]:
    """The target, and a small cloud beside it."""
    draw = np.random.default_rng(settings.seed)
    target = found[draw.permutation(len(found))[: settings.n]]
    deviation = float(np.sqrt(_spread(target) / 2))
    centre = target.mean(axis=0) - np.array([[settings.distance * deviation, 0.0]])
    start = centre + 0.3 * deviation * draw.normal(size=target.shape)
    return target, start.astype(np.float32)


def _floor(found: np.ndarray, settings: PointFlowSettings) -> float:
    """How far as many other points of the data are from the target; 0 where there are not as many."""
    order = np.random.default_rng(settings.seed).permutation(len(found))
    one, other = found[order[: settings.n]], found[order[settings.n : 2 * settings.n]]
    return float(wasserstein(other, one, 2)) if len(other) == len(one) else 0.0


def _kernel_loss(target: np.ndarray) -> Callable[[Array], Array]:
    """Squared MMD in units of squared distance, so that its step is the others'."""
    to = jnp.asarray(target)
    scale = median_distance(to, to)
    return lambda y: jnp.square(scale * mmd(y, to, scale))


def _spread(points: np.ndarray) -> float:
    return float(points.var(axis=0).sum())


def _film(flows: dict[str, PointFlow], target: np.ndarray) -> Film:
    every = [np.asarray(flow.frames).reshape(-1, 2) for flow in flows.values()]
    frames = []
    for moment in range(len(flows["divergence"].steps)):
        panels = []
        for flow in flows.values():
            sheet = FilmFrame.around(target, *every, side=_SIDE)
            sheet.dots(target, "field", radius=1.8, alpha=0.55)
            sheet.dots(np.asarray(flow.frames[moment]), "2", radius=1.8, alpha=0.85)
            panels.append(sheet.image)
        frames.append(np.stack(panels))
    return Film(
        "point-flow",
        "Points on their way",
        np.stack(frames),
        [f"move {number}" for number in flows["divergence"].steps],
        columns=3,
        seconds=7.0,
        caption="From left to right: " + "; ".join(_NAMES.values()) + ". Grey: the target.",
    )


def _distance(flows: dict[str, PointFlow], away: dict[str, np.ndarray]) -> Lines:
    return Lines(
        "point-flow-distance",
        "Distance from the target",
        "move",
        "W_2, exact",
        {_NAMES[name]: (flows[name].steps, values) for name, values in away.items()},
        caption="Judged by exact transport, whatever the points follow.",
    )


def _losses(flows: dict[str, PointFlow]) -> Lines:
    return Lines(
        "point-flow-loss",
        "What each flow goes down on",
        "move",
        "squared distance",
        {
            _NAMES[name]: (np.arange(len(flow.losses)), np.maximum(np.asarray(flow.losses, float), 1e-7))
            for name, flow in flows.items()
        },
        log_y=True,
        caption="The biased cost is not zero where it is smallest; the others are.",
    )


experiment = Experiment(
    "A film of points flowing to a target: biased entropic transport, the Sinkhorn divergence, a kernel distance.",
    PointFlowSettings,
    run,
    toy={"n": 8, "steps": 3, "frames": 2, "load": {"n": 60}},
    reference="Feydy et al., Interpolating between optimal transport and MMD using Sinkhorn divergences, AISTATS 2019",
)

__all__ = ["PointFlowSettings", "experiment", "run"]
