"""Distances between two coins: how each grows as one coin moves away from the other, and which are metrics."""

import math
from typing import Literal, final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.probability import divergences


@final
class DistancesSettings(Settings):
    """Two coins."""

    p: float = Field(0.5, gt=0, lt=1, description="first coin: probability of heads, held fixed")
    q: float = Field(0.9, gt=0, lt=1, description="second coin, for the numbers; the picture sweeps it")
    base: Literal["e", "2"] = Field("e", description="logarithms: e gives nats, 2 gives bits")


def run(settings: DistancesSettings, listener: Listener) -> Outcome:
    """Sweep q and draw every distance from p."""
    del listener
    base = math.e if settings.base == "e" else 2.0
    unit = "nats" if settings.base == "e" else "bits"
    sweep = np.linspace(0.005, 0.995, 199)
    p = jnp.broadcast_to(jnp.array([settings.p, 1 - settings.p]), (len(sweep), 2))
    q = jnp.stack([jnp.asarray(sweep, jnp.float32), jnp.asarray(1 - sweep, jnp.float32)], axis=-1)
    curves = {
        "KL(p, q)": divergences.kl(p, q, base=base),
        "KL(q, p)": divergences.kl(q, p, base=base),
        "chi-square": divergences.chi_square(p, q),
        "Jensen-Shannon": divergences.jensen_shannon(p, q, base=base),
        "total variation": divergences.total_variation(p, q),
        "Hellinger": divergences.hellinger(p, q),
        "L2": divergences.lp(p, q),
    }
    picture = Lines(
        "distances",
        f"From a coin of {settings.p:g} to a coin of q",
        "q",
        f"distance ({unit} where it is information)",
        {
            name: (sweep, np.where(np.asarray(curve) > 3, np.nan, np.asarray(curve)))
            for name, curve in curves.items()
        },
        marks=((settings.q, f"q = {settings.q:g}"),),
        caption="Curves end at 3. Metrics come down to p in straight lines, divergences in parabolas.",
    )
    two = [[settings.p, 1 - settings.p], [settings.q, 1 - settings.q]]
    found = {one.name: one for one in divergences.compare(*two, base=base, normalize=True)}
    rows = [
        [one.name, one.forward, one.backward, one.unit or "none", "metric" if one.is_metric else "no metric"]
        for one in found.values()
    ]
    event = "heads" if bool(divergences.most_telling_event(*two, normalize=True)[0]) else "tails"
    variation, information = found["total variation"].forward, found["KL"].forward
    pinsker = math.sqrt(information * math.log(base) / 2)
    return Outcome(
        [
            f"At p = {settings.p:g}, q = {settings.q:g}: total variation {variation:.4g}, KL(p, q) {information:.4g} "
            f"{unit}, KL(q, p) {found['KL'].backward:.4g} {unit}.",
            f"The event that tells them apart best is {event}: its probabilities differ by {variation:.4g}.",
            f"Pinsker's inequality: total variation {variation:.4g} is at most sqrt(KL / 2) = {pinsker:.4g}.",
        ],
        [picture],
        Table("distances-table", "All distances", ["distance", "p to q", "q to p", "unit", "kind"], rows),
        {name: {"forward": one.forward, "backward": one.backward} for name, one in found.items()}
        | {"pinsker_bound": pinsker},
    )


experiment = Experiment(
    "Distances between distributions, on two coins: total variation, KL and their relatives, metric or not.",
    DistancesSettings,
    run,
    toy={},
    reference="Cover and Thomas, Elements of Information Theory, 2nd edition, 2006",
)

__all__ = ["DistancesSettings", "experiment", "run"]
