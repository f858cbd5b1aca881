"""Additions to the report for language models: baselines of the loss, and a passage shaded by surprisal."""

from dataclasses import replace

import numpy as np
from jaxtyping import Integer

from chainrule.core.errors import ChainruleError
from chainrule.core.pictures import Lines, Picture
from chainrule.data.dataset import Data
from chainrule.data.text.windows import Windows
from chainrule.models.protocol import HasSurprisal
from chainrule.train import Run, surprisal

_COUNTED = 2**22
"""Tokens of a text that is not in memory that are counted."""


def baselines(data: Data) -> dict[str, float]:
    """Nats per token on the validation text without any model: uniform, and counts of tokens and of pairs.

    Counts come from the training text. A pair backs off to its second token by the number of different tokens that
    follow its first (Witten and Bell, 1991).
    """
    most = _COUNTED if data.train.mapped else None
    train, val = (np.asarray(split.arrays["tokens"][:most], np.int64) for split in (data.train, data.val))
    size = len(data.schema.tokens)
    single = (np.bincount(train, minlength=size) + 1) / (len(train) + size)
    uniform, unigram = np.log(size), -np.log(single[val[1:]]).mean()
    return {"uniform": float(uniform), "unigram": float(unigram), "bigram": _bigram(train, val, single)}


def _bigram(
    train: Integer[np.ndarray, " train"], val: Integer[np.ndarray, " val"], single: np.ndarray
) -> float:
    size = len(single)
    pairs, counts = np.unique(train[:-1] * size + train[1:], return_counts=True)
    firsts, kinds = np.bincount(train[:-1], minlength=size), np.bincount(pairs // size, minlength=size)
    wanted = val[:-1] * size + val[1:]
    index = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
    seen = np.where(pairs[index] == wanted, counts[index], 0)
    total, rest = firsts[val[:-1]], kinds[val[:-1]]
    known = total > 0  # after a token that training lacks, only the second one is left
    p = np.where(known, (seen + rest * single[val[1:]]) / np.maximum(total + rest, 1), single[val[1:]])
    return float(-np.log(p).mean())


def compared(curve: Lines, run: Run) -> Lines:
    """The loss curve of a model of text, in its unit and beside what counting reaches."""
    steps = np.concatenate([x for x, *_ in curve.series.values()]) if curve.series else np.zeros(1)
    ends = np.array([steps.min(), steps.max()])
    try:
        levels = baselines(run.data)
    except ChainruleError as error:
        return replace(
            curve, y_label="nats per token", caption=f"{curve.caption} No baselines: {error}".strip()
        )
    lines = {f"{name} {value:.2f}": (ends, np.full(2, value)) for name, value in levels.items()}
    caption = (
        "Level lines: the validation text under equal chances, counted tokens, and counted pairs of tokens."
    )
    if run.data.train.mapped:
        caption = f"{caption[:-1]}, in the first {_COUNTED:,} tokens."
    words = f"{curve.caption} {caption}".strip()
    return replace(curve, y_label="nats per token", series={**curve.series, **lines}, caption=words)


def surprisal_pictures(run: Run) -> list[Picture]:
    """A passage of held-out text, each token shaded by how unlikely the model found it."""
    model, data = run.model, run.data
    part = data.test if len(data.test) else data.val
    if not isinstance(part, Windows) or not isinstance(model, HasSurprisal):
        return []
    return [surprisal.passage(model, np.asarray(part.arrays["tokens"][: part.length + 1]), data.schema)]


__all__ = ["baselines", "compared", "surprisal_pictures"]
