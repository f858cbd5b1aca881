"""Certificates: changes within a radius that cannot alter an answer, proven rather than tried.

Randomised smoothing certifies the classifier that answers what noisy copies of an example agree on, whatever network it
is. Intervals and Lipschitz constants certify the network itself, where every one of its operations has a rule; for
networks that were not trained for it they prove little.
"""

from typing import Annotated, Any, final

import jax
import jax.numpy as jnp
import numpy as np
import pydantic
from pydantic import Field

from chainrule.core.errors import CapabilityError
from chainrule.core.formatting import short_number
from chainrule.core.pictures import Lines, Table
from chainrule.core.settings import Quotient
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.attacks import probabilities
from chainrule.explain.methods.bounds.intervals import proven
from chainrule.explain.methods.bounds.lipschitz import safe_radius, slope_of
from chainrule.explain.methods.robustness.threat import Threat, threat_of
from chainrule.explain.methods.smoothing import (
    ABSTAINS,
    Certificate,
    certified,
    certified_radius,
    lower_bound,
)
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import CanPredict, Model
from chainrule.train import Run

_POINTS = 60
"""Radii of a curve."""
_CUBES = 12
"""Half-widths at which intervals are tried, each half of the one before."""


@final
class CertificateSettings(Settings):
    """Noise, draws and how sure one wants to be."""

    sigma: tuple[Annotated[Quotient, Field(gt=0)], ...] = Field(
        (),
        description="standard deviations of the noise, in raw units: of 0 to 255 for 8-bit images, else of 0 to 1. "
        "Empty: as shares says",
    )
    shares: tuple[Annotated[Quotient, Field(gt=0, le=10)], ...] = Field(
        (0.05, 0.1, 0.25),
        min_length=1,
        description="the same as shares of the range: of pixels, or of each column of the training examples",
    )
    examples: int = Field(100, ge=1, description="test examples")
    draws: int = Field(1000, ge=1, le=10_000_000, description="noisy copies of each that bound a share")
    first_draws: int = Field(
        100, ge=1, le=10_000_000, description="other copies of each that choose the class"
    )
    alpha: float = Field(0.001, gt=0, lt=1, description="probability that a certificate is wrong, at most")
    bounds: bool = Field(True, description="whether intervals and Lipschitz constants are tried, too")
    seed: int = Field(0, ge=0, lt=2**32, description="decides the noise")

    @pydantic.field_validator("shares")
    @classmethod
    def _one_unit(cls, shares: tuple[float, ...], info: Any) -> tuple[float, ...]:
        if info.data.get("sigma") and shares != cls.model_fields["shares"].default:
            raise ValueError("sigma says already how large the noise is; give one of the two")
        return shares


def examine(run: Run, data: Data, settings: CertificateSettings) -> Outcome:
    """Certified accuracy against the radius for every noise, and what bounds of the network itself prove."""
    threat = threat_of(run, data, settings.examples, "", "2", bool(settings.sigma))
    sizes = settings.sigma or tuple(share * _range(threat) for share in settings.shares)
    clean = float((probabilities(threat.aim.victim, threat.aim.x).argmax(axis=-1) == threat.y).mean())
    key = jax.random.key(settings.seed)
    found = [
        certified(
            threat.aim,
            sigma,
            draws=settings.draws,
            first_draws=settings.first_draws,
            alpha=settings.alpha,
            key=jax.random.fold_in(key, number),
        )
        for number, sigma in enumerate(sizes)
    ]
    rows = [_row(sigma, certificate, threat.y) for sigma, certificate in zip(sizes, found, strict=True)]
    columns = ["sigma", "accuracy", "abstains", "median radius", "largest radius"]
    proof = _bounds(threat) if settings.bounds else Outcome([])
    listed = "; ".join(
        f"sigma {short_number(row[0])}: {row[1]:.1%} right, {row[2]:.1%} without an answer, half of the right ones "
        f"certain within {short_number(row[3])}"
        for row in rows
    )
    top = max(row[4] for row in rows) or 1.0
    radii = np.linspace(0, top, _POINTS)
    curves = {
        f"sigma {short_number(sigma)}": (radii, _certified_accuracy(certificate, threat.y, radii))
        for sigma, certificate in zip(sizes, found, strict=True)
    }
    return Outcome(
        [
            f"Smoothed over {settings.draws:,} noisy copies of each of {len(threat.y)} test examples ({clean:.1%} "
            f"right without noise), {threat.words}: {listed}.",
            f"A certificate is about the smoothed answer, holds for every change of that length and is wrong with "
            f"probability {settings.alpha:g} at most.",
            *proof.findings,
            *threat.said,
        ],
        [
            Lines(
                "certificate",
                "Certified accuracy against the length of the change",
                f"radius, {threat.words}",
                "certified accuracy",
                curves,
                caption=f"Share of test examples whose smoothed answer is right and proven to stay so within the "
                f"radius. {settings.draws:,} draws can prove a radius of "
                f"{short_number(_most(settings))} sigma at most.",
            ),
            *proof.pictures,
        ],
        Table("certificate-table", "Certificates by the size of the noise", columns, rows),
        {
            "clean": clean,
            **{column: [row[i] for row in rows] for i, column in enumerate(columns)},
            **proof.numbers,
        },
    )


def _range(threat: Threat) -> float:
    """The range of one number in the attacker's units: one where columns are measured by their own."""
    assert threat.aim.bounds is not None, "a threat has bounds"
    low, high = (np.asarray(bound, np.float64) for bound in threat.aim.bounds)
    return float((high - low).max())


def _most(settings: CertificateSettings) -> float:
    """The radius that draws prove where all of them agree, in units of the noise."""
    return float(certified_radius(1.0, lower_bound(settings.draws, settings.draws, settings.alpha)))


def _row(sigma: float, found: Certificate, y: np.ndarray) -> list[float]:
    right = found.classes == y
    radius = found.radius[right]
    return [
        sigma,
        float(right.mean()),
        float((found.classes == ABSTAINS).mean()),
        float(np.median(radius)) if radius.size else 0.0,
        float(radius.max(initial=0.0)),
    ]


def _certified_accuracy(found: Certificate, y: np.ndarray, radii: np.ndarray) -> np.ndarray:
    right = found.classes == y
    return np.asarray((right[None] & (found.radius[None] >= radii[:, None])).mean(axis=1))


def _bounds(threat: Threat) -> Outcome:
    """What is proven of the network itself."""
    aim = threat.aim._replace(y=jnp.asarray(threat.y))
    try:
        slope, radius = slope_of(aim), safe_radius(aim)
        sizes = _range(threat) / 2.0 ** np.arange(_CUBES, 0, -1)
        shares = np.array([proven(aim, float(eps)).mean() for eps in sizes])
    except CapabilityError as error:
        return Outcome([f"Of the network itself nothing is proven: {error.message.partition(': ')[2]}."])
    right = probabilities(aim.victim, aim.x).argmax(axis=-1) == threat.y
    middle = float(np.median(radius[right])) if right.any() else 0.0
    half = sizes[shares >= 0.5 * right.mean()].max(initial=0.0)
    cubes = (
        f"intervals prove half of them where every number moves by at most {short_number(float(half))}"
        if half
        else f"intervals prove less than half of them even at {short_number(float(sizes[0]))}"
    )
    return Outcome(
        [
            f"Of the network itself: no change of length 1 moves its logits by more than {short_number(slope)}, which "
            f"makes half of the right answers certain within {short_number(middle)}; {cubes}."
        ],
        [
            Lines(
                "certificate-intervals",
                "What intervals prove of the network itself",
                f"most that every number moves, {threat.words}",
                "certified accuracy",
                {"proven by intervals": (sizes, shares)},
                log_x=True,
                caption="Share of test examples that are right and proven to stay so. What is not proven may still "
                "be true.",
            )
        ],
        None,
        {
            "lipschitz": slope,
            "median lipschitz radius": middle,
            "cubes": sizes.tolist(),
            "proven": shares.tolist(),
        },
    )


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, CanPredict) and targets.of(schema).one_class and not kinds.of(schema).has_tokens


probe = Probe(
    "Changes that cannot alter an answer, proven: randomised smoothing, intervals, Lipschitz constants.",
    "a classifier of images, points, sequences or rows of a table",
    _applies,
    examine,
    CertificateSettings,
    toy={"shares": (0.1,), "examples": 4, "draws": 20, "first_draws": 5},
)

__all__ = ["CertificateSettings", "examine", "probe"]
