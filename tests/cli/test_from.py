"""Training that begins with a run: what is taken over, what stays, what a recipe remembers, and what is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from chainrule.train import Run

from .conftest import Command

SHORT = ["data=moons", "data.n=200", "steps=4", "batch=16", "eval_every=4", "run=next"]


@pytest.fixture
def begun(cli: Command, trained: Path, unreported: None) -> Path:
    assert cli("train", "from=toy", "fresh=head", "freeze=blocks", *SHORT, "--json").code == 0
    return Path("runs/next")


def test_a_run_goes_on_from_the_layers_of_another_and_remembers_where_they_came_from(
    trained: Path, begun: Path
) -> None:
    old, new = Run.open(trained), Run.open(begun)
    np.testing.assert_array_equal(new.model.blocks[0].linear.weight, old.model.blocks[0].linear.weight)  # type: ignore[attr-defined]
    assert not np.array_equal(new.model_at(0).head.weight, old.model.head.weight)  # type: ignore[attr-defined]
    assert not np.array_equal(new.model_at(4).head.weight, new.model_at(0).head.weight)  # type: ignore[attr-defined]
    assert new.config["model"]["settings"]["width"] == 8
    assert new.config["model"]["from"] == {"run": str(trained.resolve()), "step": old.step, "fresh": ["head"]}
    first = json.loads((begun / "metrics.jsonl").read_text().splitlines()[0])
    assert (first["step"], first["split"]) == (0, "val")


def test_a_recipe_repeats_it_bit_for_bit(cli: Command, begun: Path) -> None:
    assert cli("train", f"config={begun / 'config.yaml'}", "run=again", "--json").code == 0
    for step in (0, 4):
        one, other = (
            next((path / "checkpoints" / f"step-{step:08d}").glob("*.safetensors")).read_bytes()
            for path in (begun, Path("runs/again"))
        )
        assert one == other


def test_a_run_whose_first_weights_were_never_saved_cannot_be_resumed(cli: Command, begun: Path) -> None:
    shutil.rmtree(begun / "checkpoints")
    result = cli("resume", "next")
    assert result.code
    assert "was stopped before the weights it begins with were saved" in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mlp", "from=toy", "data=digits"], "arrays do not fit: blocks.0.linear.weight is (64, 8) here"),
        (
            ["mlp", "from=toy", "fresh=haed"],
            "fresh=haed: no parameter has such a name (did you mean 'head'?)",
        ),
        (["mlp", "fresh=head"], "without from=RUN every layer begins afresh"),
        (["cnn", "from=toy"], "cnn cannot begin with a mlp"),
        (
            ["reader", "from=toy", "data=digits"],
            "reader cannot begin with a mlp: its body is a gpt or a bert",
        ),
        (["mlp", "from=nothing"], "there is no run 'nothing'"),
    ],
)
def test_what_does_not_fit_is_told(cli: Command, trained: Path, words: list[str], message: str) -> None:
    result = cli("train", *words)
    assert result.code
    assert message in result.err


def test_a_chat_goes_on_with_its_special_tokens(cli: Command, tmp_path: Path, unreported: None) -> None:
    chat = tmp_path / "chat.txt"
    chat.write_text("<user>what is it<assistant>it is it\n" * 30)
    short = [f"data={chat}", "steps=1", "batch=2", "--json"]
    small = ["layers=1", "heads=1", "width=4", "data.window=4", 'data.special=["<user>", "<assistant>"]']
    assert cli("train", "gpt", *short, *small, "run=chat").code == 0
    assert cli("train", "from=chat", "run=more", *short).code == 0
    old, more = (Run.open(Path("runs") / name) for name in ("chat", "more"))
    assert more.schema.tokens == old.schema.tokens
    for run in (old, more):
        assert (run.data.train.arrays["tokens"] == run.schema.tokens.index("<assistant>")).sum() >= 27
    assert "note     <user> in the prompt is text" in cli("sample", "chat", "prompt=<user>", "length=1").out
