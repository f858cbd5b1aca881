"""Weights from elsewhere: files of GPT-2's style, of Llama's, and of llama2.c give what their own programs compute."""

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from chainrule import models
from chainrule.core.errors import ArgumentError, DataError
from chainrule.data.text import tokenizers
from chainrule.data.text.tokenizers.character import Character
from chainrule.data.text.tokenizers.sentence_piece import BYTES, SentencePiece
from chainrule.models.interchange import weight_files
from chainrule.models.text.gpt import GPT, from_llama2c, llama2c_tokenizer

VOCAB, WIDTH, HEADS, LAYERS, CONTEXT = 11, 16, 4, 2, 8
LETTERS = Character(tuple("abcdefghijk"))
RANDOM = np.random.default_rng(0)
TOKENS = RANDOM.integers(0, VOCAB, (2, CONTEXT))


def drawn(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 0.3, shape).astype(np.float32)


@pytest.fixture(scope="module")
def gpt2() -> dict[str, np.ndarray]:
    held = {"wte.weight": drawn(VOCAB, WIDTH), "wpe.weight": drawn(CONTEXT, WIDTH)}
    norms = ["ln_f", *(f"h.{i}.ln_{j}" for i in range(LAYERS) for j in (1, 2))]
    held |= {
        f"{name}.{part}": drawn(WIDTH) + (part == "weight") for name in norms for part in ("weight", "bias")
    }
    for i in range(LAYERS):
        for name, rows, columns in (
            ("attn.c_attn", WIDTH, 3 * WIDTH),
            ("attn.c_proj", WIDTH, WIDTH),
            ("mlp.c_fc", WIDTH, 4 * WIDTH),
            ("mlp.c_proj", 4 * WIDTH, WIDTH),
        ):
            held |= {f"h.{i}.{name}.weight": drawn(rows, columns), f"h.{i}.{name}.bias": drawn(columns)}
    return held


def gpt2_logits(torch: Any, held: dict[str, np.ndarray]) -> np.ndarray:
    """GPT-2 as its authors wrote it, in PyTorch."""
    F = torch.nn.functional
    w = {name: torch.tensor(array) for name, array in held.items()}
    x = w["wte.weight"][TOKENS] + w["wpe.weight"][None, :CONTEXT]
    for i in range(LAYERS):
        at = {name.removeprefix(f"h.{i}."): array for name, array in w.items() if name.startswith(f"h.{i}.")}
        h = F.layer_norm(x, (WIDTH,), at["ln_1.weight"], at["ln_1.bias"])
        q, k, v = (h @ at["attn.c_attn.weight"] + at["attn.c_attn.bias"]).split(WIDTH, dim=-1)
        q, k, v = (part.view(2, CONTEXT, HEADS, -1).transpose(1, 2) for part in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + out @ at["attn.c_proj.weight"] + at["attn.c_proj.bias"]
        h = F.layer_norm(x, (WIDTH,), at["ln_2.weight"], at["ln_2.bias"])
        h = F.gelu(h @ at["mlp.c_fc.weight"] + at["mlp.c_fc.bias"], approximate="tanh")
        x = x + h @ at["mlp.c_proj.weight"] + at["mlp.c_proj.bias"]
    out: np.ndarray = (
        F.layer_norm(x, (WIDTH,), w["ln_f.weight"], w["ln_f.bias"]) @ w["wte.weight"].T
    ).numpy()
    return out


def test_a_file_of_gpt2s_style_gives_its_logits_and_goes_back_unchanged(
    gpt2: dict[str, np.ndarray], tmp_path: Path, oracle: Callable[[str], ModuleType]
) -> None:
    torch = oracle("torch")
    extra = {
        f"h.{i}.attn.bias": np.tril(np.ones((1, 1, CONTEXT, CONTEXT), np.float32)) for i in range(LAYERS)
    }
    stored = {f"transformer.{name}": array for name, array in (gpt2 | extra).items()}
    safetensors.numpy.save_file(
        stored | {"lm_head.weight": gpt2["wte.weight"]}, tmp_path / "gpt2.safetensors"
    )
    model: Any = models.open_weights("gpt", tmp_path / "gpt2.safetensors", LETTERS, heads=HEADS)
    assert (model.config.layers, model.context, model.config.width) == (LAYERS, CONTEXT, WIDTH)
    ours = eqx.filter_jit(model.logits)(jnp.asarray(TOKENS))
    np.testing.assert_allclose(ours, gpt2_logits(torch, gpt2), atol=1e-4)
    back = safetensors.numpy.load_file(models.export_weights(model, tmp_path / "back.safetensors"))
    assert back.keys() == gpt2.keys()
    for name, array in gpt2.items():
        assert back[name].tobytes() == array.tobytes()


def test_matrices_the_other_way_round_are_recognised_by_those_that_are_not_square(
    gpt2: dict[str, np.ndarray], tmp_path: Path
) -> None:
    turned = {n: a.T.copy() if ".c_" in n and a.ndim == 2 else a for n, a in gpt2.items()}
    for name, arrays in (("one", gpt2), ("other", turned)):
        safetensors.numpy.save_file(arrays, tmp_path / f"{name}.safetensors")
    one, other = (
        models.open_weights("gpt", tmp_path / f"{n}.safetensors", LETTERS, heads=HEADS)
        for n in ("one", "other")
    )
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)
    mixed = gpt2 | {"h.1.mlp.c_fc.weight": turned["h.1.mlp.c_fc.weight"]}
    safetensors.numpy.save_file(mixed, tmp_path / "mixed.safetensors")
    with pytest.raises(ArgumentError, match=r"c_attn\.weight as \(inputs, outputs\) and h\.1\.mlp\.c_fc"):
        models.open_weights("gpt", tmp_path / "mixed.safetensors", LETTERS, heads=HEADS)


def test_what_is_missing_extra_or_misshapen_is_listed_together(
    gpt2: dict[str, np.ndarray], tmp_path: Path
) -> None:
    path = tmp_path / "w.safetensors"
    odd = gpt2 | {"ln_f.bias": drawn(3), "extra": drawn(1), "other": drawn(VOCAB, WIDTH)}
    safetensors.numpy.save_file({n: a for n, a in odd.items() if n != "h.0.ln_1.weight"}, path)
    with pytest.raises(ArgumentError) as error:
        models.open_weights("gpt", path, LETTERS, heads=HEADS)
    for part in (
        "1 missing: h.0.ln_1.weight",
        "ln_f.bias is (3,) instead of (16,)",
        "2 unused: extra, other",
    ):
        assert part in str(error.value)
    with pytest.raises(ArgumentError, match="the weights are for 11 tokens, the tokenizer has 2"):
        models.open_weights("gpt", path, Character(("a", "b")), heads=HEADS)
    safetensors.numpy.save_file({"extra": drawn(1)}, path)
    with pytest.raises(
        ArgumentError, match="holds no transformer of GPT-2's or Llama's style; it begins with extra"
    ):
        models.open_weights("gpt", path, LETTERS)


# ---------------------------------------------------------------------- Llama and llama2.c

HIDDEN, GROUPS = 12, 2


def llama_logits(
    w: dict[str, np.ndarray], interleaved: bool, base: float = 10000.0, eps: float = 1e-5
) -> np.ndarray:
    """Llama's arithmetic, position by position in double precision; arrays by llama2.c's names, one entry a layer."""
    size = WIDTH // HEADS
    angle = np.arange(CONTEXT)[:, None] * base ** (-2 * np.arange(size // 2) / size)[None, :]

    def rms(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * scale

    def turned(x: np.ndarray) -> np.ndarray:  # (time, heads, size)
        c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
        a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., : size // 2], x[..., size // 2 :])
        first, second = a * c - b * s, a * s + b * c
        return (
            np.stack([first, second], -1).reshape(x.shape)
            if interleaved
            else np.concatenate([first, second], -1)
        )

    found = []
    for tokens in TOKENS:
        x = w["embedding"][tokens].astype(np.float64)
        for i in range(LAYERS):
            h = rms(x, w["first"][i])
            q, k, v = ((h @ w[name][i].T).reshape(CONTEXT, -1, size) for name in ("query", "key", "value"))
            q, k = turned(q), np.repeat(turned(k), HEADS // GROUPS, axis=1)
            scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(size)
            scores = np.where(np.tri(CONTEXT, dtype=bool), scores, -np.inf)
            p = np.exp(scores - scores.max(-1, keepdims=True))
            p /= p.sum(-1, keepdims=True)
            out = np.einsum("hqk,khd->qhd", p, np.repeat(v, HEADS // GROUPS, axis=1)).reshape(CONTEXT, WIDTH)
            x = x + out @ w["outward"][i].T
            h = rms(x, w["second"][i])
            gate = h @ w["gate"][i].T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ w["up"][i].T)) @ w["narrow"][i].T
        found.append(rms(x, w["norm"]) @ w.get("head", w["embedding"]).T)
    return np.stack(found)


@pytest.fixture(scope="module")
def llama() -> dict[str, np.ndarray]:
    shared = WIDTH // HEADS * GROUPS
    return {
        "embedding": drawn(VOCAB, WIDTH),
        "first": 1 + drawn(LAYERS, WIDTH),
        "query": drawn(LAYERS, WIDTH, WIDTH),
        "key": drawn(LAYERS, shared, WIDTH),
        "value": drawn(LAYERS, shared, WIDTH),
        "outward": drawn(LAYERS, WIDTH, WIDTH),
        "second": 1 + drawn(LAYERS, WIDTH),
        "gate": drawn(LAYERS, HIDDEN, WIDTH),
        "narrow": drawn(LAYERS, WIDTH, HIDDEN),
        "up": drawn(LAYERS, HIDDEN, WIDTH),
        "norm": 1 + drawn(WIDTH),
        "angles": np.zeros((2, CONTEXT, WIDTH // HEADS // 2), np.float32),
    }


def bin_file(path: Path, held: dict[str, np.ndarray]) -> Path:
    sizes = (WIDTH, HIDDEN, LAYERS, HEADS, GROUPS, VOCAB, CONTEXT)
    path.write_bytes(struct.pack("<7i", *sizes) + b"".join(a.astype("<f4").tobytes() for a in held.values()))
    return path


def test_a_file_of_llama2c_gives_its_logits(llama: dict[str, np.ndarray], tmp_path: Path) -> None:
    model = from_llama2c(bin_file(tmp_path / "m.bin", llama), LETTERS)
    ours = eqx.filter_jit(model.logits)(jnp.asarray(TOKENS))
    np.testing.assert_allclose(ours, llama_logits(llama, interleaved=True), atol=1e-4)


def llama_names(llama: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    stored = {"model.embed_tokens.weight": llama["embedding"], "model.norm.weight": llama["norm"]}
    theirs = {
        "query": "self_attn.q_proj",
        "key": "self_attn.k_proj",
        "value": "self_attn.v_proj",
        "outward": "self_attn.o_proj",
        "first": "input_layernorm",
        "second": "post_attention_layernorm",
        "gate": "mlp.gate_proj",
        "up": "mlp.up_proj",
        "narrow": "mlp.down_proj",
    }
    return stored | {
        f"model.layers.{i}.{theirs[n]}.weight": llama[n][i] for n in theirs for i in range(LAYERS)
    }


def test_a_file_of_llamas_style_gives_its_logits_and_goes_back(
    llama: dict[str, np.ndarray], tmp_path: Path
) -> None:
    stored = llama_names(llama)
    safetensors.numpy.save_file(stored, tmp_path / "llama.safetensors")
    model: Any = models.open_weights(
        "gpt", tmp_path / "llama.safetensors", LETTERS, heads=HEADS, context=CONTEXT
    )
    assert model.config.key_heads == GROUPS
    ours = eqx.filter_jit(model.logits)(jnp.asarray(TOKENS))
    np.testing.assert_allclose(ours, llama_logits(llama, interleaved=False), atol=1e-4)
    back = safetensors.numpy.load_file(models.export_weights(model, tmp_path / "back.safetensors"))
    assert {f"model.{name}" for name in back} == stored.keys()
    for name, array in back.items():
        np.testing.assert_array_equal(array, stored[f"model.{name}"])


LLAMA_CONFIG = {
    "model_type": "llama",
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": GROUPS,
    "intermediate_size": HIDDEN,
    "max_position_embeddings": CONTEXT,
    "rms_norm_eps": 0.1,
    "rope_theta": 3.0,
    "tie_word_embeddings": False,
}


@pytest.fixture
def folder(llama: dict[str, np.ndarray], tmp_path: Path) -> Path:
    """A folder of transformers in two files with an index: fast rotations, a large eps, a head of its own."""
    stored = {**llama_names(llama), "lm_head.weight": drawn(VOCAB, WIDTH)}
    names = sorted(stored)
    parts = {"a.safetensors": names[:7], "b.safetensors": names[7:]}
    for part, own in parts.items():
        safetensors.numpy.save_file({name: stored[name] for name in own}, tmp_path / part)
    where = {name: part for part, own in parts.items() for name in own}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    tokenizers.write(LETTERS, tmp_path / "tokenizer.json")
    return tmp_path


def test_a_folder_is_read_whole_and_written_again(llama: dict[str, np.ndarray], folder: Path) -> None:
    found = models.opened_weights("gpt", folder)
    model: Any = found.model
    assert (model.config.heads, model.config.key_heads, model.config.rotary_base) == (HEADS, GROUPS, 3.0)
    assert found.assumed == {}
    stored = weight_files.arrays(folder)
    logits = eqx.filter_jit(model.logits)
    expected = llama_logits({**llama, "head": stored["lm_head.weight"]}, interleaved=False, base=3.0, eps=0.1)
    np.testing.assert_allclose(logits(jnp.asarray(TOKENS)), expected, atol=1e-4)
    models.export_folder(model, folder / "back")
    again: Any = models.open_weights("gpt", folder / "back")
    assert again.config == model.config
    np.testing.assert_array_equal(
        logits(jnp.asarray(TOKENS)), eqx.filter_jit(again.logits)(jnp.asarray(TOKENS))
    )
    back = weight_files.arrays(folder / "back")
    assert back.keys() == stored.keys()
    assert all(np.array_equal(back[name], stored[name]) for name in stored)


def test_what_nothing_says_is_listed_as_assumed(folder: Path) -> None:
    (folder / "config.json").unlink()
    found = models.opened_weights("gpt", folder, heads=HEADS)
    assert found.assumed == {"norm_eps": 1e-5, "rotary_base": 10000.0, "context": 2048}
    with pytest.raises(
        ArgumentError, match="heads=1: keys of 8 numbers beside a width of 16 are no whole number"
    ):
        models.opened_weights("gpt", folder)


def test_heads_that_nothing_says_are_listed_as_assumed(gpt2: dict[str, np.ndarray], tmp_path: Path) -> None:
    safetensors.numpy.save_file(gpt2, tmp_path / "w.safetensors")
    found = models.opened_weights("gpt", tmp_path / "w.safetensors", LETTERS)
    assert found.assumed == {"heads": 1, "norm_eps": 1e-5}
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "gpt2", "n_head": HEADS, "n_layer": LAYERS})
    )
    found = models.opened_weights("gpt", tmp_path / "w.safetensors", LETTERS)
    assert (found.said["heads"], found.assumed) == (HEADS, {})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_hidden_layers": 3}, "config.json says layers=3, the arrays layers=2"),
        ({"num_key_value_heads": 4}, "config.json says key_heads=4, the arrays key_heads=2"),
        ({"num_attention_heads": 2}, "config.json says key_heads=2, the arrays key_heads=1"),
        ({"vocab_size": 12}, "config.json says tokens=12, the arrays tokens=11"),
        ({"tie_word_embeddings": True}, "config.json says tie=True, the arrays tie=False"),
        ({"head_dim": 8}, "head_dim=8 is not supported: 4 heads of it are not hidden_size=16"),
        ({"hidden_act": "gelu"}, "hidden_act='gelu' is not supported"),
        ({"attention_bias": True}, "attention_bias=True is not supported"),
        ({"rope_scaling": {"type": "yarn", "factor": 2.0}}, "rope_type='yarn' is not supported"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps='small' is not a positive number"),
        (
            {"model_type": "mamba"},
            "config.json describes a model of type 'mamba'; gpt reads gpt2, llama, mistral",
        ),
        ({"model_type": "mistral", "sliding_window": 4}, "sliding_window=4 is not supported"),
        ({"quantization_config": {"bits": 4}}, "its weights are quantised"),
    ],
)
def test_a_config_that_contradicts_the_arrays_or_asks_for_more_is_refused(
    folder: Path, changed: dict[str, Any], message: str
) -> None:
    (folder / "config.json").write_text(json.dumps({**LLAMA_CONFIG, **changed}))
    with pytest.raises((ArgumentError, DataError), match=re.escape(message)):
        models.open_weights("gpt", folder)


def test_what_is_given_must_agree_with_the_config_but_for_choices(folder: Path) -> None:
    with pytest.raises(ArgumentError, match=r"what you gave says heads=2, config\.json heads=4"):
        models.open_weights("gpt", folder, heads=2)
    model: Any = models.open_weights("gpt", folder, heads=HEADS, context=4, dropout=0.1)
    assert (model.context, model.config.dropout) == (4, 0.1)


def test_parts_that_are_missing_or_mixed_up_are_named(folder: Path) -> None:
    index = folder / "model.safetensors.index.json"
    listed = json.loads(index.read_text())["weight_map"]
    for name, part, message in (
        ("lm_head.weight", "b.safetensors", "b.safetensors does not hold lm_head.weight"),
        ("lm_head.weight", "c.safetensors", "lists 3 files; 1 are not there: c.safetensors"),
        ("lm_head.weight", "../c.safetensors", "which is no file beside it"),
    ):
        index.write_text(json.dumps({"weight_map": {**listed, name: part}}))
        with pytest.raises(DataError, match=re.escape(message)):
            models.open_weights("gpt", folder)
    index.unlink()
    with pytest.raises(DataError, match="holds 2 safetensors files"):
        models.open_weights("gpt", folder)


def test_a_vocabulary_that_was_rounded_up_gets_tokens_that_stand_for_nothing(folder: Path) -> None:
    tokenizers.write(Character(tuple("abcdefghi")), folder / "tokenizer.json")
    model: Any = models.open_weights("gpt", folder)
    assert model.schema.tokens[-2:] == ("<unused 9>", "<unused 10>")
    assert model.tokenizer.encode("cab").tolist() == [2, 0, 1]
    with pytest.raises(ArgumentError, match="the weights are for 11 tokens, the tokenizer has 9"):
        models.open_weights("gpt", folder, Character(tuple("abcdefghi")))


def test_without_strict_what_a_file_lacks_begins_afresh(gpt2: dict[str, np.ndarray], tmp_path: Path) -> None:
    held = {name: array for name, array in gpt2.items() if name != "h.1.ln_1.weight"}
    safetensors.numpy.save_file(held | {"extra": drawn(1)}, tmp_path / "w.safetensors")
    found = models.opened_weights("gpt", tmp_path / "w.safetensors", LETTERS, strict=False, heads=HEADS)
    assert found.weights is not None
    assert (found.weights.missing, found.weights.unused) == (("h.1.ln_1.weight",), ("extra",))
    model: Any = found.model
    np.testing.assert_array_equal(model.blocks[1].first_norm.scale, np.ones(WIDTH))
    np.testing.assert_array_equal(model.blocks[0].first_norm.scale, gpt2["h.0.ln_1.weight"])


def test_a_gpt2_with_a_head_of_its_own_keeps_it(gpt2: dict[str, np.ndarray], tmp_path: Path) -> None:
    head = drawn(VOCAB, WIDTH)
    safetensors.numpy.save_file(gpt2 | {"lm_head.weight": head}, tmp_path / "w.safetensors")
    model: Any = models.open_weights("gpt", tmp_path / "w.safetensors", LETTERS, heads=HEADS)
    assert not model.config.tie
    np.testing.assert_array_equal(model.head.weight, head.T)


def test_files_that_are_no_llama2c_or_cut_short_are_refused(
    llama: dict[str, np.ndarray], tmp_path: Path
) -> None:
    path = bin_file(tmp_path / "m.bin", llama)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DataError, match="a model of these sizes has"):
        from_llama2c(path, LETTERS)
    for start in (
        b"",
        b"\xff" * 64,
        struct.pack("<7i", 2**30, 1, 1, 1, 1, 1, 1),
        struct.pack("<7i", 6, 1, 1, 4, 3, 1, 1),
    ):
        path.write_bytes(start)
        with pytest.raises(DataError, match="does not begin like a file of llama2"):
            from_llama2c(path, LETTERS)
    with pytest.raises(DataError, match="is not a file"):
        from_llama2c(tmp_path / "none.bin", LETTERS)


def test_a_tokenizer_of_llama2c_is_read_with_its_scores(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.bin"
    first = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(chr(i).encode() for i in range(256))]
    rest = [
        (b" t", -1.0),
        (b" th", -2.0),
        (b"he", -0.5),
        (b" the", -3.0),
        (b" ", -9.0),
        (b"t", -9.0),
        (b"h", -9.0),
        (b"e", -9.0),
    ]
    rows = [(token, 0.0) for token in first] + rest
    held = struct.pack("<i", 5) + b"".join(struct.pack("<fi", s, len(t)) + t for t, s in rows)
    path.write_bytes(held)
    tokenizer = llama2c_tokenizer(path)
    assert isinstance(tokenizer, SentencePiece)
    assert tokenizer.tokens[1:5] == ("<s>", "</s>", *BYTES[:2])
    assert [tokenizer.tokens[i] for i in tokenizer.encode("the tth")] == ["▁the", "▁t", "t", "h"]
    for cut in (held[:-3], held[:40], held + struct.pack("<fi", 0.0, -1)):
        path.write_bytes(cut)
        with pytest.raises(DataError, match=r"tokenizer\.bin"):
            llama2c_tokenizer(path)


def test_a_mixture_that_nobody_else_has_says_so(tmp_path: Path) -> None:
    from chainrule.data.schema import Schema

    schema = Schema("text", (9,), tokens=LETTERS.tokens)
    model: Any = models.build("gpt", schema, width=8, heads=2, layers=1, positions="distance")
    assert isinstance(model, GPT)
    with pytest.raises(ArgumentError, match="no other library has a name for this mixture: distance, rms"):
        models.export_weights(model, tmp_path / "w.safetensors")
