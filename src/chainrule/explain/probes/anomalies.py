"""Anomalies: which examples a density model finds unusual, and whether it would notice examples that are not data.

Two scores are compared. The *surprisal* of an example is its negative log-likelihood, or the bound of it. Its distance
from the mean surprisal of training examples is its *atypicality*: an example can be too likely, too (a blank image
under a model of busy ones), which surprisal alone would never tell (Nalisnick et al., 2019). Much of the likelihood of
an image is how smooth it is; a *likelihood ratio* leaves that out: `against` names the run of a background model,
trained on images in general or on noisy ones, and what counts is how much less likely an example is than under that
one (Ren et al., 2019).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Images, Lines, Picture, Table
from chainrule.core.types import Array, Key
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.other_runs import beside
from chainrule.explain.protocol import Count, Outcome, Probe, Settings
from chainrule.models.protocol import HasBound, HasDensity, HasLogProb, Model
from chainrule.networks import units
from chainrule.train import Run
from chainrule.train.ranking import area_under
from chainrule.train.scores.exact_likelihood import needs_noise

_AT_ONCE = 128
_SHOWN = 10
_BINS = 40


@final
class AnomaliesSettings(Settings):
    """How many examples are judged, and how closely."""

    n: Count = Field(500, description="examples of each kind: held out, training, and altered")
    draws: Count = Field(4, description="bounds: draws whose mean is taken for every example")
    seed: int = Field(0, ge=0, description="of draws and of altered examples")
    against: str | None = Field(
        None,
        description="the run of a background model of such examples, by name or folder: likelihood ratios too",
    )


def examine(run: Run, data: Data, settings: AnomaliesSettings) -> Outcome:
    """Judge held-out, training and altered examples, and see how well either score tells them apart."""
    model: Any = run.model
    part, said = data.held_out()
    held, train = (
        split.batch(np.unique(np.linspace(0, len(split) - 1, min(settings.n, len(split))).astype(int))).x
        for split in (part, data.train)
    )
    sets = {"held out": held, "training": train, **_altered(held, settings.seed)}
    nats = _costs(run, run, sets, settings)
    behind = (
        None if settings.against is None else _costs(run, _background(run, settings.against), sets, settings)
    )
    ratios = {} if behind is None else {name: nats[name] - behind[name] for name in sets}
    typical = float(nats["training"].mean())
    rows: list[list[Any]] = []
    for name in list(sets)[2:]:
        by_surprisal = _area(nats[name], nats["held out"])
        by_typicality = _area(abs(nats[name] - typical), abs(nats["held out"] - typical))
        by_ratio = [_area(ratios[name], ratios["held out"])] if ratios else []
        rows.append([name, float(nats[name].mean()), by_surprisal, by_typicality, *by_ratio])
    names = ("surprisal", "atypicality", *(["likelihood_ratio"] if ratios else []))
    kind = "-log p" if isinstance(model, HasLogProb) else "bound of -log p"
    order = np.argsort(-nats["held out"])
    table = Table(
        "anomalies",
        "How well examples that are not data are noticed",
        [
            *("examples", f"{kind}, nats", "area by surprisal", "area by atypicality"),
            *(["area by likelihood ratio"] if ratios else []),
        ],
        rows,
        caption=f"Area under the ROC curve against held-out examples ({nats['held out'].mean():.4g} nats): 1 is every "
        "time, 0.5 is chance. Shuffled: the entries of an example in another order; mixed: each entry from another "
        "example; blank: all entries the same.",
    )
    numbers = {row[0]: dict(zip(("nats", *names), row[1:], strict=True)) for row in rows}
    worst = rows[int(np.argmin([max(row[2:]) for row in rows]))]
    return Outcome(
        [
            f"Hardest to notice are {worst[0]} examples: an area of "
            + ", ".join(
                f"{area:.3f} by {name.replace('_', ' ')}" for name, area in zip(names, worst[2:], strict=True)
            )
            + ".",
            f"The most unusual held-out example costs {nats['held out'][order[0]]:.4g} nats, the mean is "
            f"{nats['held out'].mean():.4g}.",
            *said,
        ],
        [
            _histograms(nats, kind),
            *_ratios(ratios, settings),
            *_extremes(data.schema, held, nats["held out"], order),
        ],
        table,
        numbers | {"most_unusual": order[:_SHOWN].tolist()},
    )


def _background(run: Run, word: str) -> Run:
    """The run of a model of examples of the same shape whose likelihood is known."""
    found = beside(run, word)
    theirs, ours = found.schema, run.schema
    if (theirs.kind, theirs.shape, theirs.levels) != (ours.kind, ours.shape, ours.levels):
        raise ArgumentError(
            f"against={word}: {found.id} knows {theirs.kind} data of shape {theirs.shape} with {theirs.levels} levels, "
            f"{run.id} {ours.kind} data of shape {ours.shape} with {ours.levels}",
            remedy="give a run on examples of the same shape and levels",
        )
    if not _applies(found.model, theirs):
        raise CapabilityError(
            f"against={word}: {found.id} knows no likelihood", remedy="give the run of a density model"
        )
    return found


def _costs(
    run: Run, judge: Run, sets: Mapping[str, np.ndarray], settings: AnomaliesSettings
) -> dict[str, np.ndarray]:
    """What examples in model units of a run cost under the model of a run, in nats of the original data."""
    model: Any = eqx.nn.inference_mode(judge.model)
    found = {}
    for number, (name, x) in enumerate(sets.items()):
        seen = np.asarray(x, np.float32)
        if judge is not run:
            seen = np.asarray(judge.scaling.apply(run.scaling.inverse(np.asarray(x, np.float64))), np.float32)
        log_prob = _log_likelihoods(model, judge.schema, seen, settings, number)
        found[name] = -(np.asarray(log_prob, np.float64) + judge.scaling.log_volume(judge.schema.dimensions))
    return found


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
            if isinstance(model, HasDensity) and needs_noise(model, schema):
                return model.log_prob(units.dequantized(schema, x, key, model.gaps))
            return model.log_prob(x)
        assert isinstance(model, HasBound)
        return model.elbo(x, key)

    if isinstance(model, HasLogProb) and not needs_noise(model, schema):
        return one(key)
    return jax.lax.map(one, jax.random.split(key, draws)).mean(axis=0)


def _area(higher: np.ndarray, lower: np.ndarray) -> float:
    """The share of pairs in which the first is larger; ties count half."""
    ours = np.arange(len(higher) + len(lower)) < len(higher)
    return area_under(np.concatenate([higher, lower]), ours)


def _histograms(nats: Mapping[str, np.ndarray], kind: str) -> Lines:
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


def _ratios(ratios: Mapping[str, np.ndarray], settings: AnomaliesSettings) -> list[Picture]:
    if not ratios:
        return []
    return [
        replace(
            _histograms(ratios, "log p of the background - log p"),
            name="likelihood-ratio",
            title="Likelihood ratios",
            caption=f"How many nats less likely examples are than under {settings.against}; what both models see in an "
            "image, such as how smooth it is, cancels.",
        )
    ]


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
