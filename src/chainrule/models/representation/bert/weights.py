"""Weights in files of BERT's style: names, and a model of their size."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import equinox as eqx
import jax

from chainrule.core.errors import ArgumentError
from chainrule.data.schema import Schema
from chainrule.data.text.tokenizers.tokenizer import Tokenizer
from chainrule.models.protocol import Joined, Name, NameTable, matrix_shape, numbered
from chainrule.models.protocol.config_files import agree
from chainrule.models.representation.bert.masked import BERTConfig, MaskedModel
from chainrule.models.representation.bert.model import BERT

_HEAD = 32
"""Entries of a head in MiniLM; the larger BERTs have 64."""


def torch_names(model: MaskedModel) -> NameTable:
    """What files of BERT's style call the layers of a model."""
    if not isinstance(model, BERT) or model.config.preset != "bert":
        raise ArgumentError(
            "files of BERT's style hold models of text with preset=bert only", remedy="write layout=chainrule"
        )
    names: dict[str, Name] = {
        "embedding": "embeddings.word_embeddings",
        "positions": "embeddings.position_embeddings",
        "embedding_norm": "embeddings.LayerNorm",
    }
    if model.segments is not None:
        names["segments"] = "embeddings.token_type_embeddings"
    width = model.config.width
    for i in range(len(model.blocks)):
        ours, theirs = f"blocks.{i}", f"encoder.layer.{i}"
        three = tuple(f"{theirs}.attention.self.{part}" for part in ("query", "key", "value"))
        names |= {
            f"{ours}.attention.inward": Joined(three, (width, width, width)),
            f"{ours}.attention.outward": f"{theirs}.attention.output.dense",
            f"{ours}.first_norm": f"{theirs}.attention.output.LayerNorm",
            f"{ours}.widen": f"{theirs}.intermediate.dense",
            f"{ours}.narrow": f"{theirs}.output.dense",
            f"{ours}.second_norm": f"{theirs}.output.LayerNorm",
        }
    # The pooler belongs to a task of BERT's own training, guessing the next sentence, and to no vector of a text.
    ignored = ("embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias")
    return NameTable(names, "bert.", ignored)


def sized(
    shapes: Mapping[str, tuple[int, ...]],
    tokenizer: Tokenizer,
    *,
    said: Mapping[str, Any] = MappingProxyType({}),
    heads: int | None = None,
    **settings: Any,
) -> BERT:
    """A model for the arrays of a file of BERT's style, with their shapes in their places.

    Arrays do not say how many `heads` share their width: as many as `said`, what `config.json` says, or one for every
    32, as in MiniLM. What `said` and the arrays both tell must be the same.
    """
    shapes = {name.removeprefix("bert."): shape for name, shape in shapes.items()}
    wanted = [f"embeddings.{part}_embeddings.weight" for part in ("word", "position", "token_type")]
    inner = "encoder.layer.0.intermediate.dense.weight"
    if not all(name in shapes for name in (*wanted, inner)):
        raise ArgumentError("the file holds no model of BERT's style")
    (tokens, width), (context, _), (segments, _) = (matrix_shape(shapes, name) for name in wanted)
    if len(tokenizer) != tokens:
        raise ArgumentError(
            f"the weights are for {tokens:,} tokens, the tokenizer has {len(tokenizer):,}",
            remedy="give the tokenizer that the weights were trained with",
        )
    found = {
        "preset": "bert",
        "layers": numbered(shapes, "encoder.layer.{}.intermediate.dense.weight", arrays=8),
        "width": width,
        "hidden": matrix_shape(shapes, inner)[0],
        "context": context,
        "segments": segments,
    }
    agree(said, "config.json", {**found, "tokens": tokens}, "the arrays")
    heads = said.get("heads", max(1, width // _HEAD)) if heads is None else heads
    known = {name: value for name, value in said.items() if name != "tokens"}
    config = BERTConfig(**{**found, **known, "heads": heads, **settings})
    schema = Schema("text", (context,), tokens=tokenizer.tokens, tokenizer=tokenizer.canonical)
    skeleton: BERT = eqx.filter_eval_shape(BERT, config, schema, jax.random.key(0))
    return skeleton


__all__ = ["sized", "torch_names"]
