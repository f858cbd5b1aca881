"""Low-rank adapters from the command line: trained beside a run, exported merged or alone, used with another run."""

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from chainrule.nn import lora
from chainrule.train import Run

from .conftest import Command

TUNED = [
    "train",
    "from=toy",
    "data=moons",
    "data.n=200",
    "data.seed=1",
    "lora.rank=2",
    "steps=4",
    "batch=16",
    "run=tuned",
]


@pytest.fixture
def tuned(cli: Command, trained: Path, unreported: None) -> Run:
    assert cli(*TUNED, "fresh=head", "optimizer.lr=0.1").code == 0
    return Run.open("runs/tuned")


def test_adapters_are_trained_beside_a_run_exported_merged_or_alone_and_used_with_it(
    cli: Command, tuned: Run, trained: Path
) -> None:
    assert tuned.settings.lora.whole == ("head",), "layers that begin afresh learn as a whole"
    base, ours = (run.model.blocks[0].linear.weight for run in (Run.open(trained), tuned))  # type: ignore[attr-defined]
    assert not np.array_equal(base, ours)
    np.testing.assert_array_equal(lora.merged(tuned.adapted_at(4), 0.0).blocks[0].linear.weight, base)  # type: ignore[attr-defined]

    assert cli("export", "tuned", "out=w.safetensors", "--json").last["layout"] == "chainrule"
    np.testing.assert_allclose(
        safetensors.numpy.load_file("w.safetensors")["blocks.0.linear.weight"], ours, atol=1e-6
    )
    assert cli("export", "tuned", "lora_strength=0", "out=b.safetensors").code == 0
    np.testing.assert_array_equal(
        safetensors.numpy.load_file("b.safetensors")["blocks.0.linear.weight"], base
    )

    out = cli("export", "tuned", "layout=lora").out.splitlines()
    assert out[0].startswith("written  tuned.lora.safetensors")
    assert out[1].split(maxsplit=1) == ["use", "chainrule sample toy lora=tuned.lora.safetensors"]
    wanted = cli("score", "tuned", "data=moons", "--json").last
    assert cli("score", "toy", "lora=tuned.lora.safetensors", "data=moons", "--json").last == wanted
    assert cli("score", "toy", "lora=tuned", "data=moons", "--json").last == wanted
    assert cli("score", "toy", "data=moons", "--json").last != wanted
    Path("new.csv").write_text("x0,x1\n0.5,0.2\n")
    answers = [cli("predict", *words, "new.csv", "--json") for words in (["tuned"], ["toy", "lora=tuned"])]
    assert [one.code for one in answers] == [0, 0], answers[1].err
    tables = [Path(one.last["path"]).read_text() for one in answers]
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "mlp", "data=moons", "lora.rank=2"], "name the run to begin with: from=RUN"),
        (["score", "toy", "lora_strength=0.5"], "lora_strength=0.5: toy was trained without adapters"),
        (["score", "toy", "lora=toy"], "train some beside it: chainrule train from=toy lora.rank=8"),
        (["score", "toy", "lora=a.safetensors"], "a.safetensors: there is no such file"),
        (
            ["score", "toy", "lora=toy", "lora_strength=much"],
            "lora_strength=much: numbers with commas between them",
        ),
        (["score", "toy", "lora="], "lora= needs a value"),
        (["export", "toy", "layout=lora"], "toy was trained without adapters"),
        (["export", "toy", "layout=lora", "lora_strength=2"], "leave lora_strength out"),
        (
            [*TUNED, "lora.layers=had"],
            "lora.layers=had: no dense, recurrent or convolution layer has such a name",
        ),
    ],
)
def test_a_mistake_is_told_with_what_to_do(
    cli: Command, trained: Path, unreported: None, words: list[str], message: str
) -> None:
    result = cli(*words)
    assert result.code
    assert message in result.err
