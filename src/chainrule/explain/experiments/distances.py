"""Distances between two coins: how each grows as one coin moves away from the other, and which are metrics."""

import math
from collections.abc import Sequence
from typing import Literal, final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Bars, Lines, Table
from chainrule.explain.protocol import Experiment, Listener, NonNegative, Outcome, Settings
from chainrule.probability import divergences


@final
class DistancesSettings(Settings):
    """Two coins, or two distributions over any number of outcomes."""

    p: float = Field(0.5, gt=0, lt=1, description="first coin: probability of heads, held fixed")
    q: float = Field(0.9, gt=0, lt=1, description="second coin, for the numbers; the picture sweeps it")
    of: tuple[NonNegative, ...] = Field(
        (), description="a distribution in place of the first coin: of=0.2,0.3,0.5"
    )
    against: tuple[NonNegative, ...] = Field((), description="one of as many outcomes in place of the second")
    normalize: bool = Field(False, description="distributions: divide by their sums, so that counts will do")
    base: Literal["e", "2"] = Field("e", description="logarithms: e gives nats, 2 gives bits")


def run(settings: DistancesSettings, listener: Listener) -> Outcome:
    """Sweep q and draw every distance from p; of two distributions the distances and what each outcome adds."""
    del listener
    base = math.e if settings.base == "e" else 2.0
    unit = "nats" if settings.base == "e" else "bits"
    if settings.of or settings.against:
        return _distributions(settings, base, unit)
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
        _table(list(found.values())),
        {name: {"forward": one.forward, "backward": one.backward} for name, one in found.items()}
        | {"pinsker_bound": pinsker},
    )


def _distributions(settings: DistancesSettings, base: float, unit: str) -> Outcome:
    """Every distance between two distributions, the event that tells them apart, and what each outcome adds to KL."""
    if len(settings.of) != len(settings.against):
        raise ArgumentError(
            f"distances: {len(settings.of)} outcomes against {len(settings.against)}; they need as many outcomes",
            remedy="of=0.2,0.3,0.5 against=0.1,0.1,0.8",
        )
    two, known = (settings.of, settings.against), settings.normalize
    compared = divergences.compare(*two, base=base, normalize=known)
    found = {one.name: one for one in compared}
    p, q = (np.asarray(one) / np.sum(one) for one in two)
    event = np.flatnonzero(np.asarray(divergences.most_telling_event(*two, normalize=known)))
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(p > 0, p * np.log(p / q), 0.0) / math.log(base)
    entropy = float(divergences.entropy(settings.of, base=base, normalize=known))
    cross = float(divergences.cross_entropy(*two, base=base, normalize=known))
    outcomes = [str(number) for number in range(len(p))]
    return Outcome(
        [
            f"Total variation {found['total variation'].forward:.4g}, KL(p, q) {found['KL'].forward:.4g} {unit}, "
            f"KL(q, p) {found['KL'].backward:.4g} {unit}.",
            f"The event that tells them apart best is {{{', '.join(map(str, event))}}}: p gives it "
            f"{p[event].sum():.4g}, q {q[event].sum():.4g}.",
            f"Cross-entropy {cross:.4g} = entropy of p {entropy:.4g} + KL {found['KL'].forward:.4g} {unit}.",
        ],
        [
            Bars(
                "distances-outcomes",
                "The two distributions",
                "outcome",
                "probability",
                outcomes,
                {"p": p, "q": q},
            ),
            Bars(
                "distances-shares",
                "What each outcome adds to KL(p, q)",
                "outcome",
                unit,
                outcomes,
                {"p log(p/q)": np.where(np.isfinite(shares), shares, np.nan)},
                caption="An outcome that p has and q has not makes it infinite; it has no bar.",
            ),
        ],
        _table(compared),
        {name: {"forward": one.forward, "backward": one.backward} for name, one in found.items()}
        | {"entropy": entropy, "cross_entropy": cross, "event": event.tolist()},
    )


def _table(found: Sequence[divergences.Compared]) -> Table:
    rows = [
        [
            one.name,
            one.forward,
            one.backward,
            one.unit or "none",
            "metric" if one.is_metric else "no metric",
            one.convention,
        ]
        for one in found
    ]
    columns = ["distance", "p to q", "q to p", "unit", "kind", "convention"]
    return Table("distances-table", "All distances", columns, rows)


experiment = Experiment(
    "Distances between two distributions of your own, or two coins: total variation, KL and their relatives.",
    DistancesSettings,
    run,
    toy={},
    reference="Cover and Thomas, Elements of Information Theory, 2nd edition, 2006",
)

__all__ = ["DistancesSettings", "experiment", "run"]
