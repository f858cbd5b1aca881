"""Recipes: settings that go together, under a name that a model brings along."""

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
