"""Attention heads: their maps, entropy, previous-token and induction scores, and the loss without each."""

from typing import Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Heatmap, Table
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.explain.methods.ablation import ablate_heads
from chainrule.explain.methods.head_habits import attention_weights, habits, repeated_tokens
from chainrule.explain.methods.prompts import tokens_of
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasAttention, Model
from chainrule.networks.pictures import tokens
from chainrule.train import Run

_MEASURES = {
    "entropy": "How widely heads look (nats)",
    "previous": "Attention to the token before",
    "induction": "Attention by induction",
    "loss": "Loss without the head (nats)",
}
_CAPTIONS = {
    "entropy": "The mean over rows; a head that looks at one token has 0.",
    "previous": "The mean weight one step back.",
    "induction": "On random tokens read twice: the weight on what followed the first occurrence of the current one.",
    "loss": "How much the loss rises when what the head gathers is taken out and everything else stays.",
}


@final
class AttentionSettings(Settings):
    """How much text is looked at."""

    text: str = Field("", description="a text whose maps are shown; a held-out passage if not given")
    passages: int = Field(16, ge=1, description="passages of the validation split")
    ablate: Literal["zero", "mean"] = Field(
        "zero", description="what takes the place of a head's output when the loss without it is measured"
    )


def examine(run: Run, data: Data, settings: AttentionSettings) -> Outcome:
    """Measure every head on passages of the validation split, and show the maps of one text."""
    model: Any = eqx.nn.inference_mode(run.model)  # shows its attention, see `_applies`
    batch = jax.tree.map(jnp.asarray, data.val.batch(np.arange(min(settings.passages, len(data.val)))))
    key = random.key(run.settings.seed, "probe")
    window = data.schema.shape[0] - 1
    weights = np.asarray(attention_weights(model, batch.x[:, :-1]))
    own = tokens_of(data.schema, settings.text, most=window)[None, :] if settings.text else None
    read = np.asarray(batch.x[:1, :-1]) if own is None else own
    shown = weights[0] if own is None else np.asarray(attention_weights(model, jnp.asarray(own)))[0]
    repeated = repeated_tokens(key, len(data.schema.tokens), window // 2)
    found = habits(weights, np.asarray(attention_weights(model, repeated)))
    without = ablate_heads(model, batch, key, settings.ablate)
    found["loss"] = without.rise
    names = tokens.names(tokenizers.of(data.schema), read[0])[: tokens.LONGEST]
    shown = shown[..., : len(names), : len(names)]
    shown = shown / np.maximum(shown.sum(axis=-1, keepdims=True), 1e-12)
    layers, heads = found["entropy"].shape
    rows: list[list[str | float | int]] = [
        [
            f"layer {i + 1}, head {j + 1}",
            *(float(found[m][i, j]) for m in _MEASURES),
            float(without.stderr[i, j]) if len(batch.x) > 1 else "",
        ]
        for i in range(layers)
        for j in range(heads)
    ]
    best = np.unravel_index(found["induction"].argmax(), found["induction"].shape)
    return Outcome(
        [
            _said_of_loss(without.rise, without.stderr, settings.ablate),
            *(_sentence(found, measure) for measure in ("previous", "induction")),
        ],
        [
            tokens.attention(shown, names, (int(best[0]), int(best[1]))),
            tokens.heads(shown, names),
            *(_map(found[measure], measure) for measure in _MEASURES),
        ],
        Table("attention-heads", "Heads", ["head", *_MEASURES, "standard error of the loss"], rows),
        {
            "base_loss": without.base,
            **{measure: values.tolist() for measure, values in found.items()},
            "loss_stderr": [[v if np.isfinite(v) else None for v in row] for row in without.stderr.tolist()],
        },
    )


def _map(values: Float[np.ndarray, "layers heads"], measure: str) -> Heatmap:
    layers, heads = values.shape
    return Heatmap(
        f"attention-{measure}",
        _MEASURES[measure],
        "head",
        "layer",
        values,
        [str(i + 1) for i in range(layers)],
        [str(j + 1) for j in range(heads)],
        numbers=True,
        diverging=measure == "loss",
        caption=_CAPTIONS[measure],
    )


def _said_of_loss(
    rise: Float[np.ndarray, "layers heads"], stderr: Float[np.ndarray, "layers heads"], ablate: str
) -> str:
    i, j = np.unravel_index(rise.argmax(), rise.shape)
    error = f" ± {stderr[i, j]:.2g}" if np.isfinite(stderr[i, j]) else ""
    how = "without it" if ablate == "zero" else "with its mean output in its place"
    return (
        f"The head that matters most is layer {i + 1}, head {j + 1}: {how} the loss rises by "
        f"{rise[i, j]:.3g}{error} nats."
    )


def _sentence(found: dict[str, np.ndarray], measure: str) -> str:
    i, j = np.unravel_index(found[measure].argmax(), found[measure].shape)
    habit = "the token before" if measure == "previous" else "what followed the same token last time"
    return f"Layer {i + 1}, head {j + 1} looks most at {habit}: {float(found[measure][i, j]):.0%} of its attention."


def _applies(model: Model, schema: Schema) -> bool:
    # Tokens that come twice need room for two of each.
    return isinstance(model, HasAttention) and kinds.of(schema).has_tokens and schema.shape[0] > 4


probe = Probe(
    "What each head attends to, its habits, and the loss without it.",
    "a model of text with attention",
    _applies,
    examine,
    AttentionSettings,
    toy={"passages": 2},
)

__all__ = ["AttentionSettings", "examine", "probe"]
