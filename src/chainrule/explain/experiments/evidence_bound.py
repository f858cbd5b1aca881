"""The evidence and its lower bound in a model where both can be written down, and where their maxima differ."""

import math
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.special
from pydantic import Field

from chainrule.core.pictures import Lines, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.probability.variational import exponential

_POINTS = 200


@final
class EvidenceBoundSettings(Settings):
    """z ~ Exp(theta), x | z ~ N(z, 1), with the guide Exp(phi)."""

    x: float = Field(
        2.0, ge=0.1, le=20, description="what is observed; the bound has a maximum only above zero"
    )
    theta: float | None = Field(
        None,
        gt=0,
        le=100,
        description="rate of the code, for the picture over phi; else where the bound is largest",
    )


def run(settings: EvidenceBoundSettings, listener: Listener) -> Outcome:
    """Bound and evidence over theta, each at its best guide, and the bound over phi at one theta."""
    del listener
    x = settings.x
    best = exponential.joint_optimum(x)
    theta = best.theta if settings.theta is None else settings.theta
    likeliest = _likeliest(x)
    phi = float(exponential.best_phi(x, theta))
    bound, evidence = float(exponential.bound(x, theta, phi)), float(exponential.evidence(x, theta))
    return Outcome(
        [
            f"At x = {x:g} the bound is largest, {best.bound:.4f} nats, at theta = phi = 2/x = {best.theta:.4f}.",
            f"The evidence is largest at theta = {likeliest:.4f}: maximising a bound that is not tight gives another "
            "model than maximising the likelihood.",
            f"At theta = {theta:.4f} the best guide has phi = {phi:.4f}, the bound is {bound:.4f}, the evidence "
            f"{evidence:.4f}; the gap of {evidence - bound:.4f} nats is the divergence of the guide from the "
            "posterior, which is no exponential distribution.",
        ],
        _pictures(x, theta, likeliest),
        Table(
            "evidence-bounds",
            "Where each is largest",
            ["", "theta", "phi", "ELBO", "log p(x)"],
            [
                _row("largest bound", x, best.theta),
                _row("largest evidence", x, likeliest),
                _row("chosen", x, theta),
            ],
        ),
        {
            "best_theta": best.theta,
            "best_bound": best.bound,
            "likeliest_theta": likeliest,
            "phi": phi,
            "bound": bound,
            "evidence": evidence,
        },
    )


def _pictures(x: float, theta: float, likeliest: float) -> list[Lines]:
    best, phi = exponential.joint_optimum(x).theta, float(exponential.best_phi(x, theta))
    evidence = float(exponential.evidence(x, theta))
    both = jax.jit(
        jax.vmap(lambda t: (exponential.bound(x, t, exponential.best_phi(x, t)), exponential.evidence(x, t)))
    )
    thetas = np.geomspace(min(likeliest, theta, best) / 5, 5 * max(theta, best), _POINTS)
    bounds, evidences = (np.asarray(curve) for curve in both(jnp.asarray(thetas, jnp.float32)))
    phis = np.geomspace(phi / 4, 6 * phi, _POINTS)
    over_phi = np.asarray(
        jax.jit(jax.vmap(lambda p: exponential.bound(x, theta, p)))(jnp.asarray(phis, jnp.float32))
    )
    return [
        Lines(
            "evidence-bound",
            "Evidence and bound over the rate of the code",
            "theta",
            "nats",
            {"log p(x)": (thetas, evidences), "ELBO, best guide": (thetas, bounds)},
            log_x=True,
            marks=((likeliest, "likeliest"), (best, "largest bound")),
        ),
        Lines(
            "evidence-bound-guide",
            f"The bound over the rate of the guide, theta = {theta:.3g}",
            "phi",
            "nats",
            {"log p(x)": (phis, np.full(_POINTS, evidence)), "ELBO": (phis, over_phi)},
            log_x=True,
            marks=((phi, "best guide"),),
            caption="The distance between the two is KL(q || p(z|x)).",
        ),
    ]


def _row(name: str, x: float, theta: float) -> list[str | float | int]:
    phi = float(exponential.best_phi(x, theta))
    return [name, theta, phi, float(exponential.bound(x, theta, phi)), float(exponential.evidence(x, theta))]


def _likeliest(x: float) -> float:
    """The theta under which x is likeliest: the root of `1/theta + theta - x - phi/Phi (x - theta)`."""

    def slope(theta: float) -> float:
        excess = x - theta
        density = -0.5 * excess**2 - 0.5 * math.log(2 * math.pi)
        return 1 / theta - excess - math.exp(density - float(scipy.special.log_ndtr(excess)))

    return float(scipy.optimize.brentq(slope, 1e-3 / x, 10 / x, xtol=1e-12))


experiment = Experiment(
    "The evidence and its lower bound in a model of one number, where both can be written down.",
    EvidenceBoundSettings,
    run,
    toy={},
    reference="Jordan, Ghahramani, Jaakkola and Saul, An introduction to variational methods for graphical models, "
    "Machine Learning 1999",
)

__all__ = ["EvidenceBoundSettings", "experiment", "run"]
