"""What `run=` means: the same in Python and on the command line."""

from pathlib import Path

import pytest

from chainrule.cli.arguments import parse
from chainrule.cli.training_request import parse_request
from chainrule.core.errors import ArgumentError
from chainrule.train import Run, fit
from chainrule.train.naming import run_folder
from tests.train.toys import Mean, numbers


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CHAINRULE_RUNS", raising=False)


@pytest.mark.parametrize(
    ("run", "runs", "folder"),
    [
        ("exp", None, "runs/exp"),
        ("exp", "elsewhere", "elsewhere/exp"),
        ("a/exp", None, "a/exp"),
        ("./exp", None, "exp"),
        ("exp", "$CHAINRULE_RUNS", "other/exp"),
    ],
)
def test_a_name_goes_to_the_runs_and_a_path_where_it_says(
    run: str, runs: str | None, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if runs == "$CHAINRULE_RUNS":
        monkeypatch.setenv("CHAINRULE_RUNS", "other")
        runs = None
    assert run_folder(run, runs) == Path(folder)
    words = ["mlp", "data=moons", f"run={run}", *([f"runs={runs}"] if runs else [])]
    assert parse_request(parse(words)).run == Path(folder)
    assert run_folder(Path("exp")) == Path("exp")


def test_python_trains_finds_and_goes_on_with_a_run_by_its_name() -> None:
    import jax.numpy as jnp

    model, data = Mean(jnp.zeros(3)), numbers()
    first = fit(model, data, run="exp", steps=1, batch=16)
    assert first.path == Path("runs/exp")
    assert Run.open("exp", model=model).path == Path("runs/exp")
    assert fit(model, data, run="exp", steps=2, batch=16).status["step"] == 2
    assert fit(model, data, run="exp", runs="more", steps=1, batch=16).path == Path("more/exp")
    earlier = fit(model, data, run=Path("earlier"), steps=1, batch=16)  # where names went in earlier versions
    assert fit(model, data, run="earlier", steps=2, batch=16).path == earlier.path


@pytest.mark.parametrize("name", ["", "..", "-x", ".x", "a=b", "a\nb", " a", "a/..", "a/-x"])
def test_both_refuse_the_same_names(name: str) -> None:
    with pytest.raises(ArgumentError) as ours:
        run_folder(name)
    if name:
        with pytest.raises(ArgumentError) as theirs:
            parse_request(parse(["mlp", "data=moons", f"run={name}"]))
        assert str(theirs.value) == str(ours.value)
