"""Anomalies: which examples a density model finds unusual, and whether it would notice examples that are not data.

Two scores are compared. The *surprisal* of an example is its negative log-likelihood, or the bound of it. Its distance
from the mean surprisal of training examples is its *atypicality*: an example can be too likely, too (a blank image
under a model of busy ones), which surprisal alone would never tell (Nalisnick et al., 2019).
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Images, Lines, Picture, Table
from chainrule.core.types import Array, Key
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.protocol import Count, Outcome, Probe, Settings
from chainrule.models.protocol import HasBound, HasDensity, HasLogProb, Model
from chainrule.networks import units
from chainrule.train import Run
from chainrule.train.ranking import area_under

_AT_ONCE = 128
_SHOWN = 10
_BINS = 40


@final
class AnomaliesSettings(Settings):
    """How many examples are judged, and how closely."""

    n: Count = Field(500, description="examples of each kind: held out, training, and altered")
    draws: Count = Field(4, description="bounds: draws whose mean is taken for every example")
    seed: int = Field(0, ge=0, description="of draws and of altered examples")


def examine(run: Run, data: Data, settings: AnomaliesSettings) -> Outcome:
    """Judge held-out, training and altered examples, and see how well either score tells them apart."""
    model: Any = eqx.nn.inference_mode(run.model)
    part, said = data.held_out()
    held, train = (
        split.batch(np.unique(np.linspace(0, len(split) - 1, min(settings.n, len(split))).astype(int))).x
        for split in (part, data.train)
    )
    sets = {"held out": held, "training": train, **_altered(held, settings.seed)}
    nats = {
        name: data.nats(_log_likelihoods(model, data.schema, np.asarray(x, np.float32), settings, number))
        for number, (name, x) in enumerate(sets.items())
    }
    typical = float(nats["training"].mean())
    rows: list[list[Any]] = []
    for name in list(sets)[2:]:
        by_surprisal = _area(nats[name], nats["held out"])
        by_typicality = _area(abs(nats[name] - typical), abs(nats["held out"] - typical))
        rows.append([name, float(nats[name].mean()), by_surprisal, by_typicality])
    kind = "-log p" if isinstance(model, HasLogProb) else "bound of -log p"
    order = np.argsort(-nats["held out"])
    table = Table(
        "anomalies",
        "How well examples that are not data are noticed",
        ["examples", f"{kind}, nats", "area by surprisal", "area by atypicality"],
        rows,
        caption=f"Area under the ROC curve against held-out examples ({nats['held out'].mean():.4g} nats): 1 is every "
        "time, 0.5 is chance. Shuffled: the entries of an example in another order; mixed: each entry from another "
        "example; blank: all entries the same.",
    )
    numbers = {name: {"surprisal": a, "atypicality": b, "nats": mean} for name, mean, a, b in rows}
    worst = rows[int(np.argmin([max(row[2:]) for row in rows]))]
    return Outcome(
        [
            f"Hardest to notice are {worst[0]} examples: an area of {worst[2]:.3f} by surprisal, {worst[3]:.3f} by "
            "atypicality.",
            f"The most unusual held-out example costs {nats['held out'][order[0]]:.4g} nats, the mean is "
            f"{nats['held out'].mean():.4g}.",
            *said,
        ],
        [_histograms(nats, kind), *_extremes(data.schema, held, nats["held out"], order)],
        table,
        numbers | {"most_unusual": order[:_SHOWN].tolist()},
    )


def _altered(x: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Examples that no longer are data: entries exchanged within an example or between examples, or all at the mean."""
    draw = np.random.default_rng(seed)
    rows = np.asarray(x).reshape(len(x), -1)
    within = np.take_along_axis(rows, draw.random(rows.shape).argsort(axis=1), axis=1)
    between = np.take_along_axis(rows, draw.random(rows.shape).argsort(axis=0), axis=0)
    blank = np.full_like(rows, np.sort(rows, axis=None)[rows.size // 2])  # a value that there is
    found = {"shuffled": within, "mixed": between, "blank": blank}
    return {name: one.reshape(x.shape) for name, one in found.items()}


def _log_likelihoods(
    model: Any, schema: Schema, x: np.ndarray, settings: AnomaliesSettings, number: int
) -> np.ndarray:
    key = random.at(random.key(settings.seed, "anomalies"), number)
    found = []
    for first in range(0, len(x), _AT_ONCE):
        some = x[first : first + _AT_ONCE]
        filled = np.concatenate([some, np.repeat(some[-1:], _AT_ONCE - len(some), axis=0)])
        values = _judged(model, schema, jnp.asarray(filled), random.at(key, first), settings.draws)
        found.append(np.asarray(values)[: len(some)])
    return np.concatenate(found)


@eqx.filter_jit
def _judged(model: Model, schema: Schema, x: Array, key: Key, draws: int) -> Array:
    def one(key: Key) -> Array:
        if isinstance(model, HasLogProb):
            noisy = bool(schema.levels) and isinstance(model, HasDensity)
            return model.log_prob(units.dequantized(schema, x, key) if noisy else x)
        assert isinstance(model, HasBound)
        return model.elbo(x, key)

    exact = isinstance(model, HasLogProb) and not (schema.levels and isinstance(model, HasDensity))
    if exact:
        return one(key)
    return jax.lax.map(one, jax.random.split(key, draws)).mean(axis=0)


def _area(higher: np.ndarray, lower: np.ndarray) -> float:
    """The share of pairs in which the first is larger; ties count half."""
    ours = np.arange(len(higher) + len(lower)) < len(higher)
    return area_under(np.concatenate([higher, lower]), ours)


def _histograms(nats: dict[str, np.ndarray], kind: str) -> Lines:
    every = np.concatenate(list(nats.values()))
    low, high = np.percentile(every, (0.5, 99.5))
    edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    return Lines(
        "surprisal",
        "What examples cost",
        f"{kind}, nats",
        "share of the examples",
        {name: (middle, np.histogram(values, edges)[0] / len(values)) for name, values in nats.items()},
        caption="Altered examples that lie where the data lie are not noticed by any threshold.",
    )


def _extremes(schema: Schema, x: np.ndarray, nats: np.ndarray, order: np.ndarray) -> list[Picture]:
    if not kinds.of(schema).shows_pixels(schema):
        return []
    count = min(_SHOWN, len(x))
    chosen = np.concatenate([order[:count], order[::-1][:count]])
    return [
        Images(
            "extremes",
            "The most and the least unusual held-out examples",
            np.clip(np.asarray(x)[chosen], 0, 1),
            [f"{nats[number]:.4g}" for number in chosen],
            count,
            "Above those that cost most nats, below those that cost fewest.",
            aligned=True,
        )
    ]


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, HasLogProb | HasBound) and not kinds.of(schema).has_tokens


probe = Probe(
    "Anomalies: the most unusual examples, and whether examples that are not data would be noticed.",
    "a model that knows the likelihood of an example, or a bound of it",
    _applies,
    examine,
    AnomaliesSettings,
    toy={"n": 8, "draws": 1},
)

__all__ = ["AnomaliesSettings", "examine", "probe"]
