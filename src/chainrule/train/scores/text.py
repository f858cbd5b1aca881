"""Likelihood of a text: nats per token, bits per character and byte, perplexity."""

import math
from typing import NamedTuple

import numpy as np

from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.data.text.packing import Packed
from chainrule.data.text.windows import Windows
from chainrule.models.protocol import HasSurprisal
from chainrule.train import surprisal
from chainrule.train.scoring import Evaluation, Metric, Score

_INCOMPLETE = "\ufffd"
"""What a part of a character is decoded as."""


def text(judged: surprisal.Blocks, split: Windows | Packed, schema: Schema) -> dict[str, Metric]:
    """Nats per token and what follows from them, how far windows are apart, and how many tokens were judged."""
    size = _size(split, schema)
    found = units(judged.mean, judged.error, bytes_per_token=size.bytes, characters_per_token=size.characters)
    found["stride"] = Metric(judged.stride, f"of {split.length} tokens")
    packed = isinstance(split, Packed)
    found["tokens"] = Metric(float(judged.tokens.sum()), f"all but the first{' of each' * packed}")
    if packed:
        found["documents"] = Metric(float(len(judged.nats)))
    return found


class _TextPerToken(NamedTuple):
    """How much text a token that is judged stands for."""

    bytes: float
    characters: float


def _size(split: Windows | Packed, schema: Schema) -> _TextPerToken:
    """What the tokens that are judged stand for: the text without the tokens that are given, the first of each part."""
    tokens = split.arrays["tokens"]
    starts = split.starts if isinstance(split, Packed) else np.zeros(1, np.int64)
    tokenizer = tokenizers.of(schema)
    given = [tokenizer.decode([i]) for i in tokens[starts].tolist() if i != tokenizer.start]
    known = "".join(given).replace(_INCOMPLETE, "")
    count = len(tokens) - len(starts)
    whole = split.bytes - len(known.encode()), split.characters - len(known)
    return _TextPerToken(*(max(part, 0) / count for part in whole))


def units(
    nats: float,
    stderr: float | None = None,
    *,
    bytes_per_token: float = 0.0,
    characters_per_token: float = 0.0,
) -> dict[str, Metric]:
    """Nats per token in other units.

    Perplexities of different vocabularies cannot be compared, bits per byte and per character can.

    >>> for name, metric in units(math.log(65), characters_per_token=1).items():
    ...     print(name, metric)
    nats_per_token 4.174 nats/token
    bits_per_character 6.022 bits/character
    perplexity 65
    """

    def scaled(factor: float, unit: str) -> Metric:
        return Metric(nats * factor, unit, None if stderr is None else stderr * factor)

    found = {"nats_per_token": scaled(1.0, "nats/token")}
    if characters_per_token:
        found["bits_per_character"] = scaled(1 / math.log(2) / characters_per_token, "bits/character")
    if bytes_per_token:
        found["bits_per_byte"] = scaled(1 / math.log(2) / bytes_per_token, "bits/byte")
    perplexity = math.exp(nats)
    found["perplexity"] = Metric(perplexity, stderr=None if stderr is None else stderr * perplexity)
    return found


def _applies(evaluation: Evaluation) -> bool:
    return isinstance(evaluation.model, HasSurprisal) and isinstance(evaluation.split, Windows)


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    model, split, schema = evaluation.model, evaluation.split, evaluation.data.schema
    assert isinstance(model, HasSurprisal), "ask what applies first"
    assert isinstance(split, Windows), "ask what applies first"
    judged = surprisal.blocks(model, split, len(schema.tokens), evaluation.stride)
    return text(judged, split, schema)


score = Score(
    "How well a text is predicted, every token counted once.", _applies, _measure, order=20, strided=True
)

__all__ = ["score", "text", "units"]
