"""The distribution of the next token, and what temperature, top-k, top-p and min-p leave of it."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Bars, Table
from chainrule.core.types import Array
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import CanContinue, Model
from chainrule.train import Run


@final
class NextSettings(Settings):
    """The text so far, and how the next token would be drawn."""

    text: str = Field("", description="what comes before; the beginning of the held-out text if not given")
    temperature: float = Field(0.8, ge=0, description="of the draw")
    top_k: int | None = Field(None, ge=1, description="tokens that are kept")
    top_p: float = Field(0.95, gt=0, le=1, description="probability that is kept")
    min_p: float = Field(0.0, ge=0, le=1, description="share of the largest probability that is kept")
    shown: int = Field(20, ge=1, description="tokens in the picture")


def examine(run: Run, data: Data, settings: NextSettings) -> Outcome:
    """Read a text and compare what the model says with what may be drawn."""
    model, tokenizer = run.model, tokenizers.of(data.schema)
    assert isinstance(model, CanContinue)
    window = data.schema.shape[0] - 1
    tokens = (
        tokenizer.encode(settings.text) if settings.text else np.asarray(data.val.arrays["tokens"][:window])
    )
    tokens = tokens[-window:].astype(np.int32)
    logits = _after(model, jnp.asarray(tokens)[None, :])
    drawn = model.next_log_probs(
        logits,
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        min_p=settings.min_p,
    )
    said, left = (np.asarray(p, np.float64) for p in (jax.nn.softmax(logits), jnp.exp(drawn)))
    order = np.argsort(-said, kind="stable")[: settings.shown]
    names = [repr(text)[1:-1].replace(" ", "␣") for text in tokenizer.pieces(order)]
    kept = int((left > 0).sum())
    entropy = float(-(said * np.log2(np.where(said > 0, said, 1))).sum())
    before = tokenizer.decode(tokens)[-40:]
    picture = Bars(
        "next-token",
        "What comes next",
        "token",
        "probability",
        names,
        {"the model": said[order], "what is drawn": left[order]},
        caption=f"After {before!r}: {kept} of {len(said):,} tokens can be drawn.",
    )
    rows: list[list[Any]] = [
        [name, float(said[i]), float(left[i])] for name, i in zip(names, order, strict=True)
    ]
    return Outcome(
        [
            f"After {before!r} the likeliest token is {names[0]!r} with probability {said[order[0]]:.3f}.",
            f"The choice is worth {entropy:.2f} bits; the cuts leave {kept} of {len(said):,} tokens, which held "
            f"{said[left > 0].sum():.3f} of the probability.",
        ],
        [picture],
        Table("next-token-table", "Probabilities", ["token", "model", "drawn from"], rows),
        {"tokens": names, "model": said[order].tolist(), "drawn": left[order].tolist(), "kept": kept},
    )


@eqx.filter_jit
def _after(model: CanContinue, tokens: Array) -> Array:
    """Logits of the token after a text."""
    logits, _ = model.advance(model.start(1, tokens.shape[1]), tokens)
    return logits[0, -1]


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, CanContinue) and kinds.of(schema).has_tokens


probe = Probe(
    "The likeliest next tokens after a text, and what temperature, top-k, top-p and min-p leave of them.",
    "a model that writes on from a text",
    _applies,
    examine,
    NextSettings,
)

__all__ = ["NextSettings", "examine", "probe"]
