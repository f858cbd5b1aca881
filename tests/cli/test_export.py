import shlex
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from chainrule.train import Run

from .conftest import Command


def test_weights_are_written_under_their_own_names(cli: Command, trained: Path, tmp_path: Path) -> None:
    found = cli("export", "toy", "out=w.safetensors", "--json").last
    assert found["layout"] == "chainrule"
    arrays = safetensors.numpy.load_file(tmp_path / "w.safetensors")
    model = Run.open(trained).model
    np.testing.assert_array_equal(arrays["head.weight"], model.head.weight)  # type: ignore[attr-defined]
    assert found["bytes"] == (tmp_path / "w.safetensors").stat().st_size


def test_the_layout_of_pytorch_turns_matrices_round(cli: Command, trained: Path, tmp_path: Path) -> None:
    assert cli("export", "toy", "layout=torch", "out=w.safetensors", "--json").last["layout"] == "torch"
    arrays = safetensors.numpy.load_file(tmp_path / "w.safetensors")
    model = Run.open(trained).model
    np.testing.assert_array_equal(arrays["head.weight"], model.head.weight.T)  # type: ignore[attr-defined]


def test_people_are_told_where_the_file_is(cli: Command, trained: Path) -> None:
    assert cli("export", "toy").out.startswith("written  toy.safetensors")


def test_the_command_that_takes_a_file_back_works_as_written(cli: Command, unreported: None) -> None:
    rows = [f"{i},{i * i % 7},{'ab'[i % 2]}" for i in range(40)]
    Path("some table.csv").write_text("\n".join(["u,v,kind", *rows]))
    run = cli("train", "mlp", "data=some table.csv", "width=4", "steps=1", "--json").last["run"]
    out = cli("export", run).out
    (again,) = [line for line in out.splitlines() if line.startswith("again")]
    back = cli(*shlex.split(again)[2:])
    assert back.code == 0, back.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["layout=torhc"], 'layout must be "torch", "chainrule" or "onnx"'),
        (["layout=onnx", "out=w.safetensors"], "must end in .onnx"),
        (["out=w.pt"], "must end in .safetensors"),
        (["laoyut=torch"], "error: unknown setting 'laoyut' (did you mean 'layout'?)"),
    ],
)
def test_a_mistake_in_the_words_is_told(cli: Command, trained: Path, words: list[str], message: str) -> None:
    result = cli("export", "toy", *words)
    assert result.code == 2
    assert message in result.err


def test_a_folder_is_made_and_a_place_that_cannot_be_written_is_named(
    cli: Command, trained: Path, tmp_path: Path
) -> None:
    assert cli("export", "toy", "out=new/w.safetensors").code == 0
    (tmp_path / "taken.safetensors").mkdir()
    result = cli("export", "toy", "out=taken.safetensors")
    assert result.code == 5
    assert "taken.safetensors cannot be written" in result.err
