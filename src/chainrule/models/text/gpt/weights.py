"""Weights of transformers trained elsewhere: files in the style of GPT-2, of Llama, and of llama2.c.

`sized` makes room for the arrays of a file, for `chainrule.models.open_weights`; `from_llama2c` reads a file itself.
The tokenizer comes with both, because weights without their vocabulary say nothing. `torch_names` is the table that
`import_weights` and `export_weights` use.
"""

import struct
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data.schema import Schema
from chainrule.data.text.tokenizers.sentence_piece import BYTES, SPACE, SentencePiece
from chainrule.data.text.tokenizers.tokenizer import Tokenizer
from chainrule.models.protocol import InOut, Joined, Name, NameTable, matrix_shape, numbered
from chainrule.models.protocol.config_files import agree
from chainrule.models.text.gpt.config import GPTConfig
from chainrule.models.text.gpt.model import GPT

_HEAD = 64
"""Entries of a head, in GPT-2 and in most models after it."""
_BARE = ("lm_head.",)
"""What stands outside of the body that transformers puts a prefix before."""
_FIELDS = 7
_MOST = 2**20
"""No number in the header of a llama2.c file is larger in earnest."""


def torch_names(model: GPT) -> NameTable:
    """What files of GPT-2's or Llama's style call the layers of a model."""
    style = model.config.style
    if style.norm == "layer" and style.activation != "swiglu" and style.positions in ("learned", "none"):
        return _gpt2(model)
    plain = (style.norm, style.activation, style.bias, style.positions) == ("rms", "swiglu", False, "rotary")
    if plain and model.config.rotary == "half":
        return _llama(model)
    raise ArgumentError(
        f"no other library has a name for this mixture: {', '.join(map(str, style))}, rotary {model.config.rotary}",
        remedy="write layout=chainrule, or give names={...}",
    )


def _gpt2(model: GPT) -> NameTable:
    names: dict[str, Name] = {"embedding": "wte", "norm": "ln_f"}
    if model.positions is not None:
        names["positions"] = "wpe"
    if model.head is not None:
        names["head"] = "lm_head"
    for i in range(len(model.blocks)):
        ours, theirs = f"blocks.{i}", f"h.{i}"
        names |= {
            f"{ours}.first_norm": f"{theirs}.ln_1",
            f"{ours}.attention.inward": InOut(f"{theirs}.attn.c_attn"),
            f"{ours}.attention.outward": InOut(f"{theirs}.attn.c_proj"),
            f"{ours}.second_norm": f"{theirs}.ln_2",
            f"{ours}.widen": InOut(f"{theirs}.mlp.c_fc"),
            f"{ours}.narrow": InOut(f"{theirs}.mlp.c_proj"),
        }
    copies = {} if model.head is not None else {"lm_head.weight": "wte.weight"}
    zeros = () if model.config.style.bias else (".bias",)
    return NameTable(names, "transformer.", (".attn.bias", ".attn.masked_bias"), copies, _BARE, zeros)


def _llama(model: GPT) -> NameTable:
    names: dict[str, Name] = {"embedding": "embed_tokens", "norm": "norm"}
    if model.head is not None:
        names["head"] = "lm_head"
    for i, block in enumerate(model.blocks):
        ours, theirs = f"blocks.{i}", f"layers.{i}"
        width, hidden = block.narrow.weight.shape[::-1]
        shared = width // block.attention.heads * block.attention.groups
        three = tuple(f"{theirs}.self_attn.{part}_proj" for part in "qkv")
        names |= {
            f"{ours}.first_norm": f"{theirs}.input_layernorm",
            f"{ours}.attention.inward": Joined(three, (width, shared, shared)),
            f"{ours}.attention.outward": f"{theirs}.self_attn.o_proj",
            f"{ours}.second_norm": f"{theirs}.post_attention_layernorm",
            f"{ours}.widen": Joined((f"{theirs}.mlp.up_proj", f"{theirs}.mlp.gate_proj"), (hidden, hidden)),
            f"{ours}.narrow": f"{theirs}.mlp.down_proj",
        }
    copies = {} if model.head is not None else {"lm_head.weight": "embed_tokens.weight"}
    return NameTable(names, "model.", (".rotary_emb.inv_freq",), copies, _BARE)


def sized(
    shapes: Mapping[str, tuple[int, ...]],
    tokenizer: Tokenizer,
    *,
    said: Mapping[str, Any] = MappingProxyType({}),
    heads: int | None = None,
    **settings: Any,
) -> GPT:
    """A model for the arrays of a file of GPT-2's or Llama's style, with their shapes in their places.

    Arrays do not say how many `heads` share their width: as many as `said`, what `config.json` says, or one for every
    64. `settings` are further settings of the model, for Llama's style `context`, which arrays do not tell either
    (2,048 where nobody says). What `said` and the arrays both tell must be the same.
    """
    heads = said.get("heads") if heads is None else heads
    found = _gpt2_settings(shapes) or _llama_settings(shapes, heads)
    if found is None:
        raise ArgumentError(
            "the file holds no transformer of GPT-2's or Llama's style; it begins with "
            f"{', '.join(sorted(shapes)[:3])}",
            remedy="build the model and use chainrule.models.import_weights(model, path, names={...})",
        )
    agree(said, "config.json", found, "the arrays")
    tokens = found.pop("tokens")
    known = {name: value for name, value in said.items() if name != "tokens"}
    chosen = {"context": 2048, **found, **known, **settings}
    chosen["heads"] = max(1, found["width"] // _HEAD) if heads is None else heads
    return _skeleton(GPTConfig(**chosen), tokenizer, tokens)


def _gpt2_settings(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any] | None:
    plain = {name.removeprefix("transformer."): shape for name, shape in shapes.items()}
    if not {"wte.weight", "wpe.weight", "h.0.mlp.c_fc.weight"} <= plain.keys():
        return None
    tokens, width = matrix_shape(plain, "wte.weight")
    sides = matrix_shape(plain, "h.0.mlp.c_fc.weight")
    return {
        "preset": "gpt2",
        "layers": numbered(plain, "h.{}.mlp.c_fc.weight", arrays=6),
        "width": width,
        "context": matrix_shape(plain, "wpe.weight")[0],
        "hidden": sides[1] if sides[0] == width else sides[0],
        "bias": "h.0.mlp.c_fc.bias" in plain,
        "tie": "lm_head.weight" not in plain,
        "tokens": tokens,
    }


def _llama_settings(shapes: Mapping[str, tuple[int, ...]], heads: int | None) -> dict[str, Any] | None:
    plain = {name.removeprefix("model."): shape for name, shape in shapes.items()}
    wanted = ("embed_tokens.weight", "layers.0.mlp.gate_proj.weight", "layers.0.self_attn.k_proj.weight")
    if not all(name in plain for name in wanted):
        return None
    (tokens, width), (hidden, _), (shared, _) = (matrix_shape(plain, name) for name in wanted)
    heads = max(1, width // _HEAD) if heads is None else heads
    if shared * heads % width:
        raise ArgumentError(
            f"heads={heads}: keys of {shared} numbers beside a width of {width} are no whole number of heads",
            remedy="say how many heads share the width, as its authors do: heads=N",
        )
    return {
        "preset": "modern",
        "layers": numbered(plain, "layers.{}.mlp.gate_proj.weight", arrays=6),
        "width": width,
        "key_heads": shared * heads // width,
        "hidden": hidden,
        "tie": "lm_head.weight" not in plain,
        "tokens": tokens,
    }


def _skeleton(config: GPTConfig, tokenizer: Tokenizer, tokens: int) -> GPT:
    """A model with the shapes of its arrays in their places: nothing is allocated for what a file only claims."""
    if len(tokenizer) != tokens:
        raise ArgumentError(
            f"the weights are for {tokens:,} tokens, the tokenizer has {len(tokenizer):,}",
            remedy="give the tokenizer that the weights were trained with",
        )
    assert config.context is not None
    schema = Schema("text", (config.context + 1,), tokens=tokenizer.tokens, tokenizer=tokenizer.canonical)
    shapes: GPT = eqx.filter_eval_shape(GPT, config, schema, jax.random.key(0))
    return shapes


def from_llama2c(path: str | Path, tokenizer: Tokenizer) -> GPT:
    """The model in a file of llama2.c: seven whole numbers, then every matrix as single-precision numbers.

    Its positions are rotary in the interleaved layout, and `tokenizer` is that of `llama2c_tokenizer`.
    """
    source, sizes = _header(path)
    width, hidden, layers, heads, groups, tokens, context = sizes
    tied = tokens > 0
    config = GPTConfig(
        width=width,
        hidden=hidden,
        layers=layers,
        heads=heads,
        key_heads=groups,
        context=context,
        rotary="interleaved",
        tie=tied,
    )
    shared, size = width // heads * groups, width // heads
    shapes = {
        "embedding": (abs(tokens), width),
        "first": (layers, width),
        "query": (layers, width, width),
        "key": (layers, shared, width),
        "value": (layers, shared, width),
        "outward": (layers, width, width),
        "second": (layers, width),
        "gate": (layers, hidden, width),
        "narrow": (layers, width, hidden),
        "up": (layers, hidden, width),
        "norm": (width,),
        "angles": (2, context, size // 2),
        **({} if tied else {"head": (abs(tokens), width)}),
    }
    held = _parts(source, shapes)
    model = _skeleton(config, tokenizer, abs(tokens))
    arrays = [held["embedding"], held["norm"], *(() if tied else (held["head"].T,))]
    for i in range(layers):
        inward = np.concatenate([held[name][i] for name in ("query", "key", "value")])
        wide = np.concatenate([held["up"][i], held["gate"][i]])
        arrays += [held["first"][i], inward.T, held["outward"][i].T, held["second"][i], wide.T]
        arrays.append(held["narrow"][i].T)
    return eqx.tree_at(_leaves, model, [jnp.asarray(array) for array in arrays])


def _leaves(model: GPT) -> list[Any]:
    """Our arrays in the order in which `from_llama2c` collects them."""
    found = [model.embedding.weight, model.norm.scale, *([] if model.head is None else [model.head.weight])]  # type: ignore[attr-defined]  # RMS
    for block in model.blocks:
        found += [block.first_norm.scale, block.attention.inward.weight, block.attention.outward.weight]  # type: ignore[attr-defined]
        found += [block.second_norm.scale, block.widen.weight, block.narrow.weight]  # type: ignore[attr-defined]
    return found


def _header(path: str | Path) -> tuple[Path, tuple[int, ...]]:
    source = Path(path)
    if not source.is_file():
        raise DataError(f"{source} is not a file", remedy="name a .bin file of llama2.c")
    with source.open("rb") as file:
        start = file.read(4 * _FIELDS)
    sizes = struct.unpack(f"<{_FIELDS}i", start) if len(start) == 4 * _FIELDS else (0,) * _FIELDS
    fits = all(0 < abs(n) <= _MOST for n in sizes) and all(n > 0 for i, n in enumerate(sizes) if i != 5)
    width, _, _, heads, groups, *_ = sizes
    if not fits or width % heads or heads % groups:
        raise DataError(f"{source.name} does not begin like a file of llama2.c")
    return source, sizes


def _parts(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    counts = [int(np.prod(shape, dtype=object)) for shape in shapes.values()]
    expected = 4 * (_FIELDS + sum(counts))
    if path.stat().st_size != expected:
        raise DataError(
            f"{path.name} has {path.stat().st_size:,} bytes; a model of these sizes has {expected:,}",
            remedy="the file is cut short, or of a later version of llama2.c, which is not read",
        )
    flat = np.fromfile(path, "<f4", offset=4 * _FIELDS)
    if not np.isfinite(flat).all():
        raise DataError(f"{path.name} holds weights that are not finite")
    pieces = np.split(flat, np.cumsum(counts)[:-1])
    return {name: piece.reshape(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}


def llama2c_tokenizer(path: str | Path) -> SentencePiece:
    """The tokenizer in a `tokenizer.bin` of llama2.c: for each token its score, its length and its text."""
    source = Path(path)
    if not source.is_file():
        raise DataError(f"{source} is not a file", remedy="name the tokenizer.bin of llama2.c")
    raw, at = source.read_bytes(), 4
    tokens: list[str] = []
    scores: list[float] = []
    while at < len(raw):
        try:
            score, length = struct.unpack_from("<fi", raw, at)
            text = raw[at + 8 : at + 8 + length].decode()
        except (struct.error, UnicodeDecodeError):
            raise DataError(
                f"{source.name} is no tokenizer of llama2.c: token {len(tokens)} is no text"
            ) from None
        if length < 0 or at + 8 + length > len(raw):
            raise DataError(f"{source.name} is no tokenizer of llama2.c: it ends inside token {len(tokens)}")
        tokens.append(text)
        scores.append(score)
        at += 8 + length
    first = ["<unk>", "<s>", "</s>", *BYTES]  # spelt in its own way there
    if len(tokens) < len(first):
        raise DataError(f"{source.name} has {len(tokens)} tokens; the bytes alone are 256")
    rest = [token.replace(" ", SPACE) for token in tokens[len(first) :]]
    return SentencePiece.scored((*first, *rest), scores, ("<s>", "</s>"))


__all__ = ["from_llama2c", "llama2c_tokenizer", "sized", "torch_names"]
