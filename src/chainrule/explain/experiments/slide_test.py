"""Two bumps moving apart: what divergences and transport distances see of the gap, and of a bandwidth.

Densities, samples or histograms. Sinkhorn divergences are of squared distances; their root is drawn, a distance too.
"""

from typing import Any, final

import jax
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Lines, Table
from chainrule.explain.methods.histogram_profile import histogram_profile, sinkhorn_distances
from chainrule.explain.methods.two_histograms import TwoHistograms, two_histograms
from chainrule.explain.protocol import Experiment, Listener, NonNegative, Outcome, Positive, Settings
from chainrule.probability import Normal
from chainrule.probability.divergences import BandwidthSweep, Profile, slide, smooth, stretch
from chainrule.probability.transport import entropic_normals, sinkhorn_divergence

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
_SINKHORN = "Sinkhorn (root)"
_BINS = 1000
"""A histogram is moved by so many bins at most."""


@final
class SlideTestSettings(Settings):
    """The two bumps, or two samples or histograms of your own."""

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
    of: tuple[NonNegative, ...] = Field(
        (), description="a histogram in place of samples, over 0, 1, 2, ...: of=1,4,2"
    )
    against: tuple[NonNegative, ...] = Field((), description="the one that is moved, by whole bins")
    eps: float = Field(
        0.1, gt=0, description="entropic strength of the Sinkhorn divergence, beside both variances"
    )
    bandwidths: tuple[Positive, ...] = Field(
        (), description="bandwidths to smooth samples with (default: 21 around Silverman's)"
    )
    seed: int = Field(0, ge=0, description="samples")


def run(settings: SlideTestSettings, listener: Listener) -> Outcome:
    """Densities and samples slid apart, one stretched, samples smoothed with every bandwidth."""
    if settings.of or settings.against:
        return _histograms(settings)
    if bool(settings.x) != bool(settings.y):
        raise ArgumentError("slide-test: two samples are needed", remedy="x=0.1,0.5,0.9 y=0.3,0.4")
    shifts = np.linspace(0, settings.gap, settings.steps)
    whole = Outcome([])
    if settings.x:
        x, y = np.array(settings.x), np.array(settings.y)
    else:
        listener("densities")
        rest, moving = Normal(0.0, 1.0), Normal(0.0, settings.deviation)
        whole = _densities(rest, moving, shifts, settings.eps * (1 + settings.deviation**2))
        one, two = jax.random.split(random.key(settings.seed, "slide-test"))
        x, y = np.asarray(rest.sample(one, settings.draws)), np.asarray(moving.sample(two, settings.draws))
    listener("samples")
    samples = slide(x, y, shifts)
    sinkhorn = _sinkhorn(x, y, shifts, settings.eps * (float(x.var() + y.var()) or 1.0))
    sweep = smooth(x, y + settings.gap / 2, settings.bandwidths or None)
    pictures = [
        *whole.pictures,
        _curves(
            "slide-test-samples",
            "Two samples moving apart",
            "shift of the second sample",
            shifts,
            samples,
            sinkhorn=sinkhorn,
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
        f"{alone}; Wasserstein-1 {samples.w1[middle]:.4g} and the root of the Sinkhorn divergence, "
        f"{sinkhorn[middle]:.4g}, grow with the shift.",
        f"Smoothed, the answer depends on the bandwidth: KL is {least:.4g} nats at h = {sweep.bandwidths[0]:.3g} and "
        f"{most:.4g} at h = {sweep.bandwidths[-1]:.3g}; Silverman's rule says h = {sweep.default:.3g}.",
    ]
    numbers = {
        **whole.numbers,
        "gap": shifts.tolist(),
        "samples": _numbers(samples) | {"sinkhorn": sinkhorn.tolist()},
        "bandwidths": sweep.bandwidths.tolist(),
        "silverman": sweep.default,
        "smoothed": _numbers(sweep.profile),
    }
    return Outcome(findings, pictures, _table(samples, sinkhorn, sweep, shifts, settings.gap / 2), numbers)


def _densities(rest: Normal, moving: Normal, shifts: np.ndarray, eps: float) -> Outcome:
    """The part about densities: one slid away from the other, and one stretched."""
    slid = slide(rest, moving, shifts)
    factors = np.geomspace(0.25, 4, len(shifts))
    stretched = stretch(rest, rest, factors)
    slid_root = _sinkhorn_of_normals(rest, moving, shifts, 1.0, eps)
    stretched_root = _sinkhorn_of_normals(rest, rest, 0.0, factors, eps)
    return Outcome(
        [
            f"Densities {shifts[-1]:g} apart: KL(p, q) {slid.kl[-1]:.4g} nats, total variation {slid.tv[-1]:.4g}, "
            f"Jensen-Shannon {slid.js[-1]:.4g} nats (at most {np.log(2):.4g}), Wasserstein-1 {slid.w1[-1]:.4g}."
        ],
        [
            _curves(
                *("slide-test-gap", "Two densities moving apart", "gap between the means", shifts, slid),
                sinkhorn=slid_root,
            ),
            _curves(
                "slide-test-stretch",
                "Two densities of equal mean",
                "ratio of their deviations",
                factors,
                stretched,
                "Information is lopsided: KL charges much more for a q that is too narrow.",
                log_x=True,
                sinkhorn=stretched_root,
            ),
        ],
        None,
        {
            "densities": _numbers(slid) | {"sinkhorn": slid_root.tolist()},
            "stretched": _numbers(stretched) | {"sinkhorn": stretched_root.tolist()},
            "ratio": factors.tolist(),
        },
    )


def _sinkhorn(x: np.ndarray, y: np.ndarray, shifts: np.ndarray, eps: float) -> np.ndarray:
    """Roots of the Sinkhorn divergences of a sample and another, shifted."""
    squares = [
        sinkhorn_divergence(x[:, None], y[:, None] + shift, eps, max_iterations=100_000) for shift in shifts
    ]
    return np.sqrt(np.maximum(np.asarray(squares, float), 0.0))


def _sinkhorn_of_normals(p: Normal, q: Normal, shifts: Any, factors: Any, eps: float) -> np.ndarray:
    """The same for two normal densities, in closed form; the second is shifted, or stretched."""
    mean, scale = float(q.mean) + shifts, float(q.scale) * factors
    between = entropic_normals(float(p.mean), float(p.scale), mean, scale, eps).value
    own = entropic_normals(0.0, float(p.scale), 0.0, float(p.scale), eps).value
    others = entropic_normals(0.0, scale, 0.0, scale, eps).value
    square = np.asarray(between, float) - float(own) / 2 - np.asarray(others, float) / 2
    return np.sqrt(
        np.maximum(np.broadcast_to(square, np.broadcast_shapes(*map(np.shape, (shifts, factors)))), 0.0)
    )


def _histograms(settings: SlideTestSettings) -> Outcome:
    """The part about histograms: one slid away from the other, and both smoothed where they do not meet."""
    pair = two_histograms("slide-test", settings.of, settings.against, 0)
    if not 1 <= settings.gap <= _BINS:
        raise ArgumentError(
            f"slide-test: gap={settings.gap:g} bins; a histogram is moved by 1 to {_BINS}", remedy="gap=6"
        )
    shifts = np.unique(np.round(np.linspace(0, settings.gap, settings.steps)).astype(int))
    found = histogram_profile(pair.a, pair.b, shifts)
    sinkhorn = sinkhorn_distances(pair.a, pair.b, shifts, settings.eps * _variances(pair))
    widths = np.array(settings.bandwidths or np.geomspace(0.25, 4, 9))
    smoothed = histogram_profile(pair.a, pair.b, np.full(len(widths), shifts[-1]), widths)
    sweep = BandwidthSweep(widths, 1.0, smoothed)
    said = "infinite" if np.isinf(found.kl[0]) else f"{found.kl[0]:.4g} nats"
    back = "infinite" if np.isinf(found.reverse_kl[0]) else f"{found.reverse_kl[0]:.4g} nats"
    return Outcome(
        [
            f"Unshifted: KL(p, q) is {said}, KL(q, p) {back}, Jensen-Shannon {found.js[0]:.4g} nats, Wasserstein-1 "
            f"{found.w1[0]:.4g}, Wasserstein-2 {found.w2[0]:.4g} bins, Sinkhorn divergence {sinkhorn[0] ** 2:.4g}.",
            f"Shifted by {shifts[-1]} bins: total variation {found.tv[-1]:.4g}, Jensen-Shannon {found.js[-1]:.4g} (at "
            f"most {np.log(2):.4g}); Wasserstein-1 {found.w1[-1]:.4g} follows the shift.",
            f"Smoothed there, KL is {sweep.profile.kl[0]:.4g} nats with a bandwidth of {widths[0]:.3g} bins and "
            f"{sweep.profile.kl[-1]:.4g} with {widths[-1]:.3g}: the bandwidth decides.",
        ],
        [
            _curves(
                *("slide-test-histograms", "Two histograms moving apart", "shift in bins", shifts, found),
                sinkhorn=sinkhorn,
            ),
            _bandwidths(sweep, float(shifts[-1]), "one bin"),
        ],
        _table(found, sinkhorn, sweep, shifts, float(shifts[-1])),
        {
            "shift": shifts.tolist(),
            "histograms": _numbers(found) | {"sinkhorn": sinkhorn.tolist()},
            "bandwidths": widths.tolist(),
            "smoothed": _numbers(sweep.profile),
        },
    )


def _variances(pair: TwoHistograms) -> float:
    sides = ((pair.a, pair.x), (pair.b, pair.y))
    return float(sum(weights @ np.square(at - weights @ at) for weights, at in sides)) or 1.0


def _curves(
    name: str,
    title: str,
    axis: str,
    at: np.ndarray,
    found: Profile,
    caption: str = "",
    *,
    log_x: bool = False,
    sinkhorn: np.ndarray,
) -> Lines:
    """Everything but what is infinite; KL leaves the frame at 5."""
    series = {
        label: (at, np.where(values < 5, values, np.nan))
        for field, label in _NAMES.items()
        if np.isfinite(values := np.asarray(getattr(found, field), dtype=float)).any()
    }
    gone = [label for label in _NAMES.values() if label not in series]
    series[_SINKHORN] = (at, np.where(sinkhorn < 5, sinkhorn, np.nan))
    note = f" Infinite everywhere, and not drawn: {', '.join(gone)}." if gone else ""
    caption = (
        caption or "Curves end at 5. Bounded divergences level off; Wasserstein distances follow the gap."
    )
    return Lines(name, title, axis, "nats, or distance", series, log_x=log_x, caption=caption + note)


def _bandwidths(sweep: BandwidthSweep, shift: float, mark: str = "Silverman") -> Lines:
    series = {
        label: (sweep.bandwidths, np.maximum(np.asarray(getattr(sweep.profile, field), dtype=float), 1e-9))
        for field, label in _NAMES.items()
    }
    return Lines(
        "slide-test-bandwidth",
        f"Both smoothed, one shifted by {shift:g}",
        "bandwidth h",
        "nats, or distance",
        series,
        log_x=True,
        log_y=True,
        marks=((sweep.default, mark),) if sweep.default > 0 else (),
        caption="Divergences fall with the bandwidth and settle nowhere; Wasserstein distances hardly change.",
    )


def _table(
    samples: Profile, sinkhorn: np.ndarray, sweep: BandwidthSweep, shifts: np.ndarray, smoothed_at: float
) -> Table:
    chosen = int(np.abs(np.log(sweep.bandwidths / (sweep.default or 1.0))).argmin())
    rows: list[list[str | float | int]] = []
    for field, label in _NAMES.items():
        values = getattr(samples, field)
        rows.append(
            [label, float(values[0]), float(values[-1]), float(getattr(sweep.profile, field)[chosen])]
        )
    rows.append([_SINKHORN, float(sinkhorn[0]), float(sinkhorn[-1]), "-"])
    return Table(
        "slide-test-table",
        "Shifted and smoothed",
        ["distance", f"shift {shifts[0]:g}", f"shift {shifts[-1]:g}", "smoothed"],
        rows,
        caption=f"Smoothed: with a bandwidth of {sweep.bandwidths[chosen]:.3g}, at a shift of {smoothed_at:g}.",
    )


def _numbers(found: Profile) -> dict[str, list[float]]:
    return {name: np.asarray(values, dtype=float).tolist() for name, values in found._asdict().items()}


experiment = Experiment(
    "Two bumps, or samples or histograms of your own, moving apart: KL, Jensen-Shannon, Wasserstein, Sinkhorn, MMD.",
    SlideTestSettings,
    run,
    toy={"steps": 5, "draws": 8},
    reference="Arjovsky, Chintala and Bottou, Wasserstein GAN, ICML 2017",
)

__all__ = ["SlideTestSettings", "experiment", "run"]
