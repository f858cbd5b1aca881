"""What is exported can be imported again: every model, every layout it offers, and the tokenizer of a text."""

import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from chainrule import data, models
from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.models.interchange.exported import read_head
from chainrule.models.protocol import Model
from chainrule.train import Run
from tests.cli.conftest import Command

QUICK = ("mlp", "gpt", "ngram")


def layouts(name: str) -> list[str]:
    entry = models.entry(name)
    return ["chainrule", *(["torch"] if entry.torch_names else []), *entry.layouts]


def arrays(model: Model) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array))]


def same(one: Model, other: Model) -> bool:
    return jax.tree.structure(one) == jax.tree.structure(other) and all(
        a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(arrays(one), arrays(other), strict=True)
    )


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        pytest.param(name, layout, marks=[] if name in QUICK else [pytest.mark.slow])
        for name in models.names()
        for layout in layouts(name)
    ],
)
def test_every_model_comes_back_from_every_layout_as_it_was(tmp_path: Path, name: str, layout: str) -> None:
    entry = models.entry(name)
    loaded = data.load(entry.toy_data)
    model = models.build(name, loaded, seed=3, **entry.toy)
    try:
        file = models.export_weights(model, tmp_path / "w.safetensors", layout=layout)
    except ArgumentError as error:
        if layout == "chainrule" or "layout=chainrule" not in error.remedy:
            raise
        return  # a mixture that the other library has no name for
    again = models.reopen(file, loaded)
    assert same(again, model)


def test_a_run_comes_back_through_the_command_line(cli: Command) -> None:
    words = ["data=moons", "data.n=200", "width=8", "depth=2", "steps=2", "batch=16", "run=first"]
    assert cli("train", "mlp", *words).code == 0
    exported = cli("export", "first")
    assert "again    chainrule import mlp first.safetensors" in exported.out
    imported = cli("import", "mlp", "first.safetensors", "run=second")
    assert imported.code == 0, imported.err
    first, second = Run.open("runs/first"), Run.open("runs/second")
    assert same(first.model, second.model)
    assert first.config["data"] == second.config["data"]
    assert cli("score", "second", "--json").last == cli("score", "first", "--json").last


@pytest.mark.slow
def test_a_language_model_comes_back_with_its_tokenizer_and_its_heads(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "poem.txt").write_text("the rain in spain stays mainly in the plain. " * 40)
    words = [
        "data=poem.txt",
        "data.window=16",
        "data.tokenizer=word",
        "layers=1",
        "width=16",
        "heads=4",
        "steps=2",
    ]
    assert cli("train", "gpt", *words, "preset=gpt2", "batch=4", "run=first").code == 0
    found = cli("export", "first", "--json").last
    assert found["layout"] == "torch"
    assert Path(found["tokenizer"]).name == "first.tokenizer.json"
    imported = cli("import", "gpt", "first.safetensors", "data=poem.txt", "run=second")
    assert imported.code == 0, imported.err
    first, second = Run.open("runs/first"), Run.open("runs/second")
    assert all(map(np.array_equal, arrays(first.model), arrays(second.model)))
    assert first.schema.tokens == second.schema.tokens
    words = ["prompt=the", "length=8", "--json"]
    drawn = [[one["text"] for one in cli("sample", name, *words).lines[:-1]] for name in ("first", "second")]
    assert drawn[0] == drawn[1]


@pytest.mark.slow
def test_a_file_names_no_path_of_the_machine_it_comes_from(cli: Command, tmp_path: Path) -> None:
    rows = "\n".join(f"{i % 7},{i % 5},{'ab'[i % 2]}" for i in range(60))
    (tmp_path / "private.csv").write_text(f"x,y,kind\n{rows}\n")
    words = [
        f"data={tmp_path / 'private.csv'}",
        "data.target=kind",
        "width=4",
        "steps=2",
        "batch=8",
        "run=first",
    ]
    assert cli("train", "mlp", *words).code == 0
    assert cli("export", "first").code == 0
    assert b"private" not in Path("first.safetensors").read_bytes()
    refused = cli("import", "mlp", "first.safetensors")
    assert refused.code == 3
    assert "name data like those it was trained on: data=NAME or PATH" in refused.err
    assert cli("import", "mlp", "first.safetensors", "data=private.csv").code == 0


def test_a_file_for_another_model_is_refused_with_the_command_that_works(
    cli: Command, tmp_path: Path
) -> None:
    moons = data.load("moons", n=200)
    models.export_weights(models.build("mlp", moons, width=4), tmp_path / "w.safetensors", layout="chainrule")
    refused = cli("import", "cnn", "w.safetensors")
    assert refused.code == 2
    assert "chainrule import mlp w.safetensors" in refused.err


HEADS = {
    "not JSON": "{",
    "not an object": "[1]",
    "an unknown field": json.dumps(
        {"model": "mlp", "layout": "chainrule", "settings": {}, "data": {}, "run": "x"}
    ),
    "settings that are none": json.dumps({"model": "mlp", "layout": "chainrule", "settings": 3, "data": {}}),
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("head", HEADS)
def test_a_hostile_head_is_refused(tmp_path: Path, head: str) -> None:
    safetensors.numpy.save_file({"w": np.ones(2)}, tmp_path / "w.safetensors", {"chainrule": HEADS[head]})
    with pytest.raises(DataError, match="what its head says about the model cannot be read"):
        read_head(tmp_path / "w.safetensors")


@pytest.mark.parametrize(
    "said",
    [
        {"model": "../../evil", "layout": "chainrule"},
        {"model": "os.system", "layout": "chainrule"},
        {"model": "mlp", "layout": "chainrule", "settings": {"width": 10**9}},
        {"model": "mlp", "layout": "chainrule", "settings": {"__class__": 1}},
        {"model": "gpt", "layout": "torch"},
    ],
    ids=str,
)
def test_a_head_can_name_nothing_but_models_and_settings(tmp_path: Path, said: dict[str, Any]) -> None:
    head = {"chainrule": json.dumps({"settings": {}, "data": {}, **said})}
    safetensors.numpy.save_file({"w": np.ones(2)}, tmp_path / "w.safetensors", head)
    with pytest.raises((ArgumentError, CapabilityError, DataError)):
        models.reopen(tmp_path / "w.safetensors", data.load("moons", n=100))
