"""What `config.json` of Hugging Face's transformers says of a GPT-2 or a Llama, in our settings, and back.

A file of weights tells shapes and nothing else: how many heads share a width, how fast positions rotate and what is
added to a variance stand in `config.json`. What it asks for and the model has not is refused by name.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from chainrule.core.errors import ArgumentError, DataError
from chainrule.models.protocol import HuggingFace
from chainrule.models.protocol.config_files import check, end_token, number, refuse, text, whole, yes
from chainrule.models.text.gpt.model import GPT

_ACTIVATIONS = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
"""What all models of Llama 3.1 and after have."""


def settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Our settings for what a `config.json` describes."""
    readers = {"gpt2": _gpt2, "llama": _llama, "mistral": _mistral}
    kind = config["model_type"]
    if kind not in readers:
        raise DataError(
            f"config.json describes a model of type {kind!r}; gpt reads {', '.join(readers)}",
            remedy="models of other types differ in more than their names",
        )
    check(config, "quantization_config", None, why="its weights are quantised")
    found = readers[kind](config)
    return {name: value for name, value in found.items() if value is not None}


def _gpt2(config: Mapping[str, Any]) -> dict[str, Any]:
    check(config, "scale_attn_weights", True)
    check(config, "scale_attn_by_inverse_layer_idx", False)
    check(config, "add_cross_attention", False)
    name = text(config, "activation_function", "gelu_new")
    if name not in _ACTIVATIONS:
        raise refuse("activation_function", name, f"known are {', '.join(_ACTIVATIONS)}")
    width, hidden = whole(config, "n_embd"), whole(config, "n_inner")
    return {
        "preset": "gpt2",
        "tokens": whole(config, "vocab_size"),
        "context": whole(config, "n_positions"),
        "width": width,
        "layers": whole(config, "n_layer"),
        "heads": whole(config, "n_head"),
        "hidden": 4 * width if hidden is None and width is not None else hidden,
        "activation": _ACTIVATIONS[name],
        "norm_eps": number(config, "layer_norm_epsilon", 1e-5),
        "tie": yes(config, "tie_word_embeddings", True),
    }


def _llama(config: Mapping[str, Any]) -> dict[str, Any]:
    check(config, "hidden_act", "silu")
    check(config, "attention_bias", False)
    check(config, "mlp_bias", False)
    check(config, "partial_rotary_factor", 1.0)
    width, heads = whole(config, "hidden_size"), whole(config, "num_attention_heads")
    size = whole(config, "head_dim")
    if None not in (size, width, heads) and size * heads != width:  # type: ignore[operator]
        raise refuse("head_dim", size, f"{heads} heads of it are not hidden_size={width}")
    groups = whole(config, "num_key_value_heads")
    return {
        "preset": "modern",
        "tokens": whole(config, "vocab_size"),
        "context": whole(config, "max_position_embeddings") or 2048,
        "width": width,
        "layers": whole(config, "num_hidden_layers"),
        "heads": heads,
        "key_heads": heads if groups is None else groups,
        "hidden": whole(config, "intermediate_size"),
        "norm_eps": number(config, "rms_norm_eps", 1e-6),
        "tie": yes(config, "tie_word_embeddings", False),
        **_rotary(config),
    }


def _mistral(config: Mapping[str, Any]) -> dict[str, Any]:
    """Llama's arithmetic, unless it looks back through a window that is shorter than its context."""
    window, context = whole(config, "sliding_window"), whole(config, "max_position_embeddings")
    if window is not None and (context is None or window < context):
        raise refuse("sliding_window", window, f"attention reaches as far as the context, {context}")
    return _llama(config)


def _rotary(config: Mapping[str, Any]) -> dict[str, Any]:
    """Speeds of rotation: `rope_parameters`, or in files of earlier versions `rope_theta` and `rope_scaling`."""
    for name in ("rope_parameters", "rope_scaling"):
        if not isinstance(config.get(name) or {}, dict):
            raise refuse(name, config[name], "an object is expected")
    own: dict[str, Any] = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    base = number(own, "rope_theta", number(config, "rope_theta", 10000.0))
    check(own, "partial_rotary_factor", 1.0)
    kind = own.get("rope_type", own.get("type", "default"))
    if kind == "default":
        return {"rotary_base": base}
    if kind == "linear":
        return {"rotary_base": base, "rotary_factor": number(own, "factor", 1.0)}
    if kind == "llama3":
        for name, expected in _LLAMA3.items():
            check(own, name, expected)
        trained = whole(own, "original_max_position_embeddings")
        return {"rotary_base": base, "rotary_factor": number(own, "factor", 1.0), "rotary_trained": trained}
    raise refuse("rope_type", kind, "rotations are read as default, linear or llama3")


def config(model: GPT) -> dict[str, Any]:
    """The `config.json` that describes a model."""
    style, ours = model.config.style, model.config
    first, last = model.tokenizer.start, end_token(model.tokenizer)
    both = {
        "vocab_size": len(model.schema.tokens),
        "tie_word_embeddings": model.head is None,
        "bos_token_id": first,
        "eos_token_id": last,
        "dtype": "float32",
    }
    _check_exported(model)
    width, hidden = ours.width, model.blocks[0].narrow.weight.shape[0]
    if style.norm == "layer":
        names = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}
        return {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "n_positions": model.context,
            "n_embd": width,
            "n_layer": ours.layers,
            "n_head": ours.heads,
            "n_inner": hidden,
            "activation_function": names[style.activation],
            "layer_norm_epsilon": ours.norm_eps,
            **{f"{part}_pdrop": ours.dropout for part in ("resid", "embd", "attn")},
            **both,
        }
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": ours.rotary_base}
    if ours.rotary_factor != 1:
        rope |= {"rope_type": "linear", "factor": ours.rotary_factor}
        if ours.rotary_trained is not None:
            rope |= {
                "rope_type": "llama3",
                **_LLAMA3,
                "original_max_position_embeddings": ours.rotary_trained,
            }
    stretched = {"rope_scaling": {n: v for n, v in rope.items() if n != "rope_theta"}}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "max_position_embeddings": model.context,
        "hidden_size": width,
        "intermediate_size": hidden,
        "num_hidden_layers": ours.layers,
        "num_attention_heads": ours.heads,
        "num_key_value_heads": ours.key_heads or ours.heads,
        "head_dim": width // ours.heads,
        "hidden_act": "silu",
        "rms_norm_eps": ours.norm_eps,
        "rope_theta": ours.rotary_base,  # versions of transformers before 5 read these two
        **(stretched if ours.rotary_factor != 1 else {}),
        "rope_parameters": rope,
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": ours.dropout,
        **both,
    }


def _check_exported(model: GPT) -> None:
    """What `torch_names` has names for, transformers computes, but for two things."""
    for name, value, wanted in (
        ("attention", model.config.attention, "softmax"),
        ("positions", model.config.style.positions, "none"),
    ):
        if (value == wanted) == (name == "positions"):
            raise ArgumentError(
                f"{name}={value}: transformers has no such GPT-2",
                remedy="write layout=torch or layout=chainrule",
            )


def untold(model: GPT) -> tuple[str, ...]:
    """What arrays do not tell: how they are used, and of rotations their speed and how far they were trained."""
    gpt2 = model.config.style.norm == "layer"
    return ("heads", "norm_eps", *(() if gpt2 else ("rotary_base", "context")))


def zero_biases(model: GPT) -> dict[str, np.ndarray]:
    """The biases of a GPT-2 for a model that has none: transformers always adds some."""
    if model.config.style.bias or model.config.style.norm != "layer":
        return {}
    width, hidden = model.config.width, model.blocks[0].narrow.weight.shape[0]
    sizes = {
        "ln_1": width,
        "attn.c_attn": 3 * width,
        "attn.c_proj": width,
        "ln_2": width,
        "mlp.c_fc": hidden,
        "mlp.c_proj": width,
    }
    inside = {
        f"h.{i}.{part}.bias": np.zeros(size, np.float32)
        for i in range(len(model.blocks))
        for part, size in sizes.items()
    }
    return {"ln_f.bias": np.zeros(width, np.float32), **inside}


hugging_face = HuggingFace(
    settings,
    config,
    untold=untold,
    copies={
        "lm_head.weight": (
            "transformer.wte.weight",
            "wte.weight",
            "model.embed_tokens.weight",
            "embed_tokens.weight",
        )
    },
    more=zero_biases,
)

__all__ = ["config", "hugging_face", "settings", "untold", "zero_biases"]
