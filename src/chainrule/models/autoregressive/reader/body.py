"""The part of a model of text that reads vectors: what stands between its embedding and its logits.

A body is a whole `gpt` or `bert` without its way out and, where something else makes the vectors, without its way in.
"""

from typing import Any, TypeAlias

import equinox as eqx
import jax

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.data.schema import Schema
from chainrule.models.autoregressive.bert import BERT, BERTConfig
from chainrule.models.autoregressive.gpt import GPT, GPTConfig
from chainrule.models.protocol import Config
from chainrule.nn.attention import Mask
from chainrule.nn.positions import placed

Body: TypeAlias = GPT | BERT
KINDS: dict[str, tuple[type[Config], Any]] = {"gpt": (GPTConfig, GPT), "bert": (BERTConfig, BERT)}


def configured(name: str, settings: dict[str, Any]) -> Config:
    """The settings of a body, checked by the model it is."""
    return KINDS[name][0](**settings)


def built(name: str, config: Config, symbols: Schema | None, length: int, key: Key) -> Body:
    """A body with random weights that reads `length` vectors; without `symbols` it has no embedding."""
    context = config.model_dump()["context"]
    if context is not None and context < length:
        raise ArgumentError(
            f"an example has {length} places; the body can look at {context}",
            remedy=f"shorten texts with data.longest={context - 1}, or cut images into larger patches with patch=...",
        )
    own = ("",) if symbols is None else symbols.symbols
    tokenizer = "" if symbols is None else symbols.tokenizer
    body: Body = KINDS[name][1](config, Schema("text", (length + 1,), symbols=own, tokenizer=tokenizer), key)
    if isinstance(body, GPT) and body.head is not None:
        body = eqx.tree_at(lambda b: b.head, body, None)
    return body if symbols is not None else eqx.tree_at(lambda b: b.embedding, body, None)


def read(
    body: Body, vectors: Float[Array, "batch time width"], mask: Mask | None, key: Key | None
) -> Float[Array, "batch time width"]:
    """What the last block makes of vectors that stand where symbols would, normalised; a key switches dropout on."""
    if isinstance(body, BERT):
        return body.read(vectors, mask=mask, key=key)
    h = vectors
    if body.positions is not None:
        h = placed(h, body.positions(h.shape[1])[None])
    if body.dropout.inference or not body.dropout.p:
        key = None
    if key is not None:
        h = body.dropout(h, jax.random.fold_in(key, len(body.blocks)))
    for i, block in enumerate(body.blocks):
        h = block(h, mask=mask, dropout_key=None if key is None else jax.random.fold_in(key, i))
    return body.norm(h)


__all__ = ["KINDS", "Body", "built", "configured", "read"]
