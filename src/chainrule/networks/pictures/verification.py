"""Pictures of verification: where vectors lie, scores of genuine trials and impostors, and the worst pairs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from chainrule.core.formatting import number
from chainrule.core.pictures import Images, Lines, Picture, Scatter
from chainrule.core.quoting import plain
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.kinds.image import unit_images
from chainrule.data.targets.identity import numbers_of
from chainrule.probability.classification.verification import cosine_trials, error_rates

_MOST = 1000
_BATCH = 100
_GROUPS = 8
_BINS = 40
_PAIRS = 5


def histograms(scores: Mapping[str, np.ndarray], label: str) -> Lines:
    """How often each score occurs, for trials of each sort."""
    every = np.concatenate(list(scores.values()))
    low, high = float(every.min()), float(every.max())
    edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    return Lines(
        "score-histograms",
        "Scores",
        label,
        "share of the trials",
        {what: (middle, np.histogram(one, edges)[0] / len(one)) for what, one in scores.items()},
        caption="Where the curves overlap, no threshold is right.",
    )


def error_curve(
    genuine: np.ndarray, impostors: np.ndarray, right: str, wrong: str = "impostors accepted"
) -> Lines:
    """The share of what is rightly found over that of what is wrongly found, on a logarithmic axis."""
    found = error_rates(genuine, impostors)
    some = found.false_accepts > 0
    equal = found.equal_error_rate()
    return Lines(
        "roc",
        "Right over wrong",
        wrong,
        right,
        {"model": (found.false_accepts[some], found.true_accepts[some])},
        log_x=True,
        marks=[(max(equal, 1 / len(impostors)), f"equal errors {number(equal, 3)}")],
        caption=f"{len(genuine):,} that are to be found and {len(impostors):,} that are not: shares below "
        f"{number(1 / len(impostors), 1)} cannot be told.",
    )


def embedding_map(vectors: Float[np.ndarray, "examples features"], names: Sequence[str]) -> Scatter:
    """Vectors on the two axes along which they vary most, by name for the few most frequent of these."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    _, values, axes = np.linalg.svd(centred, full_matrices=False)
    flat = centred @ axes[:2].T
    held = float(np.square(values[:2]).sum() / max(np.square(values).sum(), 1e-30))
    kinds, counts = np.unique(np.array(names), return_counts=True)
    shown = kinds[np.argsort(-counts, kind="stable")][:_GROUPS]
    groups = {plain(str(name), 20): flat[np.array(names) == name] for name in shown}
    rest = ~np.isin(np.array(names), shown)
    if rest.any():
        groups["others"] = flat[rest]
    return Scatter(
        "embedding-map",
        "Where held-out examples lie",
        "first axis",
        "second axis",
        groups,
        caption=f"The two axes along which vectors vary most hold {100 * held:.0f} % of their variance.",
    )


def of_vectors(data: Data, encode: Callable[[Any], Any]) -> list[Picture]:
    """The map of held-out identities, the cosines of pairs, both errors, and the pairs that are taken wrongly."""
    part, _ = data.held_out()
    rows = np.arange(min(len(part), _MOST))
    x, y = part.batch(rows)[:2]
    who = numbers_of(np.asarray(y))
    size = min(_BATCH, len(x))
    full = np.resize(rows, -(-len(rows) // size) * size).reshape(-1, size)
    vectors = np.concatenate([np.asarray(encode(np.asarray(x)[some])) for some in full])[: len(x)]
    names = targets.of(data.schema).captions(data.schema, np.asarray(y))
    genuine, impostors = cosine_trials(vectors, who)
    found: list[Picture] = [embedding_map(vectors, names)]
    if len(genuine) and len(impostors):
        said = {"same identity": genuine, "different ones": impostors}
        found += [
            histograms(said, "cosine"),
            error_curve(genuine, impostors, "pairs of one identity accepted"),
        ]
    images = unit_images(data.schema, data.inverse(x))
    return [*found, *worst_pairs(images, vectors, who, names)]


def worst_pairs(
    images: np.ndarray, vectors: Float[np.ndarray, "examples features"], who: np.ndarray, names: Sequence[str]
) -> list[Picture]:
    """Pairs of one identity that are least alike, and pairs of two that are most alike, each example once."""
    first, second = np.triu_indices(len(vectors), 1)
    cosine = np.sum(vectors[first] * vectors[second], axis=1)
    same = who[first] == who[second]
    chosen: list[tuple[int, int, float]] = []
    for wanted, order in ((same, np.argsort(cosine)), (~same, np.argsort(-cosine))):
        used: set[int] = set()
        for pair in order[wanted[order]].tolist():
            a, b = int(first[pair]), int(second[pair])
            if {a, b} & used:
                continue
            used |= {a, b}
            chosen.append((a, b, float(cosine[pair])))
            if len(used) == 2 * _PAIRS:
                break
    if not chosen:
        return []
    labels = [
        label
        for a, b, value in chosen
        for label in (plain(names[a], 12), f"{plain(names[b], 12)} {value:.2f}")
    ]
    return [
        Images(
            "worst-pairs",
            "The pairs that are judged worst",
            images[[index for a, b, _ in chosen for index in (a, b)]],
            labels,
            2 * _PAIRS,
            "Above pairs of one identity with the lowest cosine, below pairs of two identities with the highest; each "
            "picture is shown once.",
        )
    ]


__all__ = ["embedding_map", "error_curve", "histograms", "of_vectors", "worst_pairs"]
