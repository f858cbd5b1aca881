"""What `config.json` of Hugging Face's transformers says of a BERT, in our settings, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from chainrule.core.errors import DataError
from chainrule.models.protocol import HuggingFace
from chainrule.models.protocol.config_files import check, number, whole
from chainrule.models.representation.bert.gaps import MASK
from chainrule.models.representation.bert.model import BERT


def settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Our settings for what a `config.json` describes."""
    if config["model_type"] != "bert":
        raise DataError(
            f"config.json describes a model of type {config['model_type']!r}; bert reads bert",
            remedy="models of other types differ in more than their names",
        )
    check(config, "quantization_config", None, why="its weights are quantised")
    check(config, "hidden_act", "gelu")
    check(config, "position_embedding_type", "absolute")
    check(config, "is_decoder", False)
    found = {
        "preset": "bert",
        "tokens": whole(config, "vocab_size"),
        "context": whole(config, "max_position_embeddings"),
        "width": whole(config, "hidden_size"),
        "layers": whole(config, "num_hidden_layers"),
        "heads": whole(config, "num_attention_heads"),
        "hidden": whole(config, "intermediate_size"),
        "segments": whole(config, "type_vocab_size"),
        "norm_eps": number(config, "layer_norm_eps", 1e-12),
    }
    return {name: value for name, value in found.items() if value is not None}


def config(model: BERT) -> dict[str, Any]:
    """The `config.json` that describes a model."""
    ours = model.config
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": model.embedding.weight.shape[0],
        "max_position_embeddings": model.context,
        "hidden_size": ours.width,
        "num_hidden_layers": ours.layers,
        "num_attention_heads": ours.heads,
        "intermediate_size": model.blocks[0].narrow.weight.shape[0],
        "type_vocab_size": max(1, ours.segments),
        "layer_norm_eps": ours.eps,
        "hidden_act": "gelu",
        "hidden_dropout_prob": ours.dropout,
        "attention_probs_dropout_prob": ours.dropout,
        "pad_token_id": model.tokenizer.vocab.get("[PAD]", 0),
        "dtype": "float32",
    }


def extra(model: BERT) -> tuple[str, ...]:
    """The mask, where the tokenizer has none."""
    return () if MASK in model.schema.tokens else (MASK,)


def no_segment(model: BERT) -> dict[str, np.ndarray]:
    """The vector of the one kind of text, for a model that tells none apart: transformers always adds some."""
    if model.segments is not None:
        return {}
    return {"embeddings.token_type_embeddings.weight": np.zeros((1, model.config.width), np.float32)}


hugging_face = HuggingFace(
    settings,
    config,
    untold=lambda model: ("heads", "norm_eps"),
    more=no_segment,
    extra=extra,
    opens="AutoModel",
    prefixed=False,
)

__all__ = ["config", "extra", "hugging_face", "no_segment", "settings"]
