"""Two bumps moving apart: what divergences and transport distances see of the gap, and of a bandwidth."""

from typing import final

import jax
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Lines, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Positive, Settings
from chainrule.probability import Normal
from chainrule.probability.divergences import BandwidthSweep, Profile, slide, smooth, stretch

_NAMES = {
    "kl": "KL(p, q)",
    "reverse_kl": "KL(q, p)",
    "js": "Jensen-Shannon",
    "tv": "total variation",
    "hellinger": "Hellinger",
    "w1": "Wasserstein-1",
    "w2": "Wasserstein-2",
    "mmd": "MMD",
}


@final
class SlideTestSettings(Settings):
    """The two bumps, or two samples of your own."""

    deviation: float = Field(
        1.0, gt=0, description="standard deviation of the bump that moves; that at rest has 1"
    )
    gap: float = Field(6.0, gt=0, description="how far it moves")
    steps: int = Field(25, ge=2, le=500, description="positions on the way")
    draws: int = Field(40, ge=2, le=2000, description="points of each sample")
    x: tuple[float, ...] = Field(
        (), description="a sample of your own in place of that at rest: x=0.1,0.5,0.9"
    )
    y: tuple[float, ...] = Field((), description="one in place of that which moves")
    bandwidths: tuple[Positive, ...] = Field(
        (), description="bandwidths to smooth samples with (default: 21 around Silverman's)"
    )
    seed: int = Field(0, ge=0, description="samples")


def run(settings: SlideTestSettings, listener: Listener) -> Outcome:
    """Densities and samples slid apart, one stretched, samples smoothed with every bandwidth."""
    if bool(settings.x) != bool(settings.y):
        raise ArgumentError("slide-test: two samples are needed", remedy="x=0.1,0.5,0.9 y=0.3,0.4")
    shifts = np.linspace(0, settings.gap, settings.steps)
    whole = Outcome([])
    if settings.x:
        x, y = np.array(settings.x), np.array(settings.y)
    else:
        listener("densities")
        rest, moving = Normal(0.0, 1.0), Normal(0.0, settings.deviation)
        whole = _densities(rest, moving, shifts)
        one, two = jax.random.split(random.key(settings.seed, "slide-test"))
        x, y = np.asarray(rest.sample(one, settings.draws)), np.asarray(moving.sample(two, settings.draws))
    listener("samples")
    samples = slide(x, y, shifts)
    sweep = smooth(x, y + settings.gap / 2, settings.bandwidths or None)
    pictures = [
        *whole.pictures,
        _curves(
            "slide-test-samples", "Two samples moving apart", "shift of the second sample", shifts, samples
        ),
        _bandwidths(sweep, settings.gap / 2),
    ]
    least, most = sweep.profile.kl[0], sweep.profile.kl[-1]
    middle = settings.steps // 2
    alone = ", as at every shift where no two points meet" if samples.tv[middle] > 1 - 1e-6 else ""
    findings = [
        *whole.findings,
        f"Samples of {len(x)} and {len(y)} points, the second shifted by {shifts[middle]:.3g}: KL "
        f"{samples.kl[middle]:.4g}, total variation {samples.tv[middle]:.4g}, Jensen-Shannon {samples.js[middle]:.4g}"
        f"{alone}; Wasserstein-1 {samples.w1[middle]:.4g} grows with the shift.",
        f"Smoothed, the answer depends on the bandwidth: KL is {least:.4g} nats at h = {sweep.bandwidths[0]:.3g} and "
        f"{most:.4g} at h = {sweep.bandwidths[-1]:.3g}; Silverman's rule says h = {sweep.default:.3g}.",
    ]
    numbers = {
        **whole.numbers,
        "gap": shifts.tolist(),
        "samples": _numbers(samples),
        "bandwidths": sweep.bandwidths.tolist(),
        "silverman": sweep.default,
        "smoothed": _numbers(sweep.profile),
    }
    return Outcome(findings, pictures, _table(samples, sweep, shifts), numbers)


def _densities(rest: Normal, moving: Normal, shifts: np.ndarray) -> Outcome:
    """The part about densities: one slid away from the other, and one stretched."""
    slid = slide(rest, moving, shifts)
    factors = np.geomspace(0.25, 4, len(shifts))
    stretched = stretch(rest, rest, factors)
    return Outcome(
        [
            f"Densities {shifts[-1]:g} apart: KL(p, q) {slid.kl[-1]:.4g} nats, total variation {slid.tv[-1]:.4g}, "
            f"Jensen-Shannon {slid.js[-1]:.4g} nats (at most {np.log(2):.4g}), Wasserstein-1 {slid.w1[-1]:.4g}."
        ],
        [
            _curves("slide-test-gap", "Two densities moving apart", "gap between the means", shifts, slid),
            _curves(
                "slide-test-stretch",
                "Two densities of equal mean",
                "ratio of their deviations",
                factors,
                stretched,
                "Information is lopsided: KL charges much more for a q that is too narrow.",
                log_x=True,
            ),
        ],
        None,
        {"densities": _numbers(slid), "stretched": _numbers(stretched), "ratio": factors.tolist()},
    )


def _curves(
    name: str, title: str, axis: str, at: np.ndarray, found: Profile, caption: str = "", log_x: bool = False
) -> Lines:
    """Everything but what is infinite; KL leaves the frame at 5."""
    series = {
        label: (at, np.where(values < 5, values, np.nan))
        for field, label in _NAMES.items()
        if np.isfinite(values := np.asarray(getattr(found, field), dtype=float)).any()
    }
    gone = [label for label in _NAMES.values() if label not in series]
    note = f" Infinite everywhere, and not drawn: {', '.join(gone)}." if gone else ""
    caption = (
        caption or "Curves end at 5. Bounded divergences level off; Wasserstein distances follow the gap."
    )
    return Lines(name, title, axis, "nats, or distance", series, log_x=log_x, caption=caption + note)


def _bandwidths(sweep: BandwidthSweep, shift: float) -> Lines:
    series = {
        label: (sweep.bandwidths, np.maximum(np.asarray(getattr(sweep.profile, field), dtype=float), 1e-9))
        for field, label in _NAMES.items()
    }
    return Lines(
        "slide-test-bandwidth",
        f"Both samples smoothed, one shifted by {shift:g}",
        "bandwidth h",
        "nats, or distance",
        series,
        log_x=True,
        log_y=True,
        marks=((sweep.default, "Silverman"),) if sweep.default > 0 else (),
        caption="Divergences fall with the bandwidth and settle nowhere; Wasserstein distances hardly change.",
    )


def _table(samples: Profile, sweep: BandwidthSweep, shifts: np.ndarray) -> Table:
    chosen = int(np.abs(np.log(sweep.bandwidths / (sweep.default or 1.0))).argmin())
    rows: list[list[str | float | int]] = []
    for field, label in _NAMES.items():
        values = getattr(samples, field)
        rows.append(
            [label, float(values[0]), float(values[-1]), float(getattr(sweep.profile, field)[chosen])]
        )
    return Table(
        "slide-test-table",
        "Between two samples",
        ["distance", f"shift {shifts[0]:g}", f"shift {shifts[-1]:g}", "smoothed"],
        rows,
        caption=f"Smoothed: with a bandwidth of {sweep.bandwidths[chosen]:.3g}, at a shift of {shifts[-1] / 2:g}.",
    )


def _numbers(found: Profile) -> dict[str, list[float]]:
    return {name: np.asarray(values, dtype=float).tolist() for name, values in found._asdict().items()}


experiment = Experiment(
    "Two bumps, or two samples of your own, moving apart: KL, Jensen-Shannon, total variation, Wasserstein, MMD.",
    SlideTestSettings,
    run,
    toy={"steps": 5, "draws": 8},
    reference="Arjovsky, Chintala and Bottou, Wasserstein GAN, ICML 2017",
)

__all__ = ["SlideTestSettings", "experiment", "run"]
