"""Typical sets: why n symbols need n H bits; the histogram of -(1/n) log2 p narrows, and paths close in on H."""

from typing import Any, final

import jax
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Lines, Picture, Table
from chainrule.explain.methods.written_tables import written_matrix
from chainrule.explain.protocol import Count, Experiment, Listener, Outcome, Settings, Share
from chainrule.information.chain_rates import chain_information
from chainrule.information.typical import TypicalSet, type_classes, type_rates, typical_set
from chainrule.probability import markov


@final
class TypicalSetSettings(Settings):
    """The source, lengths of sequences, and what counts as typical."""

    p: tuple[Share, ...] = Field(
        (0.9, 0.1), min_length=2, description="probabilities of symbols, independent of each other"
    )
    n: tuple[Count, ...] = Field((10, 100, 1000), min_length=1, description="lengths of sequences")
    eps: float = Field(
        0.1, gt=0, le=100, description="bits per symbol by which a typical sequence may differ"
    )
    transition: str = Field(
        "",
        description="rows of a Markov chain whose paths are drawn instead: entries with commas, rows with semicolons",
    )
    paths: int = Field(40, ge=1, le=500, description="paths that are drawn")
    steps: int = Field(3000, ge=10, le=100_000, description="symbols of each path")
    seed: int = Field(0, ge=0, description="of the paths")


def run(settings: TypicalSetSettings, listener: Listener) -> Outcome:
    """Count the sets by types, and follow paths."""
    if abs(sum(settings.p) - 1) > 1e-6:
        raise ArgumentError(
            f"p={','.join(f'{one:g}' for one in settings.p)}: sums to {sum(settings.p):.6g}, which is "
            f"{abs(sum(settings.p) - 1):.3g} away from 1"
        )
    chain = written_matrix("transition", settings.transition) if settings.transition else None
    target, paths = _paths(settings, chain)
    found = [typical_set(settings.p, n, settings.eps) for n in sorted(set(settings.n))]
    for one in found:
        listener(str(one))
    last = found[-1]
    symbols = np.log2(sum(chance > 0 for chance in settings.p))
    pictures: list[Picture] = [_histogram(found), _convergence(settings, target, paths)]
    return Outcome(
        [
            f"A symbol has {last.entropy:.6g} bits. Of sequences of {last.n:,}, the typical ones have probability "
            f"{last.probability:.6g} and number 2^{last.log2_size:.5g}: {last.log2_size / last.n:.6g} bits per symbol, "
            f"at most H + eps = {last.entropy + settings.eps:.6g}.",
            f"They are a share of 2^{last.log2_size - last.n * symbols:.4g} of all sequences of that length.",
            f"Of {settings.paths} paths of {settings.steps:,} symbols, "
            f"{int((np.abs(paths[:, -1] - target) <= settings.eps).sum())} end within {settings.eps:g} bits of "
            f"{'the entropy rate' if chain is not None else 'the entropy'} {target:.4g}.",
        ],
        pictures,
        _table(found),
        {
            "entropy": last.entropy,
            "n": [one.n for one in found],
            "probability": [one.probability for one in found],
            "log2_size": [one.log2_size for one in found],
            "target": target,
            "ends": paths[:, -1].tolist(),
        },
    )


def _paths(settings: TypicalSetSettings, chain: np.ndarray | None) -> tuple[float, np.ndarray]:
    """What -(1/n) log2 p tends to, and its values along paths, a row each."""
    key = jax.random.key(settings.seed)
    if chain is None:
        chances = np.array(settings.p) / sum(settings.p)
        drawn = np.asarray(jax.random.choice(key, len(chances), (settings.paths, settings.steps), p=chances))
        bits = -np.log2(chances)[drawn]
        target = typical_set(chances, 1, 1.0).entropy
    else:
        found = chain_information(chain)
        path = np.asarray(markov.sample(key, found.stationary, chain, settings.steps - 1, (settings.paths,)))
        with np.errstate(divide="ignore"):
            first, later = -np.log2(found.stationary), -np.log2(found.transition)
        bits = np.concatenate([first[path[:, :1]], later[path[:, :-1], path[:, 1:]]], axis=1)
        target = found.entropy_rate
    return target, np.cumsum(bits, axis=1) / np.arange(1, settings.steps + 1)


def _histogram(found: list[TypicalSet]) -> Lines:
    series: dict[str, tuple[np.ndarray, ...]] = {}
    for one in found:
        types = type_classes("typical-set", one.p, one.n)
        rate, log_weight = type_rates(one.p, types)
        weight = np.exp(log_weight)
        spread = float(np.sqrt(weight @ np.square(rate - one.entropy)))
        if spread == 0:
            continue
        # No bin narrower than the distance of neighbouring types, or empty bins would look like structure.
        seen = np.unique(rate[weight > 1e-6 * weight.max()].round(12))
        gap = float(np.median(np.diff(seen))) if len(seen) > 1 else spread
        width = max(spread / 3, gap)
        centre = rate[weight.argmax()]
        edges = centre + width * (np.arange(np.floor(-4 * spread / width), 4 * spread / width + 1) - 0.5)
        heights = np.histogram(rate, edges, weights=weight)[0] / width
        seen_bins = np.flatnonzero(heights > 1e-3 * heights.max())
        first, last = int(seen_bins[0]), int(seen_bins[-1])
        edges, heights = edges[first : last + 2], heights[first : last + 1]
        series[f"n = {one.n:,}"] = (
            np.repeat(edges, 2),
            np.concatenate([[0.0], np.repeat(heights, 2), [0.0]]),
        )
    entropy, eps = found[-1].entropy, found[-1].eps
    return Lines(
        "typical-set-histogram",
        "Bits per symbol of a random sequence",
        "-(1/n) log2 p(x) in bits per symbol",
        "density",
        series,
        marks=[(entropy - eps, "H - eps"), (entropy + eps, "H + eps")],
        caption="The longer the sequence, the more of the probability lies between the marks, on typical ones.",
    )


def _convergence(settings: TypicalSetSettings, target: float, paths: np.ndarray) -> Lines:
    time = np.unique(np.geomspace(1, settings.steps, 400).astype(int))
    level = np.full(len(time), target)
    name = "entropy rate" if settings.transition else "entropy"
    return Lines(
        "typical-set-convergence",
        "Paths close in on the entropy",
        "symbols so far",
        "-(1/n) log2 p(x) in bits per symbol",
        {f"{name} ± eps": (time, level, level - settings.eps, level + settings.eps)},
        log_x=True,
        threads=(time, paths[:, time - 1]),
        caption=f"{settings.paths} random sequences.",
    )


def _table(found: list[TypicalSet]) -> Table:
    rows: list[list[Any]] = [
        [
            one.n,
            one.probability,
            float(f"{one.log2_size / one.n:.6g}"),
            float(f"{max(one.lower_bound, 0.0) / one.n:.6g}"),
            float(f"{one.bound / one.n:.6g}"),
        ]
        for one in found
    ]
    return Table(
        "typical-set-sizes",
        "Typical sets, in bits per symbol",
        ["n", "probability", "log2 size / n", "at least", "at most"],
        rows,
        caption="The bounds follow from the probabilities of members alone.",
    )


experiment = Experiment(
    "Typical sets: sizes and probabilities by types, exactly, and random sequences that become typical.",
    TypicalSetSettings,
    run,
    toy={"n": (5, 20), "paths": 3, "steps": 30},
    reference="Cover and Thomas, Elements of Information Theory, 2nd edition, 2006, chapter 3",
)

__all__ = ["TypicalSetSettings", "experiment", "run"]
