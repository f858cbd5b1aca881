"""Failures of Langevin dynamics without added noise: two modes far apart, whose weights it gets wrong."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Lines, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.models.diffusion import samplers
from chainrule.models.diffusion.denoisers.mixture import MixtureDenoiser
from chainrule.models.diffusion.process import Level
from chainrule.probability.monte_carlo.langevin import langevin

_STD = 0.5
_HIGH = 10.0


@final
class LangevinSettings(Settings):
    """The mixture and the walks."""

    weight: float = Field(0.8, gt=0, lt=1, description="weight of the right mode")
    distance: float = Field(4.0, gt=0, description="distance of each mode from zero; both have deviation 0.5")
    chains: int = Field(4000, ge=10, description="walks")
    levels: int = Field(20, ge=2, description="noise levels of the annealed walk")
    moves: int = Field(100, ge=1, description="moves at each of them")
    seed: int = Field(0, ge=0, description="starts and noise")


def run(settings: LangevinSettings, listener: Listener) -> Outcome:
    """A plain walk by the exact score, an annealed one with the same number of moves, and a flow."""
    del listener
    d = settings.distance
    mixture = MixtureDenoiser([1 - settings.weight, settings.weight], [[-d], [d]], [_STD**2, _STD**2])
    begin, walk = jax.random.split(random.key(settings.seed, "langevin"))
    total = settings.levels * settings.moves
    start = jax.random.uniform(begin, (settings.chains, 1), minval=-2 * d, maxval=2 * d)
    still = Level(jnp.ones(()), jnp.zeros(()))
    plain = langevin(lambda x: mixture.predict(x, still), start, 0.02, total, walk)
    noise = np.geomspace(_HIGH, 0.1, settings.levels)
    ladder = Level(np.ones(settings.levels + 1), np.append(noise, 0.0))
    far = _HIGH * jax.random.normal(begin, (settings.chains, 1))
    annealed = samplers.walk(mixture, far, ladder, samplers.AnnealedLangevin(settings.moves), walk).samples
    fine = Level(np.ones(401), np.append(np.geomspace(5 * _HIGH, 0.01, 400), 0.0))
    flow = samplers.walk(mixture, 5 * far, fine, samplers.DDIM(), walk).samples
    found = {"plain": plain, "annealed": annealed, "flow": flow}
    shares = {name: float((x > 0).mean()) for name, x in found.items()}
    widths = {name: float(jnp.where(x > 0, x - d, x + d).std()) for name, x in found.items()}
    rows: list[list[str | float | int]] = [["exact", settings.weight, _STD]]
    rows += [[name, shares[name], widths[name]] for name in found]
    return Outcome(
        [
            f"The right mode has weight {settings.weight:g}. A plain walk of {total:,} moves from an even start gives "
            f"it {shares['plain']:.2f}: no walk crosses the gap, so each mode keeps what started near it.",
            f"With noise falling from {_HIGH:g} to 0.1 the same number of moves gives {shares['annealed']:.2f}, and "
            f"the flow in 400 steps {shares['flow']:.2f}.",
        ],
        [_histogram(found, mixture, settings)],
        Table(
            "langevin-failures",
            "The right mode",
            ["walk", "weight", "deviation within a mode"],
            rows,
        ),
        {"weight": shares, "deviation": widths, "exact_weight": settings.weight},
    )


def _histogram(found: dict[str, jax.Array], mixture: MixtureDenoiser, settings: LangevinSettings) -> Lines:
    edges = np.linspace(-2 * settings.distance, 2 * settings.distance, 81)
    middle = (edges[1:] + edges[:-1]) / 2
    series: dict[str, tuple[np.ndarray, ...]] = {}
    for name, x in found.items():
        counts, _ = np.histogram(np.asarray(x)[:, 0], edges)
        series[name] = (middle, counts / (settings.chains * (edges[1] - edges[0])))
    points = jnp.asarray(middle, jnp.float32)[:, None]
    exact = np.exp(np.asarray(mixture.log_density(points, Level(jnp.ones(()), jnp.zeros(())))))
    return Lines("langevin-failures", "Where walks end", "x", "density", {"exact": (middle, exact), **series})


experiment = Experiment(
    "Plain Langevin dynamics gets the weights of far modes wrong; noise falling step by step gets them right.",
    LangevinSettings,
    run,
    toy={"chains": 200, "levels": 5, "moves": 10},
    reference="Song and Ermon, Generative modeling by estimating gradients of the data distribution, NeurIPS 2019",
)

__all__ = ["LangevinSettings", "experiment", "run"]
