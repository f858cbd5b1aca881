"""Universal approximation made concrete: error against width with its bound, and an activation for which it fails."""

from collections.abc import Callable
from typing import Literal, final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import expressions
from chainrule.core.pictures import Lines, Table
from chainrule.explain.methods.own_approximation import OwnApproximation, approximate_formula
from chainrule.explain.protocol import Count, Experiment, Listener, Outcome, Settings
from chainrule.nn.constructions import compile_piecewise, interpolate

FUNCTIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], tuple[float, float], float]] = {
    "sin": (np.sin, (0.0, 2 * np.pi), 1.0),
    "gauss": (lambda x: np.exp(-(x**2)), (-3.0, 3.0), 2.0),
    "square": (np.square, (-1.0, 1.0), 2.0),
}
"""Function, interval, largest second derivative."""


@final
class ApproximationSettings(Settings):
    """What is approximated."""

    function: Literal["sin", "gauss", "square"] = Field(
        "sin", description="smooth function for the first picture"
    )
    pieces: int = Field(64, ge=1, le=10_000, description="equal pieces of the interpolant in the findings")
    widths: tuple[Count, ...] = Field(
        (2, 4, 8, 16, 32, 64, 128), min_length=1, description="hidden units tried"
    )
    g: str = Field(
        "",
        description="formula of your own, a network of it within eps: 'sin(3*x)/x' or, on a grid of cells, 'x*sin(y)'",
    )
    interval: tuple[float, float] = Field((0.0, 1.0), description="of each variable of g")
    eps: float | None = Field(
        None, gt=0, description="error asked for; default 0.05 for a formula of your own"
    )
    lipschitz: float | None = Field(
        None, gt=0, description="largest slope of g; unless given a bound is estimated and called so"
    )
    curvature: float | None = Field(None, gt=0, description="largest |g''| of a formula in one variable")
    max_units: int = Field(
        20_000, ge=1, le=1_000_000, description="hidden units above which nothing is built"
    )
    seeds: int = Field(
        5, ge=1, le=50, description="random hidden layers for each width of the second picture"
    )


def run(settings: ApproximationSettings, listener: Listener) -> Outcome:
    """Interpolate with more and more pieces; then fit |x| with activations that can and one that cannot."""
    own = _own(settings, listener)
    g, interval, curvature = FUNCTIONS[settings.function]
    widths = np.array(sorted({*settings.widths, settings.pieces}))
    length = interval[1] - interval[0]
    errors = np.array([_error(g, interval, int(pieces)) for pieces in widths])
    bounds = curvature * (length / widths) ** 2 / 8
    at = int(np.flatnonzero(widths == settings.pieces)[0])
    network = compile_piecewise(interpolate(g, interval, settings.pieces))
    x = np.linspace(*interval, 1001)
    said = float(np.abs(np.asarray(network(jnp.asarray(x, jnp.float32)[:, None]))[:, 0] - g(x)).max())
    floors = {name: _fit(name, settings) for name in ("relu", "tanh", "square")}
    tried = np.array(sorted(settings.widths), dtype=float)
    rows: list[list[str | float]] = [
        [name, *(float(v) for v in values[[0, -1]])] for name, values in floors.items()
    ]
    return Outcome(
        [
            *own.findings,
            f"{settings.function} with {settings.pieces} pieces, {network.units} hidden units: largest error "
            f"{errors[at]:.6f} ({said:.6f} as the network computes it), bound {bounds[at]:.6f}.",
            f"|x| with {int(tried[-1])} hidden units, output weights fitted: error {floors['relu'][-1]:.2g} with "
            f"ReLU, {floors['tanh'][-1]:.2g} with tanh; with x² it stays at {floors['square'][-1]:.3f} whatever the "
            "width, because sums of squares of affine functions are quadratics.",
            "Width can also be traded for depth: ReLU networks of width d + 1 approximate every continuous function of "
            "d inputs with one output, if they may be as deep as they like; width d is not enough.",
        ],
        [
            *own.pictures,
            Lines(
                "approximation-bound",
                f"Piecewise-linear network for {settings.function}",
                "pieces",
                "largest error",
                {
                    name: (widths.astype(float), y)
                    for name, y in (("error", errors), ("h² max|g''| / 8", bounds))
                },
                log_x=True,
                log_y=True,
            ),
            _floors(floors, tried, settings.seeds),
            Table(
                "approximation-table",
                "Largest error of the fit of |x|",
                ["activation", f"{int(tried[0])} units", f"{int(tried[-1])} units"],
                rows,
            ),
        ],
        numbers={
            "error": float(errors[at]),
            "network_error": said,
            "bound": float(bounds[at]),
            **{f"floor_{name}": float(values[-1]) for name, values in floors.items()},
            **({"own": own.numbers} if own.numbers else {}),
        },
    )


def _own(settings: ApproximationSettings, listener: Listener) -> OwnApproximation:
    """The network that was asked for: of a formula, or of the named function within eps."""
    if not settings.g and settings.eps is None:
        return OwnApproximation([], [], {})
    if settings.g:
        formula, interval, curvature = expressions.read(settings.g), settings.interval, settings.curvature
    else:
        text = {"sin": "sin(x)", "gauss": "exp(-x**2)", "square": "x**2"}[settings.function]
        _, interval, curvature = FUNCTIONS[settings.function]
        formula = expressions.read(text)
    return approximate_formula(
        formula,
        interval,
        settings.eps or 0.05,
        lipschitz=settings.lipschitz,
        curvature=curvature,
        max_units=settings.max_units,
        announce=listener,
    )


def _floors(floors: dict[str, np.ndarray], widths: np.ndarray, seeds: int) -> Lines:
    return Lines(
        "approximation-polynomial",
        "Fitting |x| on [-1, 1] with one hidden layer",
        "hidden units",
        "largest error",
        {{"square": "x²"}.get(name, name): (widths, values) for name, values in floors.items()},
        log_x=True,
        log_y=True,
        caption=f"Random hidden layers, output weights by least squares, best of {seeds}. Any continuous activation "
        "but a polynomial gets below every error.",
    )


def _error(g: Callable[[np.ndarray], np.ndarray], interval: tuple[float, float], pieces: int) -> float:
    """Of the interpolant, in double precision; its network computes the same in that of the device."""
    x = np.linspace(*interval, 20_001)
    return float(np.abs(interpolate(g, interval, pieces)(x) - g(x)).max())


def _fit(activation: str, settings: ApproximationSettings) -> np.ndarray:
    """The largest error of |x| on [-1, 1] for each width, the best of several random hidden layers."""
    x = np.linspace(-1, 1, 401)
    kinds: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "relu": lambda z: np.maximum(z, 0),
        "tanh": np.tanh,
        "square": np.square,
    }
    act = kinds[activation]
    best = []
    for width in sorted(settings.widths):
        found = []
        for seed in range(settings.seeds):
            random = np.random.default_rng(seed)
            slope = random.choice([-1.0, 1.0], width) * random.uniform(1, 4, width)
            kinks = random.uniform(-1, 1, width)
            kinks[0] = 0.0  # |x| bends at zero, and so may the first unit of everybody
            hidden = act(slope[None, :] * (x[:, None] - kinks[None, :]))
            design = np.column_stack([hidden, np.ones(len(x))])
            out = np.linalg.lstsq(design, np.abs(x), rcond=1e-12)[0]
            found.append(np.abs(design @ out - np.abs(x)).max())
        best.append(min(found))
    return np.maximum(np.array(best), 1e-16)


experiment = Experiment(
    "Universal approximation: a network of your own formula, error against width, why polynomial activations fail.",
    ApproximationSettings,
    run,
    toy={"widths": [2, 8], "seeds": 1},
    reference="Leshno, Lin, Pinkus and Schocken, Neural Networks 6, 1993; Cybenko, 1989; Hanin and Sellke, "
    "arXiv:1710.11278",
)

__all__ = ["FUNCTIONS", "ApproximationSettings", "experiment", "run"]
