"""BLEU and chrF: how much of a reference's words and characters translations have, over a whole corpus.

Figures are those of sacrebleu's defaults (Post, 2018), so that they compare with published ones: BLEU (Papineni et al.,
2002) with the tokens of mteval-v13a and exponential smoothing, chrF2 (Popović, 2015) over six orders of characters
without white space, one reference each, in percent.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

_WORDS, _CHARACTERS = 4, 6
"""Orders of n-grams."""
_BETA = 2
"""How many times recall counts for precision in chrF."""
_DRAWS = 200
"""Corpora drawn for a standard error."""
_ENTITIES = {"&quot;": '"', "&lt;": "<", "&gt;": ">", "&amp;": "&"}
_SPLITS = (
    (re.compile(r"([{-~\[-` -&(-+:-@/])"), r" \1 "),
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)

Statistics = Float[np.ndarray, "texts counts"]


def words(text: str) -> list[str]:
    """The tokens of mteval-v13a: punctuation stands by itself, but for marks inside numbers.

    >>> words("It cost 3,200.50, didn't it?")
    ['It', 'cost', '3,200.50', ',', "didn't", 'it', '?']
    """
    text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, mark in _ENTITIES.items():
        text = text.replace(entity, mark)
    text = f" {text} "
    for pattern, put in _SPLITS:
        text = pattern.sub(put, text)
    return text.split()


def bleu_statistics(translations: Sequence[str], references: Sequence[str]) -> Statistics:
    """Of each text: its length, that of the reference, and for each order n-grams that are right and all there are."""
    rows = []
    for translation, reference in zip(translations, references, strict=True):
        ours, theirs = words(translation), words(reference)
        row = [len(ours), len(theirs)]
        for order in range(1, _WORDS + 1):
            mine, wanted = _ngrams(ours, order), _ngrams(theirs, order)
            row += [sum((mine & wanted).values()), sum(mine.values())]
        rows.append(row)
    return np.array(rows, np.float64)


def chrf_statistics(translations: Sequence[str], references: Sequence[str]) -> Statistics:
    """Of each text and each order: n-grams of characters it has, that the reference has, and that both have."""
    rows = []
    for translation, reference in zip(translations, references, strict=True):
        ours, theirs = ("".join(text.split()) for text in (translation, reference))
        row = []
        for order in range(1, _CHARACTERS + 1):
            mine, wanted = _ngrams(ours, order), _ngrams(theirs, order)
            row += [sum(mine.values()) if wanted else 0, sum(wanted.values()), sum((mine & wanted).values())]
        rows.append(row)
    return np.array(rows, np.float64)


def bleu(total: Float[np.ndarray, " counts"]) -> float:
    """BLEU in percent, from statistics summed over a corpus; NaN where no text has as many words as its orders.

    >>> round(bleu(bleu_statistics(["the cat sat on the mat"], ["the cat sat on a mat"]).sum(axis=0)), 2)
    53.73
    """
    ours, theirs, *counts = total.tolist()
    right, every = counts[::2], counts[1::2]
    if every[-1] == 0:
        return math.nan
    if not any(right):
        return 0.0
    logs, smooth = 0.0, 1.0
    for matched, there in zip(right, every, strict=True):
        if not matched:
            smooth *= 2
        logs += math.log(matched / there if matched else 1 / (smooth * there))
    return 100 * min(1.0, math.exp(1 - theirs / ours)) * math.exp(logs / _WORDS)


def chrf(total: Float[np.ndarray, " counts"]) -> float:
    """ChrF2 in percent, from statistics summed over a corpus.

    >>> round(chrf(chrf_statistics(["the cat sat on the mat"], ["the cat sat on a mat"]).sum(axis=0)), 2)
    72.08
    """
    counts = total.reshape(_CHARACTERS, 3)
    there = (counts[:, 0] > 0) & (counts[:, 1] > 0)
    if not there.any():
        return 0.0
    precision, recall = ((counts[there, 2] / counts[there, one]).mean() for one in (0, 1))
    below = _BETA**2 * precision + recall
    return float(100 * (1 + _BETA**2) * precision * recall / below) if below else 0.0


def with_error(statistics: Statistics, measure: Callable[[np.ndarray], float]) -> tuple[float, float]:
    """A measure of a corpus, and its standard error over corpora of texts drawn from it with replacement."""
    value = measure(statistics.sum(axis=0))
    if math.isnan(value):
        return value, value
    rng = np.random.default_rng(0)
    times = rng.multinomial(len(statistics), np.full(len(statistics), 1 / len(statistics)), _DRAWS)
    drawn = np.array([measure(one) for one in times @ statistics])
    return value, float(drawn[~np.isnan(drawn)].std())


def _ngrams(items: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(items[at : at + order]) for at in range(len(items) - order + 1))


__all__ = ["bleu", "bleu_statistics", "chrf", "chrf_statistics", "with_error", "words"]
