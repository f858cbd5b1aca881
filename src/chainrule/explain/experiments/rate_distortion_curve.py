"""Rate against distortion: the curve of a source, proven point by point, and learned codes held against theirs."""

from typing import Any, Literal, NamedTuple, final

import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Heatmap, Lines, Picture, Table
from chainrule.explain.methods.linear_codes import LinearCodes, linear_codes
from chainrule.explain.methods.written_tables import written_matrix
from chainrule.explain.protocol import Count, Experiment, Listener, Outcome, Positive, Settings, Share
from chainrule.information.distortion import (
    RateDistortionCurve,
    RateDistortionPoint,
    gaussian_rate_distortion,
    rate_at,
    rate_distortion_curve,
    shannon_lower_bound,
)
from chainrule.information.tables import table


@final
class RateDistortionCurveSettings(Settings):
    """A source of symbols with a distortion, and a normal source for learned codes."""

    p: tuple[Share, ...] = Field((0.5, 0.3, 0.15, 0.05), min_length=2, description="probabilities of symbols")
    measure: Literal["hamming", "squared"] = Field(
        "hamming",
        description="distortion: 1 for a wrong symbol, or the square of how far numbers 0, 1, ... are apart",
    )
    matrix: str = Field(
        "",
        description="a distortion of your own, x down and answers across: entries with commas, rows with semicolons",
    )
    distortion: float = Field(0.1, ge=0, description="distortion whose rate is asked for")
    variances: tuple[Positive, ...] = Field(
        (4.0, 1.0, 0.25), min_length=1, description="of the components of the normal source"
    )
    slopes: tuple[Positive, ...] = Field(
        (0.15, 0.3, 0.5, 1, 2, 4, 10, 30),
        min_length=1,
        description="weights of the distortion, of learned codes",
    )
    steps: Count = Field(3000, description="steps of training of learned codes")


class _Known(NamedTuple):
    distortions: np.ndarray
    rates: np.ndarray


def run(settings: RateDistortionCurveSettings, listener: Listener) -> Outcome:
    """Solve both problems."""
    source = table("rate-distortion-curve", "p", settings.p)
    cost = _cost(settings, len(source))
    curve = rate_distortion_curve(source, cost)
    asked = rate_at(source, cost, settings.distortion)
    listener(f"{len(curve.points)} points of the curve, none more than {curve.gap:.1e} bits from it")
    learned = linear_codes(np.array(settings.variances), np.array(settings.slopes), settings.steps)
    known = _known(settings)
    excess = _excess(settings, learned)
    numbers: dict[str, Any] = {
        "rate": asked.rate,
        "gap": asked.gap,
        "slope": asked.slope,
        "curve": {"distortion": curve.distortions.tolist(), "rate": curve.rates.tolist()},
        "learned": {"distortion": learned.distortions.tolist(), "rate": learned.rates.tolist()},
        "excess": excess.tolist(),
    }
    hamming = settings.measure == "hamming" and not settings.matrix
    if hamming:
        numbers["lower_bound"] = shannon_lower_bound(source, settings.distortion)
    return Outcome(
        _findings(settings, asked, numbers),
        [
            _curve(settings, curve, asked, source if hamming else None),
            _overlay(known, learned),
            *_encoder(asked),
        ],
        _table(settings, learned, excess),
        numbers,
    )


def _cost(settings: RateDistortionCurveSettings, symbols: int) -> np.ndarray:
    if settings.matrix:
        cost = written_matrix("matrix", settings.matrix)
        if len(cost) != symbols:
            raise ArgumentError(f"matrix: has {len(cost)} rows, p has {symbols} symbols")
        return cost
    apart = np.abs(np.arange(symbols)[:, None] - np.arange(symbols)[None]).astype(float)
    return np.minimum(apart, 1) if settings.measure == "hamming" else np.square(apart)


def _known(settings: RateDistortionCurveSettings) -> _Known:
    distortions = np.geomspace(1e-3, 1, 120) * sum(settings.variances)
    return _Known(
        distortions, np.array([gaussian_rate_distortion(settings.variances, one).rate for one in distortions])
    )


def _excess(settings: RateDistortionCurveSettings, learned: LinearCodes) -> np.ndarray:
    """Bits that learned codes need more than the best code of the same distortion."""
    best = [gaussian_rate_distortion(settings.variances, float(one)).rate for one in learned.distortions]
    return np.asarray(learned.rates - np.array(best))


def _findings(
    settings: RateDistortionCurveSettings, asked: RateDistortionPoint, numbers: dict[str, Any]
) -> list[str]:
    said = (
        f"At distortion {settings.distortion:g} the source needs {asked.rate:.6f} bits per symbol (at most "
        f"{asked.gap:.1e} fewer), {asked.slope / np.log(2):.4g} fewer for each unit of distortion more."
    )
    if "lower_bound" in numbers:
        said += f" Shannon's lower bound is {numbers['lower_bound']:.6f}."
    worst = max(numbers["excess"])
    return [
        said,
        f"Learned linear codes of the normal source need at most {max(worst, 0.0):.2g} bits more than the best of "
        "their distortion.",
    ]


def _curve(
    settings: RateDistortionCurveSettings,
    curve: RateDistortionCurve,
    asked: RateDistortionPoint,
    hamming: np.ndarray | None,
) -> Lines:
    series: dict[str, tuple[np.ndarray, ...]] = {"rate-distortion": (curve.distortions, curve.rates)}
    if hamming is not None:
        bound = [shannon_lower_bound(hamming, float(one)) for one in curve.distortions]
        series["Shannon's lower bound"] = (curve.distortions, np.array(bound))
    return Lines(
        "rate-distortion-curve",
        "Bits that a distortion needs",
        "distortion",
        "bits per symbol",
        series,
        marks=[(settings.distortion, f"{asked.rate:.4f} bits")],
        dots=(np.array([asked.distortion]), np.array([asked.rate])),
        caption=f"Every point is proven to {curve.gap:.1e} bits.",
    )


def _overlay(known: _Known, learned: LinearCodes) -> Lines:
    return Lines(
        "rate-distortion-learned",
        "Learned codes on the curve of a normal source",
        "squared distortion, all components",
        "bits",
        {"reverse water-filling": (known.distortions, known.rates)},
        log_x=True,
        dots=(learned.distortions, learned.rates),
        caption="Dots: linear variational auto-encoders, trained with different weights of the distortion.",
    )


def _encoder(asked: RateDistortionPoint) -> list[Picture]:
    if asked.encoder.size > 64 * 64:
        return []
    return [
        Heatmap(
            "rate-distortion-encoder",
            f"The encoder at distortion {asked.distortion:.3g}",
            "answer",
            "x",
            asked.encoder,
            rows=[str(k) for k in range(len(asked.encoder))],
            columns=[str(k) for k in range(asked.encoder.shape[1])],
            numbers=asked.encoder.size <= 100,
            caption="p(answer given x).",
        )
    ]


def _table(settings: RateDistortionCurveSettings, learned: LinearCodes, excess: np.ndarray) -> Table:
    rows: list[list[Any]] = [
        [f"{slope:g}", float(f"{d:.4g}"), float(f"{r:.4g}"), float(f"{e:.2g}")]
        for slope, d, r, e in zip(settings.slopes, learned.distortions, learned.rates, excess, strict=True)
    ]
    return Table(
        "rate-distortion-codes",
        "Learned codes of the normal source",
        ["weight", "distortion", "bits", "bits above the curve"],
        rows,
    )


experiment = Experiment(
    "Rate-distortion curves of a source of your own, proven point by point, and learned codes held against theirs.",
    RateDistortionCurveSettings,
    run,
    toy={"steps": 50, "slopes": (1.0,)},
    reference="Cover and Thomas, Elements of Information Theory, 2nd edition, 2006, chapter 10; Blahut, 1972",
)

__all__ = ["RateDistortionCurveSettings", "experiment", "run"]
