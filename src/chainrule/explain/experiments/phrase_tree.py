"""LZ78 on a text: how short its phrases make it, how that compares with counting blocks, and what they write."""

from typing import Any, Literal, final

import numpy as np
from pydantic import Field

from chainrule.core.pictures import Bars, Lines, Table
from chainrule.core.quoting import plain
from chainrule.explain.methods.symbol_sequences import Symbols, symbols_of
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings, Share
from chainrule.information.phrases import PhraseTree, phrase_tree
from chainrule.information.samples import BlockEntropies, block_entropies


@final
class PhraseTreeSettings(Settings):
    """The text, and how new text is written."""

    data: str = Field("shakespeare", description="a text file, shakespeare, or tune")
    longest: int = Field(300_000, ge=10, le=20_000_000, description="symbols that are read")
    length: int = Field(300, ge=1, le=100_000, description="symbols that are written")
    method: Literal["suffix", "walk"] = Field(
        "suffix", description="continue the longest suffix that is known, or walk down from the root"
    )
    alpha: Share = Field(
        0.9, description="of suffixes: probability to copy on instead of jumping to a shorter one"
    )
    order: int = Field(12, ge=1, le=100, description="symbols of a suffix at most")
    phrases: int = Field(12, ge=1, le=100, description="phrases that are listed")
    seed: int = Field(0, ge=0, description="of what is written")


def run(settings: PhraseTreeSettings, listener: Listener) -> Outcome:
    """Parse, measure, write."""
    given = symbols_of(settings.data, settings.longest)
    sizes, rates, codes, tree = _growing(given)
    listener(str(tree))
    blocks = block_entropies(given.items)
    written = given.between.join(
        str(one)
        for one in tree.generate(
            settings.length, settings.seed, settings.method, settings.alpha, settings.order
        )
    )
    best = float(blocks.conditional[-1])
    return Outcome(
        [
            f"{given.name}: {tree.length:,} symbols in {tree.phrases:,} phrases, {codes[-1]:.4g} bits per symbol as a "
            f"code and {rates[-1]:.4g} by c log2(c) / n. Blocks say {best:.4g} given {len(blocks.orders) - 1} symbols "
            f"before ({blocks.stopped}).",
            f"Written by {'suffixes' if settings.method == 'suffix' else 'walks from the root'}: "
            f"“{plain(written, 600)}”.",
        ],
        [_by_length(sizes, rates, codes, best), _blocks(blocks), _depths(tree)],
        _table(tree, given, settings.phrases),
        {
            "symbols": tree.length,
            "phrases": tree.phrases,
            "rate": rates[-1],
            "code": codes[-1],
            "block_entropy": best,
            "block_order": len(blocks.orders),
            "written": written,
        },
    )


def _growing(given: Symbols) -> tuple[np.ndarray, list[float], list[float], PhraseTree]:
    """Both rates of longer and longer beginnings, and the tree of the whole."""
    count = len(given.items)
    sizes = np.unique(np.geomspace(min(100, count), count, 13).astype(int))
    trees = [phrase_tree(given.items[:size]) for size in sizes]
    rates = [tree.rate() for tree in trees]
    return sizes, rates, [tree.code_length / tree.length for tree in trees], trees[-1]


def _by_length(sizes: np.ndarray, rates: list[float], codes: list[float], best: float) -> Lines:
    return Lines(
        "phrases-rate",
        "The longer the text, the shorter its symbols",
        "symbols",
        "bits per symbol",
        {
            "LZ78 as a code": (sizes, np.array(codes)),
            "c log2(c) / n": (sizes, np.array(rates)),
            "longest blocks": (sizes, np.full(len(sizes), best)),
        },
        log_x=True,
        caption="Phrases learn slowly: their rate falls towards the entropy rate from above.",
    )


def _blocks(blocks: BlockEntropies) -> Lines:
    return Lines(
        "phrases-blocks",
        "Entropies of blocks",
        "symbols of a block",
        "bits per symbol",
        {
            "H(X^n) / n": (blocks.orders, blocks.per_symbol),
            "H(X_n given those before)": (blocks.orders, blocks.conditional),
        },
        caption=f"Both fall to the entropy rate of a stationary source. They end here: {blocks.stopped}.",
    )


def _depths(tree: PhraseTree) -> Bars:
    depth = np.zeros(len(tree.parents), int)
    for node in range(1, len(depth)):
        depth[node] = depth[tree.parents[node]] + 1
    counts = np.bincount(depth[1:])[1:]
    return Bars(
        "phrases-lengths",
        "How long phrases are",
        "symbols",
        "phrases",
        [str(k) for k in range(1, len(counts) + 1)],
        {"phrases": counts},
    )


def _table(tree: PhraseTree, given: Symbols, shown: int) -> Table:
    """The phrases of at least three symbols that most others begin with."""
    spelled: list[list[int]] = [[]]
    for parent, symbol in zip(tree.parents[1:].tolist(), tree.symbols[1:].tolist(), strict=True):
        spelled.append([*spelled[parent], symbol])
    long = [node for node, phrase in enumerate(spelled) if len(phrase) >= 3]
    often = sorted(long, key=lambda node: -int(tree.counts[node]))[:shown]
    rows: list[list[Any]] = [
        [
            plain(given.between.join(str(tree.alphabet[s]) for s in spelled[node]), 40).replace(" ", "␣"),
            int(tree.counts[node]),
        ]
        for node in often
    ]
    return Table("phrases-often", "Phrases that others begin with", ["phrase", "begins"], rows)


experiment = Experiment(
    "LZ78 phrases of a text: its rate beside entropies of blocks, and new text written by walks through the tree.",
    PhraseTreeSettings,
    run,
    toy={"longest": 2000, "length": 30},
    reference="Ziv and Lempel, Compression of individual sequences via variable-rate coding, 1978",
)

__all__ = ["PhraseTreeSettings", "experiment", "run"]
