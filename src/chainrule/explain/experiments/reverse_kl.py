"""Two divergences on two modes: one affine layer fitted to data of a mixture, and to its density."""

import math
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines, Table
from chainrule.core.types import Array, Float
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.networks.flows.base_distributions import StandardNormal
from chainrule.networks.flows.density_fit import DensityFit, fit_density
from chainrule.networks.flows.elementwise import ScaleShift

_GRID = 400
_BINS = 40


@final
class ReverseKLSettings(Settings):
    """The two modes and the fit."""

    distance: float = Field(3.0, gt=0, le=100, description="of either mode from zero")
    spread: float = Field(0.5, gt=0, le=100, description="standard deviation of each mode")
    start: float = Field(0.5, ge=-100, le=100, description="where the shift of the layer begins")
    steps: int = Field(1500, ge=10, le=100_000, description="steps of the fit")
    seed: int = Field(0, ge=0, description="the draws")


def _log_density(x: Float[Array, " n"], settings: ReverseKLSettings) -> Float[Array, " n"]:
    """Half a normal at each mode."""
    s = settings.spread
    each = [-0.5 * jnp.square((x - sign * settings.distance) / s) for sign in (-1, 1)]
    return jnp.logaddexp(*each) + math.log(0.5) - math.log(s * math.sqrt(2 * math.pi))


def run(settings: ReverseKLSettings, listener: Listener) -> Outcome:
    """The best normal by each divergence: forward in closed form, reverse by gradients from the density alone."""
    del listener
    layer = ScaleShift((1,), shift=settings.start)
    found = fit_density(
        lambda x: _log_density(x[:, 0], settings),
        layer,
        key=jax.random.key(settings.seed),
        steps=settings.steps,
        lr=0.02,
        warn=False,
    )
    fitted = found.bijection
    assert isinstance(fitted, ScaleShift)
    mean, deviation = float(fitted.shift[0]), float(jnp.exp(fitted.log_scale[0]))
    forward = math.hypot(settings.distance, settings.spread)
    divergence = float(found.losses[-max(settings.steps // 10, 1) :].mean())
    rows: list[list[str | float | int]] = [
        ["forward, from data", 0.0, forward],
        ["reverse, from the density", mean, deviation],
    ]
    return Outcome(
        [
            f"KL(data || flow) covers both modes: mean 0, deviation {forward:.4f}, the moments of the data.",
            f"KL(flow || target) seeks one: mean {mean:.4f}, deviation {deviation:.4f}, a divergence of "
            f"{divergence:.4f} (half the target missed is log 2 = {math.log(2):.4f}).",
            f"Weights of its draws say log Z = {found.log_partition:.4f}, the truth 0, and {found.effective_share:.1%} "
            "of the draws count: seen from one mode, nothing is wrong. Another start would find the other mode.",
        ],
        [_densities(settings, mean, deviation, forward), _weights(found)],
        Table("reverse-kl", "The best normal by each divergence", ["divergence", "mean", "deviation"], rows),
        {
            "forward": {"mean": 0.0, "deviation": forward},
            "reverse": {"mean": mean, "deviation": deviation, "divergence": divergence},
            "log_partition": found.log_partition,
            "effective_share": found.effective_share,
        },
    )


def _densities(settings: ReverseKLSettings, mean: float, deviation: float, forward: float) -> Lines:
    reach = settings.distance + 4 * settings.spread
    x = np.linspace(-reach, reach, _GRID)
    noise = StandardNormal((1,))

    def normal(centre: float, width: float) -> np.ndarray:
        codes = jnp.asarray((x - centre) / width, jnp.float32)[:, None]
        return np.exp(np.asarray(noise.log_prob(codes))) / width

    target = np.exp(np.asarray(_log_density(jnp.asarray(x, jnp.float32), settings)))
    return Lines(
        "reverse-kl-densities",
        "One normal for two modes",
        "x",
        "density",
        {
            "target": (x, target),
            "forward": (x, normal(0.0, forward)),
            "reverse": (x, normal(mean, deviation)),
        },
        caption="The forward divergence is infinite where data have no density under the flow, and covers them; the "
        "reverse one is where draws of the flow have none under the target, and avoids the gap.",
    )


def _weights(found: DensityFit) -> Lines:
    heights, edges = np.histogram(found.log_weights, _BINS)
    return Lines(
        "reverse-kl-weights",
        "Importance weights of the flow's draws",
        "log weight",
        "draws",
        {"draws": ((edges[1:] + edges[:-1]) / 2, heights.astype(float))},
        marks=[(found.log_partition, "log Z")],
        caption=f"{found.effective_share:.1%} of the draws count.",
    )


experiment = Experiment(
    "Forward and reverse divergence on two modes: one covers both, the other seeks one.",
    ReverseKLSettings,
    run,
    toy={"steps": 50},
    reference="Papamakarios et al., Normalizing flows for probabilistic modeling and inference, JMLR 2021, section 2.3",
)

__all__ = ["ReverseKLSettings", "experiment", "run"]
