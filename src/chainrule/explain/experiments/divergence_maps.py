"""Every distance between two coins as a map over both their probabilities, and slices through it."""

import functools
import math
from typing import Literal, final

import jax
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Heatmap, Lines, Picture
from chainrule.core.types import Array
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.probability import divergences


@final
class DivergenceMapsSettings(Settings):
    """The square of coins."""

    q: float = Field(0.25, gt=0, lt=1, description="second coin of the slices: probability of heads")
    size: int = Field(41, ge=3, le=201, description="coins along each side of the maps")
    most: float = Field(3.0, gt=0, description="larger values are drawn as this one")
    base: Literal["e", "2"] = Field("e", description="logarithms: e gives nats, 2 gives bits")


def run(settings: DivergenceMapsSettings, listener: Listener) -> Outcome:
    """Each distance over the open unit square, and with the second coin held fixed."""
    del listener
    base, unit = (math.e, "nats") if settings.base == "e" else (2.0, "bits")
    coins = (np.arange(settings.size) + 0.5) / settings.size
    sides = np.stack([coins, 1 - coins], axis=-1).astype(np.float32)
    second = np.concatenate([sides, [[settings.q, 1 - settings.q]]]).astype(
        np.float32
    )  # the slice comes last
    found = jax.jit(functools.partial(_all, base=base))(*np.broadcast_arrays(sides[:, None], second[None]))
    pictures: list[Picture] = []
    slices: dict[str, tuple[np.ndarray, ...]] = {}
    lopsided: dict[str, float] = {}
    ticks = ["" if i % max(settings.size // 8, 1) else f"{coin:.2f}" for i, coin in enumerate(coins)]
    for name in divergences.distances:
        one = divergences.distances[name]
        *columns, held = np.asarray(found[name], dtype=float).T
        values = np.stack(columns, axis=1)
        lopsided[name] = float(np.abs(values - values.T).max())
        slices[name] = (coins, np.where(held <= settings.most, held, np.nan))
        symmetric = "symmetric" if one.is_symmetric else f"not symmetric: up to {lopsided[name]:.2g} apart"
        pictures.append(
            Heatmap(
                f"divergence-maps-{name.lower().replace(' ', '-')}",
                f"{name}{f' ({unit})' if one.in_bits else ''}",
                "q, probability of heads",
                "p, probability of heads",
                np.minimum(values, settings.most),
                rows=ticks,
                columns=ticks,
                caption=f"{one.convention}. {'A metric' if one.is_metric else 'No metric'}, {symmetric}.",
            )
        )
    pictures.append(
        Lines(
            "divergence-maps-slices",
            f"From a coin of p to a coin of {settings.q:g}",
            "p",
            f"distance ({unit} where it is information)",
            slices,
            marks=((settings.q, f"q = {settings.q:g}"),),
            caption=f"Curves end at {settings.most:g}. Cross-entropy is not zero at p = q: it is the entropy there.",
        )
    )
    uneven = [name for name in divergences.distances if not divergences.distances[name].is_symmetric]
    return Outcome(
        [
            f"Of {len(lopsided)} distances {len(uneven)} are not symmetric: "
            + ", ".join(f"{name} (up to {lopsided[name]:.3g} between the two directions)" for name in uneven)
            + f", over coins from {coins[0]:.3g} to {coins[-1]:.3g}.",
            "All but cross-entropy are zero on the diagonal and nowhere else; metrics leave it in straight lines, "
            "divergences in parabolas.",
        ],
        pictures,
        None,
        {"asymmetry": lopsided, "coins": coins.tolist()},
    )


def _all(p: Array, q: Array, base: float) -> dict[str, Array]:
    """Every distance by name, in one program."""
    table = divergences.distances
    return {
        name: table[name].function(p, q, **({"base": base} if table[name].in_bits else {})) for name in table
    }


experiment = Experiment(
    "Heat maps of every distance between two coins, and slices through them.",
    DivergenceMapsSettings,
    run,
    toy={"size": 5},
    reference="Cover and Thomas, Elements of Information Theory, 2nd edition, 2006",
)

__all__ = ["DivergenceMapsSettings", "experiment", "run"]
