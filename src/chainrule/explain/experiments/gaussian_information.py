"""Normal variables in closed form: rates of autoregressions, and a bottleneck whose directions switch on."""

from typing import Annotated, Any, final

import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Heatmap, Lines, Picture, Table
from chainrule.explain.methods.written_tables import written_matrix
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.information.entropies import gaussian_mutual_information
from chainrule.information.gaussian_bottlenecks import GaussianBottleneck, gaussian_bottleneck
from chainrule.information.gaussian_series import gaussian_rates

EXAMPLE = "1,0,0,0.9,0; 0,1,0,0,0.7; 0,0,1,0.3,0.3; 0.9,0,0.3,1,0; 0,0.7,0.3,0,1"
"""Three variables to compress and two that matter, which know of the three more and less."""


@final
class GaussianInformationSettings(Settings):
    """The autoregression, and the covariance of the bottleneck."""

    coefficients: tuple[float, ...] = Field(
        (0.8,), max_length=50, description="a_1, a_2, ... of x_t = sum a_i x_(t-i) + noise"
    )
    covariance: str = Field(
        EXAMPLE, description="of x and y together: entries with commas, rows with semicolons"
    )
    x: tuple[Annotated[int, Field(ge=0, le=1000)], ...] = Field(
        (0, 1, 2), min_length=1, description="variables to compress; the others are y"
    )
    beta: float = Field(4.0, gt=0, le=1e6, description="beta whose projection is shown")
    most: float = Field(50.0, gt=1, le=1e6, description="largest beta of the curve")
    points: int = Field(200, ge=3, le=5000, description="values of beta")


def run(settings: GaussianInformationSettings, listener: Listener) -> Outcome:
    """Evaluate the formulas."""
    del listener
    rates = gaussian_rates(settings.coefficients)
    matrix = written_matrix("covariance", settings.covariance)
    if any(not 0 <= one < len(matrix) for one in settings.x):
        raise ArgumentError(
            f"x={','.join(map(str, settings.x))}: variables are numbered 0 to {len(matrix) - 1}"
        )
    here = gaussian_bottleneck(matrix, settings.beta, settings.x)
    betas = np.geomspace(0.9, settings.most, settings.points)
    curve = [gaussian_bottleneck(matrix, float(beta), settings.x) for beta in betas]
    whole = gaussian_mutual_information(matrix, settings.x)
    finite = here.critical_betas[np.isfinite(here.critical_betas)]
    pictures: list[Picture] = [_curve(curve, whole, here), _switching(betas, here, finite), _first_order()]
    if len(here.projection):
        pictures.append(_projection(here, settings))
    return Outcome(
        [
            f"x and y share {whole:.6f} bits. Directions of x switch on at beta = "
            f"{', '.join(f'{one:.4g}' for one in finite)}; at {settings.beta:g}, {len(here.projection)} of them keep "
            f"{here.relevance:.6f} bits about y in {here.rate:.6f} bits about x.",
            f"The autoregression: {rates}.",
        ],
        pictures,
        _table(here),
        {
            "rate": here.rate,
            "relevance": here.relevance,
            "critical_betas": finite.tolist(),
            "mutual_information": whole,
            "information_rate": rates.information_rate,
            "predictive_information_rate": rates.predictive_information_rate,
        },
    )


def _curve(curve: list[GaussianBottleneck], whole: float, here: GaussianBottleneck) -> Lines:
    rate, relevance = np.array([(one.rate, one.relevance) for one in curve]).T
    return Lines(
        "gaussian-curve",
        "What few bits about x keep of y",
        "I(X; Z) in bits",
        "I(Z; Y) in bits",
        {"bottleneck": (rate, relevance), "I(X; Y)": (np.array([0.0, rate.max()]), np.full(2, whole))},
        dots=(np.array([here.rate]), np.array([here.relevance])),
        caption=f"The dot is beta = {here.beta:g}.",
    )


def _switching(betas: np.ndarray, here: GaussianBottleneck, finite: np.ndarray) -> Lines:
    """Bits that each direction gets, by beta."""
    series: dict[str, tuple[np.ndarray, ...]] = {}
    for number, (value, critical) in enumerate(
        zip(here.eigenvalues, here.critical_betas, strict=True), start=1
    ):
        if np.isfinite(critical):
            ratio = np.maximum((betas - 1) * (1 - value) / value, 1.0)
            series[f"direction {number}"] = (betas, np.log2(ratio) / 2)
    return Lines(
        "gaussian-directions",
        "Directions switch on one after another",
        "beta",
        "bits about x",
        series or {"nothing": (betas, np.zeros(len(betas)))},
        log_x=True,
        marks=[(float(one), f"{one:.3g}") for one in finite[:6]],
        caption="Marks: 1 / (1 - eigenvalue), above which a direction is worth its bits.",
    )


def _first_order() -> Lines:
    weights = np.linspace(-0.98, 0.98, 99)
    found = [gaussian_rates([float(one)]) for one in weights]
    return Lines(
        "gaussian-rates",
        "Rates of x_t = a x_(t-1) + noise",
        "a",
        "bits per sample",
        {
            "information rate": (weights, np.array([one.information_rate for one in found])),
            "predictive information rate": (
                weights,
                np.array([one.predictive_information_rate for one in found]),
            ),
        },
        caption="The past tells ever more of a process that hardly moves; what is new in a sample and of use is at "
        "most half a bit.",
    )


def _projection(here: GaussianBottleneck, settings: GaussianInformationSettings) -> Heatmap:
    return Heatmap(
        "gaussian-projection",
        f"The projection at beta = {here.beta:g}",
        "variable",
        "direction",
        here.projection,
        rows=[str(k) for k in range(1, len(here.projection) + 1)],
        columns=[str(k) for k in settings.x],
        numbers=here.projection.size <= 100,
        diverging=True,
        caption="Rows are multiplied with x, and noise of unit variance is added.",
    )


def _table(here: GaussianBottleneck) -> Table:
    rows: list[list[Any]] = [
        [number, float(f"{value:.5g}"), f"{critical:.5g}" if np.isfinite(critical) else "never"]
        for number, (value, critical) in enumerate(
            zip(here.eigenvalues, here.critical_betas, strict=True), start=1
        )
    ]
    return Table(
        "gaussian-spectrum", "Directions of x", ["direction", "eigenvalue", "switches on at beta"], rows
    )


experiment = Experiment(
    "Normal variables in closed form: information rates of an autoregression, a bottleneck whose directions switch on.",
    GaussianInformationSettings,
    run,
    toy={"points": 5},
    reference="Chechik, Globerson, Tishby and Weiss, Information bottleneck for Gaussian variables, JMLR, 2005",
)

__all__ = ["EXAMPLE", "GaussianInformationSettings", "experiment", "run"]
