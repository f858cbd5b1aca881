"""Folders that transformers wrote give its logits, and folders written here give ours there."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.data.text.tokenizers import ByteBPE

LETTERS = ByteBPE.train("the king sees the queen; " * 4, vocab=270, special=["<|endoftext|>"])
VOCAB = len(LETTERS)
TOKENS = np.random.default_rng(0).integers(0, VOCAB, (2, 12))
GPT2 = {"vocab_size": VOCAB, "n_positions": 16, "n_embd": 24, "n_layer": 2, "n_head": 3}
LLAMA = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 1,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
}
STRETCHED = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
CASES = {
    "gpt2": ("GPT2", GPT2),
    "gpt2, untied, exact GELU, eps": (
        "GPT2",
        {**GPT2, "tie_word_embeddings": False, "activation_function": "gelu", "layer_norm_epsilon": 0.03},
    ),
    "llama, untied": ("Llama", {**LLAMA, "rms_norm_eps": 0.03, "rope_theta": 50.0}),
    "llama 3.1, tied": ("Llama", {**LLAMA, "rope_parameters": STRETCHED, "tie_word_embeddings": True}),
    "mistral, linear": (
        "Mistral",
        {
            **LLAMA,
            "sliding_window": None,
            "rope_parameters": {"rope_type": "linear", "rope_theta": 10.0, "factor": 3.0},
        },
    ),
}


@pytest.fixture(scope="module")
def transformers(oracle: Callable[[str], ModuleType]) -> Any:
    oracle("torch")
    found: Any = oracle("transformers")
    found.utils.logging.set_verbosity_error()
    found.utils.logging.disable_progress_bar()
    return found


def theirs(transformers: Any, folder: Path) -> np.ndarray:
    import torch

    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        found: np.ndarray = model(torch.tensor(TOKENS)).logits.numpy()
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_folder_of_transformers_gives_equal_logits_both_ways(
    transformers: Any, tmp_path: Path, name: str
) -> None:
    import torch

    family, config = CASES[name]
    torch.manual_seed(0)
    classes = {"GPT2": "GPT2LMHeadModel"}
    described = getattr(transformers, f"{family}Config")(
        **config, bos_token_id=None, eos_token_id=0, initializer_range=0.3
    )
    reference = getattr(transformers, classes.get(family, f"{family}ForCausalLM"))(described)
    reference.save_pretrained(tmp_path / "theirs", max_shard_size="20KB")
    tokenizers.write(LETTERS, tmp_path / "theirs" / "tokenizer.json")
    expected = theirs(transformers, tmp_path / "theirs")
    model: Any = models.open_weights("gpt", tmp_path / "theirs")
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(eqx.filter_jit(model.logits)(jnp.asarray(TOKENS)), expected, atol=1e-4)
    models.export_folder(model, tmp_path / "ours")
    np.testing.assert_allclose(theirs(transformers, tmp_path / "ours"), expected, atol=1e-5)


def test_a_model_without_biases_and_its_tokenizer_open_there(transformers: Any, tmp_path: Path) -> None:
    schema = Schema("text", (17,), tokens=LETTERS.tokens, tokenizer=LETTERS.canonical)
    model: Any = models.build(
        "gpt", schema, preset="gpt2", bias=False, layers=1, heads=2, width=8, activation="relu"
    )
    models.export_folder(model, tmp_path / "ours")
    ours = eqx.filter_jit(model.logits)(jnp.asarray(TOKENS))
    np.testing.assert_allclose(ours, theirs(transformers, tmp_path / "ours"), atol=1e-5)
    again: Any = models.open_weights("gpt", tmp_path / "ours")
    assert again.config.bias is False
    there = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    text = "the queen's 1606 <kings>"
    assert there(text)["input_ids"] == LETTERS.encode(text).tolist()
    assert (there.eos_token, there.model_max_length) == ("<|endoftext|>", 16)
