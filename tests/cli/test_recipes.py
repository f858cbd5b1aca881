"""Recipes: settings that go together, under a name that a model brings along."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import pytest

from chainrule import models
from chainrule.cli.arguments import parse
from chainrule.cli.training_request import parse_request
from chainrule.data.schema import Schema
from chainrule.train import TrainConfig
from chainrule.train.loop import merge

from .conftest import Command

SYMBOLS = tuple(map(chr, range(65)))


@pytest.mark.parametrize(
    ("recipe", "parameters", "model", "train"),
    [
        (
            "char-cpu",
            804_096,
            {"layers": 4, "heads": 4, "width": 128, "dropout": 0.0},
            {"batch": 12, "steps": 2000},
        ),
        (
            "char-gpu",
            10_745_088,
            {"layers": 6, "heads": 6, "width": 384, "dropout": 0.2},
            {"batch": 64, "steps": 5000},
        ),
    ],
)
def test_a_recipe_is_the_published_one(
    recipe: str, parameters: int, model: dict[str, Any], train: dict[str, Any]
) -> None:
    request = parse_request(parse(["gpt", f"recipe={recipe}"]))
    settings = TrainConfig.parse(**merge(request.entry.training, request.train)).model_dump()
    assert model.items() <= request.model.items()
    assert train.items() <= settings.items()
    published = {"name": "adamw", "lr": 1e-3, "betas": (0.9, 0.99), "decay": 0.1, "clip": 1.0}
    assert published.items() <= settings["optimizer"].items()
    assert {"name": "cosine", "warmup": 100, "floor": 0.1}.items() <= settings["schedule"].items()
    passages = Schema("text", (request.data["window"] + 1,), tokens=SYMBOLS)
    shapes = eqx.filter_eval_shape(models.build, "gpt", passages, **request.model)
    arrays = [leaf for leaf in jax.tree.leaves(shapes) if isinstance(leaf, jax.ShapeDtypeStruct)]
    assert sum(leaf.size for leaf in arrays) == parameters


def test_gpt2_has_its_published_size_and_schedule() -> None:
    request = parse_request(parse(["gpt", "recipe=gpt2-124m", "data=shakespeare"]))
    settings = TrainConfig.parse(**merge(request.entry.training, request.train)).model_dump()
    assert settings["batch"] * request.data["window"] == 491_520
    assert (settings["accumulate"], settings["precision"], settings["steps"]) == (40, "bfloat16", 600_000)
    published = {"name": "adamw", "lr": 6e-4, "betas": (0.9, 0.95), "decay": 0.1, "clip": 1.0}
    assert published.items() <= settings["optimizer"].items()
    assert {"name": "cosine", "warmup": 2000, "floor": 0.1}.items() <= settings["schedule"].items()
    tokens = tuple(map(str, range(request.data["vocab"])))
    passages = Schema("text", (request.data["window"] + 1,), tokens=tokens)
    shapes = eqx.filter_eval_shape(models.build, "gpt", passages, **request.model)
    arrays = [leaf for leaf in jax.tree.leaves(shapes) if isinstance(leaf, jax.ShapeDtypeStruct)]
    assert sum(leaf.size for leaf in arrays) == 124_439_808


def test_another_tokenizer_brings_its_own_vocabulary() -> None:
    words = ["gpt", "recipe=gpt2-124m", "data=shakespeare", "data.tokenizer=gpt2/tokenizer.json"]
    request = parse_request(parse(words))
    assert (request.data["tokenizer"], "vocab" in request.data) == ("gpt2/tokenizer.json", False)


def test_on_a_cpu_a_recipe_for_a_gpu_is_refused_with_how_long_it_would_take(
    cli: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    refused = cli("train", "gpt", "recipe=gpt2-124m", "data=shakespeare")
    assert (refused.code, "recipe=gpt2-124m takes 2.5e+20 operations, on this CPU about" in refused.err) == (
        2,
        True,
    )
    assert "years" in refused.err
    assert not (tmp_path / "cache").exists()
    less = refused.err.partition("e.g. ")[2].split()
    assert less[:3] == ["layers=4", "heads=4", "width=128"]
    request = parse_request(parse(["gpt", "recipe=gpt2-124m", "data=shakespeare", *less]))
    request.check_device()
    small = ["layers=1", "heads=1", "width=8", "data.window=8", "data.vocab=260", *less[5:], "--dry-run"]
    found = cli("train", "gpt", "recipe=gpt2-124m", "data=shakespeare", *small, "--json").last
    assert found["settings"]["data"]["stream"] is True
    assert found["settings"]["train"]["accumulate"] == 1


def test_other_words_override_a_recipe(cli: Command) -> None:
    small = ["data=shakespeare", "width=8", "--dry-run", "--json"]
    found = cli("train", "gpt", "steps=7", "recipe=char-cpu", "preset=modern", "data.window=32", *small).last
    settings = found["settings"]
    assert (settings["model"]["preset"], settings["data"]["window"], found["steps"]) == ("modern", 32, 7)
    assert settings["model"]["bias"] is False


def test_recipes_are_found_in_the_help_and_beside_the_card(cli: Command) -> None:
    for said in (cli("train", "gpt", "--help").out, cli("models", "show", "gpt").out):
        assert "recipe=char-gpu" in said
        assert "data.window=256" in said
    assert "batch=12" in cli("models", "show", "gpt", "--json").last["recipes"]["char-cpu"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gpt", "recipe=char-gpus"], "recipe=char-gpus: gpt has no such recipe (did you mean 'char-gpu'?)"),
        (["mlp", "recipe=char-gpu"], "recipes of mlp: none"),
        (["gpt", "recipe=char-gpu", "config=config.yaml"], "both say what the model is"),
    ],
)
def test_a_recipe_that_is_not_there_is_said(cli: Command, words: list[str], message: str) -> None:
    found = cli("train", *words)
    assert found.code == 2
    assert message in found.err
