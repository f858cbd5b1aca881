"""Weights of a file become a run that is sampled, scored and trained on; the tokenizer comes along."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from chainrule import models
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.data.text.tokenizers import Character
from chainrule.train import Run

from .conftest import Command

LETTERS = Character(tuple("\n abcde"))
TEXT = "abc abd\nace ade bad\n" * 40
SIZE = {"layers": 1, "heads": 2, "width": 8, "context": 8}


@pytest.fixture
def weights(cli: Command) -> Any:
    """A model of another program: a file of weights in GPT-2's style with its tokenizer beside it."""
    schema = Schema("text", (9,), tokens=LETTERS.tokens, tokenizer=LETTERS.canonical)
    model = models.build("gpt", schema, seed=5, preset="gpt2", **SIZE)
    Path("other").mkdir()
    models.export_weights(model, "other/model.safetensors")
    tokenizers.write(LETTERS, "other/tokenizer.json")
    Path("text.txt").write_text(TEXT)
    return model


IMPORT = ["import", "gpt", "other/model.safetensors", "heads=2", "data=text.txt", "run=taken"]


def test_an_imported_model_says_what_it_said_and_learns_on(
    cli: Command, weights: Any, unreported: None
) -> None:
    found = cli(*IMPORT, "--json").last
    assert (found["model"], found["step"]) == ("gpt", 0)
    run = Run.open("runs/taken")
    x = jnp.asarray(LETTERS.encode("abc ade"))[None]
    found, expected = (eqx.filter_jit(model.logits)(x) for model in (run.model, weights))  # type: ignore[attr-defined]
    np.testing.assert_array_equal(found, expected)
    assert run.status["status"] == "done"
    assert run.config["model"]["settings"]["context"] == 8
    assert cli("sample", "taken", "prompt=ab", "length=4", "--json").code == 0
    assert "n=3: 2 beams give at most 2 texts" in cli("sample", "taken", "beams=2", "n=3").err
    assert "bits_per_byte" in cli("score", "taken", "--json").last["metrics"]
    assert cli("resume", "taken", "steps=2", "schedule.warmup=0", "batch=4", "--json").last["step"] == 2
    again = cli("train", f"config={Path('runs/taken/config.yaml')}")
    assert "weights that came from a file" in again.err


def test_special_tokens_that_the_data_add_get_rows_of_their_own(cli: Command, weights: Any) -> None:
    Path("text.txt").write_text("<end>".join(TEXT.splitlines()))
    assert cli(*IMPORT, "data.special=<end>", "--json").code == 0
    run = Run.open("runs/taken")
    assert run.schema.tokens == (*LETTERS.tokens, "<end>")
    rows = np.asarray(run.model.embedding.weight)  # type: ignore[attr-defined]
    assert rows.shape[0] == len(LETTERS) + 1
    np.testing.assert_array_equal(rows[:-1], weights.embedding.weight)


def test_a_folder_comes_in_whole_and_goes_out_whole(cli: Command, weights: Any) -> None:
    models.export_folder(weights, "hub")
    shown = cli("import", "gpt", "hub/", "data=text.txt", "run=first")
    assert shown.code == 0, shown.err
    assert "config   config.json, which the arrays agree with: preset=gpt2" in shown.out
    assert "heads=2" in shown.out
    assert "assumed" not in shown.out
    out = cli("export", "first", "layout=transformers", "out=again")
    assert "transformers.AutoModelForCausalLM.from_pretrained('again')" in out.out
    assert "chainrule import gpt again data=" in out.out
    found = cli("import", "gpt", "again", "data=text.txt", "run=second", "--json").last
    assert (found["config"]["heads"], found["assumed"], found["weights"]["missing"]) == (2, {}, [])
    first, second = (Run.open(f"runs/{name}").model for name in ("first", "second"))
    assert first.config == second.config  # type: ignore[attr-defined]
    x = jnp.asarray(LETTERS.encode("abc ade"))[None]
    one, other = (eqx.filter_jit(model.logits)(x) for model in (first, second))  # type: ignore[attr-defined]
    np.testing.assert_array_equal(one, other)
    refused = cli("export", "first", "layout=transformers", "out=x.safetensors")
    assert "layout=transformers writes a folder" in refused.err


def test_what_is_assumed_is_told_and_strict_can_be_switched_off(cli: Command, weights: Any) -> None:
    held = safetensors.numpy.load_file("other/model.safetensors")
    held["ln_f.bias"] = held["ln_f.bias"][:3]
    safetensors.numpy.save_file(held, "other/model.safetensors")
    refused = cli(*IMPORT)
    assert "strict=false" in refused.err
    taken = cli(*IMPORT, "strict=false")
    assert taken.code == 0, taken.err
    assert "1 misshapen: ln_f.bias is (3,) instead of (8,)" in taken.out
    assert "assumed  norm_eps=1e-05   nothing beside the weights says so" in taken.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gpt", "other/none.safetensors"], "other/none.safetensors is not a file"),
        (["gpt", "text.txt"], "there is no tokenizer.json beside text.txt"),
        (["gpt", "other/model.safetensors", "haeds=2"], "unknown setting 'haeds' (did you mean 'heads'?)"),
        (["gpt", "other/model.safetensors", "heads=3"], "a width of 8 cannot be split evenly"),
        (
            ["gpt", "other/model.safetensors", "heads=2", "data.window=9"],
            "this model reads 8 tokens at most",
        ),
        (["bert", "other/model.safetensors"], "model.safetensors holds weights of gpt, not of bert"),
    ],
)
def test_what_cannot_be_taken_is_told_and_leaves_no_folder(
    cli: Command, weights: Any, words: list[str], message: str
) -> None:
    result = cli("import", *words, "data=text.txt")
    assert result.code
    assert message in result.err
    assert not list(Path("runs").glob("*")) if Path("runs").exists() else True
