"""Sequences by the stretches of letters they share: who is related to whom, and which stretches say so.

Without a file the sequences are made up: families that mutated from random ancestors. They are no proteins.
"""

from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from pydantic import Field
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from chainrule.core.errors import DataError
from chainrule.core.pictures import Bars, Heatmap, Lines, Picture, Table
from chainrule.core.quoting import plain
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings, Share
from chainrule.kernels.sequences import Driver, Spectrum, mutated_families, saving
from chainrule.kernels.sequences.files import read_fasta, read_lines

_NAMED = 48
"""Sequences whose names are written beside the heat map."""
_SHARED = 10**6
"""Stretches of the closest pair that are counted at most."""
_MOST = 2000
"""Sequences that are compared at most: the heat map holds their square."""


@final
class SequenceKernelsSettings(Settings):
    """The sequences and the kernel."""

    data: str = Field(
        "", description="a FASTA file, or a text file of one sequence a line; empty: made-up families"
    )
    k: int = Field(3, ge=1, le=50, description="letters of a stretch that counts")
    mismatch: int = Field(0, ge=0, le=3, description="letters of a stretch that may be wrong")
    families: int = Field(5, ge=1, le=50, description="made-up families")
    members: int = Field(8, ge=1, le=100, description="members of each")
    length: int = Field(80, ge=10, le=5000, description="letters of an ancestor")
    mutation: Share = Field(0.15, lt=1, description="share of letters that changed since the ancestor")
    seed: int = Field(0, ge=0, description="ancestors and mutations")
    drivers: int = Field(10, ge=1, le=50, description="stretches shown of the closest pair")


class _Given(NamedTuple):
    names: list[str]
    sequences: list[str]
    labels: np.ndarray | None


def run(settings: SequenceKernelsSettings, listener: Listener) -> Outcome:
    """Compare all sequences, order them by clusters, and look into the closest pair."""
    given = _given(settings)
    count = len(given.sequences)
    alphabet = "".join(sorted({letter for one in given.sequences for letter in one}))
    kernel = Spectrum(
        settings.k,
        mismatch=settings.mismatch,
        normalized=True,
        alphabet=alphabet if settings.mismatch else None,
    )
    gram = kernel.gram(given.sequences)
    listener(f"compared {count} sequences of {len(alphabet)} different letters")
    joins = hierarchy.linkage(_distances(gram), "average", optimal_ordering=True)
    order = hierarchy.leaves_list(joins)
    first, second = _closest(gram)
    shared = kernel.drivers(given.sequences[first], given.sequences[second], _SHARED)
    drivers = shared[: settings.drivers]
    numbers: dict[str, Any] = {
        "sequences": count,
        "letters": len(alphabet),
        "saving": saving(len(alphabet), settings.k, count)._asdict(),
        "closest": {"pair": [first, second], "similarity": float(gram[first, second])},
        "shared": len(shared),
        "drivers": [driver._asdict() for driver in drivers],
        "order": [int(i) for i in order],
    }
    if given.labels is not None and len(set(given.labels.tolist())) < count:
        numbers["nearest_is_a_relative"] = _relatives(gram, given.labels)
    pair = f"{plain(given.names[first], 40)} and {plain(given.names[second], 40)}"
    return Outcome(
        _findings(numbers, drivers, pair, settings),
        [
            _matrix(gram, order, given.names),
            _tree(joins),
            *_shares(drivers, pair),
        ],
        _table(drivers, pair),
        numbers,
    )


def _given(settings: SequenceKernelsSettings) -> _Given:
    if not settings.data:
        made = mutated_families(
            settings.families,
            settings.members,
            length=settings.length,
            mutation=settings.mutation,
            seed=settings.seed,
        )
        found = _Given(made.names, made.sequences, made.labels)
    else:
        path = Path(settings.data)
        plain_text = path.suffix == ".txt"
        names, sequences = read_lines(path) if plain_text else read_fasta(path)
        found = _Given(names, sequences, None)
    if not 2 <= len(found.sequences) <= _MOST:
        raise DataError(
            f"{settings.data or 'made-up families'}: {len(found.sequences)} sequences; from 2 to {_MOST:,} are compared"
        )
    return found


def _distances(gram: np.ndarray) -> np.ndarray:
    """Distances of features of length one, of all pairs."""
    apart = np.sqrt(np.maximum(2 - 2 * gram, 0.0))
    np.fill_diagonal(apart, 0.0)
    return np.asarray(squareform((apart + apart.T) / 2, checks=False))


def _closest(gram: np.ndarray) -> tuple[int, int]:
    others = np.where(np.eye(len(gram), dtype=bool), -np.inf, gram)
    first, second = divmod(int(others.argmax()), len(gram))
    return min(first, second), max(first, second)


def _relatives(gram: np.ndarray, labels: np.ndarray) -> float:
    """The share of sequences whose nearest other one is of their family."""
    nearest = np.where(np.eye(len(gram), dtype=bool), -np.inf, gram).argmax(axis=1)
    return float((labels[nearest] == labels).mean())


def _findings(
    numbers: dict[str, Any], drivers: list[Driver], pair: str, settings: SequenceKernelsSettings
) -> list[str]:
    saved = numbers["saving"]
    said = [
        f"The closest two are {pair}: cosine {numbers['closest']['similarity']:.3f}"
        + (
            f" by {numbers['shared']:,} different stretches, the first of them {drivers[0].kmer!r} "
            f"({drivers[0].share:.1%})."
            if drivers
            else "."
        ),
        f"All {settings.k}-mers of {numbers['letters']} letters are {saved['features']:,} features, "
        f"{saved['dense']:,} numbers for {numbers['sequences']} sequences; the kernel needs {saved['entries']:,}, of "
        f"which {saved['distinct']:,} are different.",
    ]
    if "nearest_is_a_relative" in numbers:
        said.append(
            "The nearest other sequence is of the same made-up family for "
            f"{numbers['nearest_is_a_relative']:.0%} of them."
        )
    return said


def _matrix(gram: np.ndarray, order: np.ndarray, names: list[str]) -> Heatmap:
    shown = [plain(names[i], 24) for i in order] if len(order) <= _NAMED else []
    return Heatmap(
        "sequence-kernels-matrix",
        "Similarity of sequences",
        "sequence",
        "sequence",
        gram[np.ix_(order, order)],
        rows=shown,
        caption="Cosines of k-mer counts, sequences in the order of the tree.",
    )


def _tree(joins: np.ndarray) -> Lines:
    drawn = hierarchy.dendrogram(joins, no_plot=True)
    # Leaves stand at 5, 15, 25, ...; a gap parts one join from the next.
    x = np.concatenate([[*((np.array(corners) + 5) / 10), np.nan] for corners in drawn["icoord"]])
    y = np.concatenate([[*corners, np.nan] for corners in drawn["dcoord"]])
    return Lines(
        "sequence-kernels-tree",
        "Who joins whom",
        "sequence, in the order of the heat map",
        "distance of features",
        {"joins": (x, y)},
        caption="Clusters joined by the average distance of their members, nearest first.",
    )


def _shares(drivers: list[Driver], pair: str) -> list[Picture]:
    if not drivers:
        return []
    return [
        Bars(
            "sequence-kernels-drivers",
            "What makes the closest pair alike",
            "stretch of letters",
            "share of the similarity",
            [plain(driver.kmer, 24) for driver in drivers],
            {"share": np.array([driver.share for driver in drivers])},
            caption=f"{pair}.",
        )
    ]


def _table(drivers: list[Driver], pair: str) -> Table:
    rows: list[list[Any]] = [
        [plain(d.kmer, 40), round(d.first, 4), round(d.second, 4), float(f"{d.share:.3g}")] for d in drivers
    ]
    return Table(
        "sequence-kernels-table",
        f"Stretches that {pair} share",
        ["stretch", "in one", "in the other", "share"],
        rows,
    )


experiment = Experiment(
    "Kernels of sequences: a heat map and a tree of relatives, and the stretches that make the closest pair alike.",
    SequenceKernelsSettings,
    run,
    toy={"families": 2, "members": 3, "length": 30},
    reference="Leslie, Eskin and Noble, The spectrum kernel: a string kernel for SVM protein classification, 2002",
)

__all__ = ["SequenceKernelsSettings", "experiment", "run"]
