"""Gradient descent beside its theorems: plain, heavy ball and Nesterov, on a quadratic or a function of choice."""

from collections.abc import Callable
from typing import Any, Literal, final

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from pydantic import Field

from chainrule.core import expressions
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Lines, Scatter, Table
from chainrule.explain.methods import descent as methods
from chainrule.explain.methods.descent import DescentPath
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings

Objective = Callable[[jax.Array], jax.Array]
_SMALLEST = 1e-16
"""Below this a difference of values is rounding."""


@final
class DescentSettings(Settings):
    """The function and the step."""

    function: Literal["quadratic", "logistic", "well"] = Field(
        "quadratic",
        description="quadratic: (x² + condition y²)/2; logistic: convex, not strongly; well: not convex",
    )
    f: str = Field("", description="or a formula of your own in x and y: f='x**2 + 3*y**4 + sin(x*y)'")
    condition: float = Field(100.0, ge=1, description="quadratic: ratio of the curvatures")
    lr: float | None = Field(None, gt=0, description="learning rate; none: 1/L")
    steps: int = Field(100, ge=2, le=100_000, description="steps of each method")
    start: tuple[float, float] = Field((1.0, 1.0), description="first point")


def run(settings: DescentSettings, listener: Listener) -> Outcome:
    """Run four methods from one point, in double precision, and hold each against its bound."""
    with jax.enable_x64(True):
        f = objective(settings)
        x0 = jnp.array(settings.start, jnp.float64)
        lowest = _lowest(f)
        lr = settings.lr or 1 / methods.curvature(f, x0)[0]
        first = methods.descent(f, x0, lr, settings.steps, minimizer=lowest)
        if settings.lr is None and first.smoothness > 1 / lr:  # steeper further on than at the start
            lr = 1 / first.smoothness
            first = methods.descent(f, x0, lr, settings.steps, minimizer=lowest)
        paths = {"gradient descent": first}
        known: dict[str, Any] = {
            "minimizer": lowest,
            "smoothness": first.smoothness,
            "convexity": first.convexity,
        }
        paths["Nesterov"] = methods.nesterov(f, x0, lr, settings.steps, **known)
        rate, keep = polyak(known["smoothness"], known["convexity"])
        paths["heavy ball"] = methods.momentum(f, x0, rate, keep, settings.steps, **known)
        paths["AdaGrad"], regret, bound = methods.adagrad(f, x0, 0.5, settings.steps, **known)
        field, extent = _landscape(f, list(paths.values())[:3])
    listener(f"L = {known['smoothness']:.4g}, alpha = {known['convexity']:.4g} along the path")
    rows: list[list[str | float]] = [
        [
            name,
            float(path.gaps[-1]),
            ", ".join(f"{b} {v[-1]:.4g}" for b, v in path.bounds.items()) or "none",
            _verdict(path),
        ]
        for name, path in paths.items()
    ]
    findings = [
        f"L = {known['smoothness']:.4g} and alpha = {known['convexity']:.4g} (power iteration along the path), "
        f"step {lr:.4g}.",
        *(
            f"{row[0]}: {row[1]:.4g} above the minimum after {settings.steps} steps; {row[3]}."
            for row in rows
        ),
        f"AdaGrad's regret is {regret:.4g}, its bound {bound:.4g}.",
    ]
    return Outcome(
        findings,
        [_bounds(paths), _paths(paths, field, extent)],
        Table("descent-table", "After the last step", ["method", "gap", "bounds", "verdict"], rows),
        {
            "smoothness": known["smoothness"],
            "convexity": known["convexity"],
            "lr": lr,
            "regret": regret,
            "regret_bound": bound,
            **{
                name: {
                    "gap": float(path.gaps[-1]),
                    "bounds": {b: float(v[-1]) for b, v in path.bounds.items()},
                    "violated": path.violated,
                }
                for name, path in paths.items()
            },
        },
    )


def objective(settings: DescentSettings) -> Objective:
    """The function of two variables that was asked for."""
    if settings.f:
        formula = expressions.read(settings.f)
        if not formula.variables or set(formula.variables) - {"x", "y"}:
            raise ArgumentError(
                f"descent(f={settings.f!r}): its variables are {', '.join(formula.variables) or 'none'}",
                remedy="write it in x and y",
            )
        return lambda x: formula(*(x["xy".index(name)] for name in formula.variables)) + 0.0 * jnp.sum(x)
    if settings.function == "quadratic":
        return lambda x: (x[0] ** 2 + settings.condition * x[1] ** 2) / 2
    if settings.function == "logistic":
        return lambda x: (
            jnp.logaddexp(0.0, x[0] + 2 * x[1]) + jnp.logaddexp(0.0, -2 * x[0] - x[1]) + 0.05 * x[1] ** 2
        )
    return lambda x: (x[0] ** 2 - 1) ** 2 / 4 + 0.3 * x[0] + x[1] ** 2


def _lowest(f: Objective) -> np.ndarray:
    """Where the function is lowest: the best point of a coarse grid, improved."""
    grid = np.stack(np.meshgrid(*[np.linspace(-4, 4, 41)] * 2), axis=-1).reshape(-1, 2)
    best = grid[int(np.asarray(jax.vmap(f)(jnp.asarray(grid))).argmin())]
    slope = jax.jit(jax.grad(f))
    found = scipy.optimize.minimize(
        lambda x: float(f(jnp.asarray(x))), best, jac=lambda x: np.asarray(slope(jnp.asarray(x))), tol=1e-12
    )
    return np.asarray(found.x)


def polyak(smoothness: float, convexity: float) -> tuple[float, float]:
    """The rate and momentum that suit a quadratic of these curvatures best (Polyak, 1964).

    >>> rate, keep = polyak(100.0, 1.0)
    >>> round(rate, 7), round(keep, 6)
    (0.0330579, 0.669421)
    """
    low, high = np.sqrt(max(convexity, 1e-3 * smoothness)), np.sqrt(smoothness)
    return float(4 / (high + low) ** 2), float(((high - low) / (high + low)) ** 2)


def _verdict(path: DescentPath) -> str:
    if path.violated:
        name, step = next(iter(path.violated.items()))
        return f"bound violated ({name}, from step {step}): an assumption is broken, not convex or a step above 1/L"
    if not path.is_finite.all():
        return f"not finite from step {int((~path.is_finite).argmax())}: the step is too long"
    return "within its bounds" if path.bounds else "no bound drawn"


def _bounds(paths: dict[str, DescentPath]) -> Lines:
    series = {}
    for name, path in paths.items():
        t = np.arange(len(path.values), dtype=float)
        series[name] = (t[1:], np.where(path.gaps[1:] > _SMALLEST, path.gaps[1:], np.nan))
    for name, bound in {**paths["gradient descent"].bounds, **paths["Nesterov"].bounds}.items():
        if name != "descent lemma":
            series[f"bound: {name}"] = (t[1:], bound[1:])
    return Lines(
        "descent-bounds",
        "Distance to the minimum, and what theory allows",
        "step",
        "f - f*",
        series,
        log_x=True,
        log_y=True,
    )


def _landscape(
    f: Objective, paths: list[DescentPath]
) -> tuple[np.ndarray, tuple[float, float, float, float]]:
    points = np.clip(np.concatenate([path.points[path.is_finite] for path in paths]), -10, 10)
    low, high = points.min(axis=0), points.max(axis=0)
    room = 0.15 * np.maximum(high - low, 0.1)
    (left, bottom), (right, top) = low - room, high + room
    x, y = np.meshgrid(np.linspace(left, right, 80), np.linspace(bottom, top, 80))
    values = np.asarray(jax.vmap(f)(jnp.asarray(np.stack([x.ravel(), y.ravel()], axis=1)))).reshape(80, 80)
    return np.log(values - values.min() + 0.01), (float(left), float(right), float(bottom), float(top))


def _paths(
    paths: dict[str, DescentPath], field: np.ndarray, extent: tuple[float, float, float, float]
) -> Scatter:
    low, high = np.array(extent[::2]), np.array(extent[1::2])
    shown = {}
    for name, path in paths.items():
        if name != "AdaGrad":
            points = path.points[:25]
            outside = ~((points >= low[None, :]) & (points <= high[None, :])).all(axis=1)
            shown[name] = points[: int(outside.argmax())] if outside.any() else points
    return Scatter(
        "descent-paths",
        "The first 24 steps",
        "x",
        "y",
        shown,
        field=field,
        extent=extent,
        joined=True,
        caption="Darker is higher (logarithm of f). A path that leaves the frame ends there.",
    )


experiment = Experiment(
    "Gradient descent, heavy ball, Nesterov and AdaGrad, on a formula of your own too, beside their bounds.",
    DescentSettings,
    run,
    toy={"steps": 10},
    reference="Nesterov, Introductory Lectures on Convex Optimization, 2004",
)

__all__ = ["DescentSettings", "experiment", "objective", "polyak", "run"]
