"""Likelihood of a text: nats per token, bits per character and byte, perplexity."""

import math

from chainrule.data.schema import Schema
from chainrule.data.text.packing import Packed
from chainrule.data.text.windows import Windows
from chainrule.models.protocol import HasSurprisal
from chainrule.train import surprisal
from chainrule.train.scoring import Evaluation, Metric, Score


def text(judged: surprisal.Blocks, split: Windows | Packed, schema: Schema) -> dict[str, Metric]:
    """Nats per token and what follows from them, how far windows are apart, and how many tokens were judged."""
    found = units(
        judged.mean, judged.error, bytes_per_token=split.bytes_per_token, characters=not schema.tokenizer
    )
    found["stride"] = Metric(judged.stride, f"of {split.length} tokens")
    packed = isinstance(split, Packed)
    found["tokens"] = Metric(float(judged.tokens.sum()), f"all but the first{' of each' * packed}")
    if packed:
        found["documents"] = Metric(float(len(judged.nats)))
    return found


def units(
    nats: float, stderr: float | None = None, *, bytes_per_token: float = 0.0, characters: bool = False
) -> dict[str, Metric]:
    """Nats per token in other units.

    Perplexities of different vocabularies cannot be compared, bits per byte can.

    >>> for name, metric in units(math.log(65), characters=True).items():
    ...     print(name, metric)
    nats_per_token 4.174 nats/token
    bits_per_character 6.022 bits/character
    perplexity 65
    """

    def scaled(factor: float, unit: str) -> Metric:
        return Metric(nats * factor, unit, None if stderr is None else stderr * factor)

    found = {"nats_per_token": scaled(1.0, "nats/token")}
    if characters:
        found["bits_per_character"] = scaled(1 / math.log(2), "bits/character")
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
