"""Attention heads: their maps, entropy, previous-token and induction scores, and the loss without each."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Heatmap, Table
from chainrule.core.types import Array, Key
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
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

    passages: int = Field(16, ge=1, description="passages of the validation split")


def examine(run: Run, data: Data, settings: AttentionSettings) -> Outcome:
    """Measure every head on passages of the validation split."""
    model: Any = eqx.nn.inference_mode(run.model)  # shows its attention, see `_applies`
    batch = jax.tree.map(jnp.asarray, data.val.batch(np.arange(min(settings.passages, len(data.val)))))
    key = random.key(run.settings.seed, "probe")
    weights = np.asarray(eqx.filter_jit(lambda model, x: model.attention(x))(model, batch.x[:, :-1]))
    found = habits(weights, np.asarray(_repeated(model, key, weights.shape[-1], len(data.schema.tokens))))
    base, found["loss"] = ablation(model, batch, key)
    names = tokens.names(tokenizers.of(data.schema), np.asarray(batch.x[0]))[: tokens.LONGEST]
    shown = weights[0][..., : len(names), : len(names)]
    shown = shown / np.maximum(shown.sum(axis=-1, keepdims=True), 1e-12)
    layers, heads = found["entropy"].shape
    rows: list[list[str | float | int]] = [
        [f"layer {i + 1}, head {j + 1}", *(float(found[m][i, j]) for m in _MEASURES)]
        for i in range(layers)
        for j in range(heads)
    ]
    return Outcome(
        [_sentence(found, measure) for measure in ("loss", "previous", "induction")],
        [tokens.heads(shown, names), *(_map(found[measure], measure) for measure in _MEASURES)],
        Table("attention-heads", "Heads", ["head", *_MEASURES], rows),
        {"base_loss": base, **{measure: values.tolist() for measure, values in found.items()}},
    )


def habits(
    weights: Float[np.ndarray, "batch layers heads time time"],
    repeated: Float[np.ndarray, "others layers heads twice twice"],
) -> dict[str, Float[np.ndarray, "layers heads"]]:
    """Entropy, previous-token and induction score of each head.

    >>> back = np.eye(4, k=-1)
    >>> back[0, 0] = 1
    >>> {name: float(v[0, 0]) for name, v in habits(back[None, None, None], back[None, None, None]).items()}
    {'entropy': 0.0, 'previous': 1.0, 'induction': 1.0}
    """
    logs = np.log(np.where(weights > 0, weights, 1.0))
    entropy = np.abs((weights * logs).sum(axis=-1)).mean(axis=(0, -1))
    previous = np.diagonal(weights, -1, axis1=-2, axis2=-1).mean(axis=(0, -1))
    period = repeated.shape[-1] // 2
    after = np.diagonal(repeated, 1 - period, axis1=-2, axis2=-1)
    # The first entry of that diagonal belongs to a token that has not come twice.
    return {"entropy": entropy, "previous": previous, "induction": after[..., 1:].mean(axis=(0, -1))}


def ablation(model: Any, batch: Batch, key: Key) -> tuple[float, Float[np.ndarray, "layers heads"]]:
    """The loss, and how much it rises when a head is silenced."""
    loss = eqx.filter_jit(lambda model: model.loss(batch, key)[0])
    base = float(loss(model))
    shape = jax.eval_shape(lambda: model.attention(batch.x[:1, :-1])).shape
    risen = [[float(loss(model.without_head(i, j))) - base for j in range(shape[2])] for i in range(shape[1])]
    return base, np.array(risen)


def _repeated(model: Any, key: Key, time: int, tokens: int) -> Array:
    """Attention on random tokens that come twice in the same order."""
    once = jax.random.randint(key, (4, time // 2), 0, tokens)
    return eqx.filter_jit(lambda model, x: model.attention(x))(model, jnp.concatenate([once, once], axis=1))


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


def _sentence(found: dict[str, np.ndarray], measure: str) -> str:
    i, j = np.unravel_index(found[measure].argmax(), found[measure].shape)
    head, value = f"layer {i + 1}, head {j + 1}", float(found[measure][i, j])
    if measure == "loss":
        return f"The head that matters most is {head}: without it the loss rises by {value:.3g} nats."
    habit = "the token before" if measure == "previous" else "what followed the same token last time"
    return f"{head[0].upper()}{head[1:]} looks most at {habit}: {value:.0%} of its attention."


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

__all__ = ["AttentionSettings", "ablation", "examine", "habits", "probe"]
