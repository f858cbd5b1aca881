"""`chainrule train FILE.py:CLASS`: settings out of arguments, and when a run may run its file again."""

import hashlib
import os
from pathlib import Path

import pytest
import yaml

from chainrule import data as sources
from chainrule.cli.training_request import TrainingRequest, callbacks
from chainrule.core.errors import ArgumentError
from chainrule.models.wrapping import ModelFile
from chainrule.train import Run
from tests.cli.conftest import Command

NETS = '''
"""Networks of my own."""
from __future__ import annotations

import equinox as eqx
import jax

from chainrule import models, nn


class Net(eqx.Module):
    """Two layers."""

    first: eqx.nn.Linear
    last: eqx.nn.Linear

    def __init__(self, inputs: int, outputs: int, width: int = 4, act=jax.nn.relu, *, key):
        a, b = jax.random.split(key)
        self.first = eqx.nn.Linear(inputs, width, key=a)
        self.last = eqx.nn.Linear(width, outputs, key=b)

    def __call__(self, x):
        return self.last(jax.nn.relu(self.first(x)))


def whole(shape, outputs, key, scale: float, kind: str = "plain"):
    return models.wrap(nn.Sequential([nn.Linear(shape[0], outputs, key=key)]), metrics=["focal"])


def nothing(inputs):
    return 3


def unclear(inputs, layers):
    return None
'''
SMALL = ("data=moons", "data.n=200", "steps=4", "batch=16", "eval_every=2", "save_every=2", "runs=runs")


@pytest.fixture
def nets(tmp_path: Path) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    return tmp_path / "nets.py"


def test_a_network_in_a_file_is_trained_and_scored_while_the_file_is_the_same(
    cli: Command, nets: Path
) -> None:
    done = cli("train", "nets.py:Net", "width=6", "run=own", *SMALL, "--json")
    assert done.code == 0, done.err
    config = yaml.safe_load(Path("runs/own/config.yaml").read_text())
    digest = hashlib.sha256(NETS.encode()).hexdigest()
    assert config["model"]["settings"] == {"width": 6}
    assert config["model"]["file"] == {"path": str(nets), "name": "Net", "sha256": digest}
    assert Path("runs/own/model.py").read_text() == NETS
    found = cli("score", "own", "runs=runs", "--json").last["metrics"]
    assert {"loss", "accuracy"} <= found.keys()
    opened = Run.open("runs/own")
    assert opened.model.module.first.weight.shape == (6, 2)  # type: ignore[attr-defined]
    assert type(opened.model.module) is type(opened.skeleton().module)  # type: ignore[attr-defined]

    # A file that has changed, or has never been named here, is not run.
    nets.write_text(NETS + "raise RuntimeError('must not be run')\n")
    for words in (("score", "own"), ("resume", "own", "steps=8"), ("train", "config=runs/own/config.yaml")):
        refused = cli(*words, "runs=runs")
        assert refused.code == 2
        assert "nets.py, which has changed since" in refused.err
        assert "model.py" in refused.err
    nets.unlink()
    assert "which is not there" in cli("score", "own", "runs=runs").err
    nets.write_text(NETS)
    allowed = Path(os.environ["XDG_STATE_HOME"]) / "chainrule" / "allowed-code"
    allowed.unlink()
    refused = cli("score", "own", "runs=runs")
    assert "never named or allowed here" in refused.err
    assert "chainrule runs trust" in refused.err
    with pytest.raises(ArgumentError, match="never named or allowed"):
        _ = Run.open("runs/own").model
    assert digest in cli("runs", "trust", "own", "runs=runs").out
    assert cli("score", "own", "runs=runs", "--json").code == 0


@pytest.mark.slow
def test_a_network_in_a_file_is_resumed_and_repeated(cli: Command, nets: Path) -> None:
    del nets
    assert cli("train", "nets.py:Net", "run=own", *SMALL, "--json").code == 0
    assert cli("resume", "own", "runs=runs", "steps=6", "--json").last["step"] == 6
    again = cli("train", "config=runs/own/config.yaml", "steps=2", "run=again", "runs=runs", "--json")
    assert again.last["status"] == "done"


def test_what_a_network_in_a_file_leaves_is_called_by_its_class(nets: Path) -> None:
    entry = ModelFile.named(f"{nets}:Net").entry()
    request = TrainingRequest(entry, {}, {}, {}, nets.parent, None)
    assert request.stem(sources.load("moons")) == "moons-Net"


def test_settings_are_the_arguments_that_the_data_do_not_decide(cli: Command, nets: Path) -> None:
    del nets
    shown = cli("train", "nets.py:whole", "--help")
    assert shown.code == 0
    assert "scale" in shown.out
    assert "kind" in shown.out
    assert "shape" not in shown.out.split("Settings of nets.py:whole")[1]
    entry = ModelFile.named("nets.py:whole").entry()
    assert list(entry.config.model_fields) == ["scale", "kind"]
    assert list(ModelFile.named("nets.py:Net").entry().config.model_fields) == ["width"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nets.py:Net", "wdith=3"), "unknown setting 'wdith' (did you mean 'width'?)"),
        (("nets.py:Net", "width=wide"), "width='wide': input should be a valid integer"),
        (("nets.py:whole",), "scale"),
        (("nets.py:nothing",), "nets.py:nothing gives a int"),
        (("nets.py:unclear",), "argument 'layers' can be no setting"),
        (("nets.py",), "write FILE:CLASS"),
        (("other.py:Net",), "there is no file 'other.py'"),
        (("nets.py:Net", "from=other"), "this is for models of the registry"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    cli: Command, nets: Path, words: tuple[str, ...], message: str
) -> None:
    del nets
    refused = cli("train", *words, *SMALL)
    assert refused.code == 2
    assert message in refused.err
    assert not list(Path("runs").glob("*/config.yaml"))


def test_callbacks_are_functions_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def one(moment): ...\ndef two(moment): ...\n")
    found = callbacks(f"{tmp_path}/mine.py:one, {tmp_path}/mine.py:two")
    assert [one.__name__ for one in found] == ["one", "two"]
    with pytest.raises(ArgumentError, match="write FILE:FUNCTION"):
        callbacks("mine.py")
    assert callbacks(None) == ()


@pytest.mark.slow
def test_callbacks_are_named_with_every_train_and_resume(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def enough(moment):\n"
        "    moment.memory['seen'] = moment.memory.get('seen', 0) + 1\n"
        "    if moment.memory['seen'] == 3:\n"
        "        moment.stop('enough')\n"
    )
    words = ("mlp", "width=4", *SMALL, "run=watched")
    assert cli("train", *words, "callbacks=mine.py:enough", "--json").last["step"] == 4
    further = cli("resume", "watched", "runs=runs", "steps=20", "callbacks=mine.py:enough", "--json")
    assert (further.last["status"], further.last["step"]) == ("done", 6)
    assert cli("resume", "watched", "runs=runs", "callbacks=mine.py:enuogh").code == 2
    without = cli("resume", "watched", "runs=runs", "steps=8")
    assert "note     callbacks that are not asked any more" in without.out


def test_data_have_to_be_named(cli: Command, nets: Path) -> None:
    del nets
    refused = cli("train", "nets.py:Net")
    assert "nets.py:Net needs data" in refused.err
