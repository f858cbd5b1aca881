"""Decoder-only transformer."""

from chainrule.models.protocol import Entry, FileFormat, Recipe
from chainrule.models.text.gpt.config import GPTConfig
from chainrule.models.text.gpt.hugging_face import hugging_face
from chainrule.models.text.gpt.model import GPT
from chainrule.models.text.gpt.weights import from_llama2c, llama2c_tokenizer, sized, torch_names
from chainrule.models.text.gpt.work import operations

entry = Entry(
    name="gpt",
    summary="Transformer that writes on, token by token: the first model to try on text.",
    config=GPTConfig,
    build=GPT,
    kinds=("text",),
    targets=("none",),
    data="shakespeare",
    toy={"layers": 1, "heads": 2, "width": 16},
    toy_data="shakespeare",
    citation="Radford et al., Language models are unsupervised multitask learners, 2019",
    training={
        "batch": 12,
        "steps": 2000,
        "optimizer": {"name": "adamw", "lr": 1e-3, "betas": (0.9, 0.99), "decay": 0.1, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 100, "floor": 0.1},
        "eval_examples": 512,
    },
    recipes={
        "char-cpu": Recipe(
            "Characters of a small text, on a laptop.",
            model={"preset": "gpt2", "bias": False, "layers": 4, "heads": 4, "width": 128, "dropout": 0.0},
            data={"tokenizer": "character", "window": 64},
            train={"batch": 12, "steps": 2000},
        ),
        "char-gpu": Recipe(
            "Characters of a small text, larger and longer, on a GPU.",
            model={"preset": "gpt2", "bias": False, "layers": 6, "heads": 6, "width": 384, "dropout": 0.2},
            data={"tokenizer": "character", "window": 256},
            train={"batch": 64, "steps": 5000},
        ),
        "gpt2-124m": Recipe(
            "GPT-2's smallest size on a text of any length, on a GPU: half a million tokens a step, bfloat16.",
            model={"preset": "gpt2", "layers": 12, "heads": 12, "width": 768, "dropout": 0.0},
            data={"tokenizer": "byte-bpe", "vocab": 50257, "window": 1024, "stream": True},
            train={
                "batch": 480,
                "accumulate": 40,
                "steps": 600_000,
                "precision": "bfloat16",
                "optimizer": {
                    "name": "adamw",
                    "lr": 6e-4,
                    "betas": (0.9, 0.95),
                    "decay": 0.1,
                    "clip": 1.0,
                },
                "schedule": {"name": "cosine", "warmup": 2000, "floor": 0.1},
                "eval_examples": 480,
                "eval_every": 1000,
                "save_every": 1000,
            },
            work=operations,
        ),
    },
    torch_names=torch_names,
    sized=sized,
    hugging_face=hugging_face,
    formats={".bin": FileFormat(from_llama2c, llama2c_tokenizer)},
)

__all__ = ["GPT", "GPTConfig", "entry", "from_llama2c", "llama2c_tokenizer"]
