"""Words about another domain and about other classes than before: `target=`, and a head that is replaced."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from chainrule.core.errors import DivergedError
from chainrule.explain import Outcome
from chainrule.train import Run

from .conftest import Command

LENGTH = ["steps=2", "batch=8", "eval_every=2"]
SHORT = [*LENGTH, "--json"]
SMALL = ["data.n=60", "target.n=40", "layers=4", "discriminator=4"]


def test_another_domain_is_named_with_its_options_and_repeated_by_a_recipe(
    cli: Command, tmp_path: Path, unreported: None
) -> None:
    words = [
        "dann",
        "data=moons",
        "target=rotated-moons",
        "target.angle=50",
        "target_labels=4",
        "baselines=false",
        *SMALL,
        *SHORT,
    ]
    assert cli("train", *words, "run=first").code == 0
    config = yaml.safe_load(Path("runs/first/config.yaml").read_text())
    assert (config["target"]["data"]["angle"], config["target"]["labels"]) == (50, 4)
    assert cli("train", "config=runs/first/config.yaml", "run=again", "baselines=false", "--json").code == 0
    assert yaml.safe_load(Path("runs/again/config.yaml").read_text())["target"] == config["target"]
    kept = Path("runs/first/probes/baselines/numbers.json")
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps({"baselines": {"verdict": "negative transfer: -3.1 points ± 0.9"}}))
    assert "done, negative transfer: -3.1 points" in " ".join(cli("runs", "ls").out.split())
    rows = {row["id"]: row for row in json.loads(cli("runs", "ls", "--json").out)}
    assert rows["first"]["transfer"] == "negative transfer: -3.1 points ± 0.9"
    assert "transfer" not in rows["again"]


@pytest.mark.slow
def test_a_run_is_compared_with_its_baselines_and_keeps_the_verdict(cli: Command, unreported: None) -> None:
    words = ["dann", "data=moons", "target=rotated-moons", "baselines=false", *SMALL, *SHORT]
    assert cli("train", *words, "run=first").code == 0
    found = cli("probe", "first", "baselines", "seeds=2", "steps=2", "few=4", "--json")
    assert found.code == 0, found.err
    numbers = json.loads(found.out)["results"]["baselines"]["numbers"]
    assert set(numbers["accuracy"]) == {"source only", "few target labels", "method", "oracle"}
    (row,) = json.loads(cli("runs", "ls", "--json").out)
    assert row["transfer"] == numbers["verdict"]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Stands in for the trainings of the baselines; the settings it was called with."""
    asked: list[dict[str, Any]] = []

    def examine(name: str, run: Run, **settings: Any) -> Outcome:
        asked.append({"name": name, "step": run.step, **settings})
        if "fails" in run.id:
            raise DivergedError("the loss of seed 0 was not finite", remedy="try a lower rate")
        accuracy = {"source only": [0.66], "method": [0.625], "oracle": [0.99]}
        words = "negative transfer: -3.5 points ± 0.9, one seed"
        return Outcome([words], numbers={"verdict": words, "accuracy": accuracy, "steps": run.step})

    monkeypatch.setattr("chainrule.explain.probes.examine", examine)
    return asked


def test_a_run_is_compared_when_it_is_done_and_the_verdict_is_in_its_report(
    cli: Command, compared: list[dict[str, Any]]
) -> None:
    words = ["dann", "data=moons", "target=rotated-moons", "target_labels=4", *SMALL, *LENGTH]
    result = cli("train", *words, "run=first")
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    before, after = (line for line in lines if line.startswith("compared"))
    assert (
        "3 trainings of as many steps follow: moons alone, the 4 labels of rotated-moons alone, all" in before
    )
    assert before.endswith("baselines=false")
    assert lines.index(before) < next(i for i, line in enumerate(lines) if line.startswith("model"))
    assert (
        after
        == "compared negative transfer: -3.5 points ± 0.9, one seed   source only 66.0 %, method 62.5 %, oracle 99.0 %"
    )
    assert compared == [{"name": "baselines", "step": 2, "seeds": 1}]
    page = Path("runs/first/report.html").read_text()
    assert "Negative transfer: -3.5 points ± 0.9, one seed after 2 steps." in page
    assert "chainrule probe first baselines" in page
    assert "negative transfer: -3.5" in cli("runs", "ls").out
    assert "probe first baselines" not in lines[-1]


@pytest.mark.slow
def test_without_baselines_it_is_said_that_nothing_is_known(
    cli: Command, compared: list[dict[str, Any]]
) -> None:
    words = ["dann", "data=moons", "target=rotated-moons", *SMALL, *LENGTH]
    result = cli("train", *words, "run=first", "baselines=false")
    assert compared == []
    assert "compared not yet: nothing is known of whether adaptation helped" in result.out
    assert result.out.splitlines()[-1].startswith("next     chainrule probe first baselines   ·   ")
    page = Path("runs/first/report.html").read_text()
    assert "Nothing is known yet of whether adaptation helped" in page
    plain = cli("train", *words, "run=plain", "align=none")
    assert "compared" not in plain.out
    assert "Did adaptation help" not in Path("runs/plain/report.html").read_text()


def test_baselines_that_fail_cost_nothing_else(
    cli: Command, compared: list[dict[str, Any]], unreported: None
) -> None:
    words = ["dann", "data=moons", "target=rotated-moons", *SMALL, *SHORT]
    result = cli("train", *words, "run=fails")
    assert result.code == 0
    events = {line["event"]: line for line in result.lines if "event" in line}
    assert events["baselines"]["trainings"] == ["moons alone", "all labels of rotated-moons"]
    assert events["compared"]["verdict"] is None
    assert "DivergedError: the loss of seed 0 was not finite" in events["compared"]["problem"]
    assert result.last["status"] == "done"
    assert "baselines must be true or false" in cli("train", *words, "baselines=later").err
    assert cli("resume", "fails", "steps=4", "--json").code == 0
    assert len(compared) == 1


@pytest.mark.slow
def test_a_run_is_compared_with_trainings_of_its_own_length(cli: Command, unreported: None) -> None:
    words = ["dann", "data=moons", "target=rotated-moons", "target_labels=4", *SMALL, *SHORT]
    result = cli("train", *words, "run=first", "seed=3")
    (event,) = (line for line in result.lines if line.get("event") == "compared")
    assert list(event["accuracy"]) == ["source only", "few target labels", "method", "oracle"]
    run = Run.open(Path("runs/first"))
    assert event["accuracy"]["method"] == pytest.approx(run.score()["target_accuracy"].value)
    numbers = json.loads(Path("runs/first/probes/baselines/numbers.json").read_text())["baselines"]
    assert (numbers["seeds"], numbers["steps"], numbers["verdict"]) == (1, 2, event["verdict"])
    assert event["verdict"].endswith(", one seed")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dann", "data=moons"], "dann learns from two domains"),
        (["mlp", "data=moons", "target_labels=3"], "there is no other domain"),
        (["mlp", "data=moons", "baselines=false"], "there is no other domain"),
        (["dann", "data=moons", "target=rotated-moons", "target.angel=3"], "target.angel"),
        (["mlp", "data=moons", "target=rotated-moons"], "mlp learns from one domain"),
        (["mlp", "data=moons", "target=price"], "a column that is to be predicted is data.target=price"),
        (["dann", "data=moons", "target=rotated-moon"], "did you mean 'rotated-moons'"),
        (["dann", "data=moons", "target=digits"], "one network reads both"),
        (["dann", "data=moons", "target=rotated-moons", "target_labels=few"], "target_labels='few'"),
        (["dann", "data=moons", "target=rotated-moons", "label_map=upper"], "'upper' is no pair of classes"),
        (
            ["dann", "data=moons", "target=rotated-moons", "label_map=upper:above,lower:lower"],
            "no class of the source",
        ),
        (["mlp", "data=moons", "label_map=names"], "there is no other domain"),
    ],
)
def test_what_does_not_fit_is_told(cli: Command, words: list[str], message: str) -> None:
    result = cli("train", *words)
    assert result.code
    assert message in result.err


def test_classes_that_are_called_otherwise_are_mapped(cli: Command, tmp_path: Path, unreported: None) -> None:
    for name, words in (("here", ("cat", "dog")), ("there", ("Hound", "CAT"))):
        lines = [f"{i % 7},{i % 5},{words[i % 2]}" for i in range(60)]
        Path(f"{name}.csv").write_text("\n".join(["a,b,kind", *lines]) + "\n")
    words = [
        "dann",
        "data=here.csv",
        "target=there.csv",
        "target_labels=4",
        "baselines=false",
        "layers=4",
        "discriminator=4",
        *SHORT,
    ]
    refused = cli("train", *words)
    assert "label_map=THEIRS:OURS" in refused.err
    assert cli("train", *words, "label_map=Hound:dog,CAT:cat", "run=first").code == 0
    run = Run.open(Path("runs/first"))
    assert run.data.other is not None
    assert run.data.other.schema.classes == ("cat", "dog")
    assert (run.data.other.train.y == run.data.other.train.arrays["y"]).all()
    assert cli("train", "config=runs/first/config.yaml", "run=again", "baselines=false", "--json").code == 0
    assert Run.open(Path("runs/again")).data.hash == run.data.hash


def test_other_classes_get_a_head_of_their_own_and_it_is_said(
    cli: Command, trained: Path, unreported: None
) -> None:
    short = ["data=ring", "data.n=200", "steps=2", "batch=16", "run=next"]
    result = cli("train", "from=toy", "freeze=blocks", *short)
    assert result.code == 0, result.err
    assert "head begins afresh: classes are others than those of toy" in result.out
    config = yaml.safe_load(Path("runs/next/config.yaml").read_text())
    assert config["model"]["from"]["fresh"] == ["head"]
    Path("values.csv").write_text("x,y,z\n" + "".join(f"{i},{i % 7},{i / 9}\n" for i in range(60)))
    result = cli("train", "from=toy", "data=values.csv", "data.target=z", "steps=1", "--dry-run")
    assert "head begins afresh: targets are others than those of toy" in result.out


def test_a_setting_of_the_model_with_this_name_comes_first(cli: Command) -> None:
    found = cli("train", "diffusion", "data=moons", "target=v", "steps=1", "run=toy", "--dry-run")
    assert (found.code, "other domain" in found.out) == (0, False)
    mistaken = cli("train", "diffusion", "data=moons", "target=rotated-moons")
    assert mistaken.code == 2
    assert "target=" in mistaken.err
    assert cli("train", "dann", "data=moons", "target=").code == 2


def test_a_head_for_other_classes_learns_alone_before_all_layers(
    cli: Command, trained: Path, unreported: None
) -> None:
    short = ["from=toy", "data=ring", "data.n=200", "steps=8", "batch=16"]
    result = cli("train", *short, "run=two", "head_first=1000")
    assert result.code == 0, result.err
    assert "head     it learns alone for 1,000 steps, all layers follow at optimizer.lr=" in result.out
    config = yaml.safe_load(Path("runs/two/config.yaml").read_text())
    assert config["model"]["from"]["head_first"] == 1000
    at_once = cli("train", *short, "run=one")
    assert "alone" not in at_once.out
    other = yaml.safe_load(Path("runs/one/config.yaml").read_text())
    assert "head_first" not in other["model"]["from"]
    rates = [one["train"]["optimizer"]["lr"] for one in (config, other)]
    assert rates[0] == pytest.approx(rates[1] / 10)
    begun: list[Any] = [Run.open(Path("runs") / name).model_at(0) for name in ("two", "one")]
    np.testing.assert_array_equal(begun[0].blocks[0].linear.weight, begun[1].blocks[0].linear.weight)
    assert not np.array_equal(begun[0].head.weight, begun[1].head.weight)
    assert cli("train", "config=runs/two/config.yaml", "run=again", "--json").code == 0
    again: Any = Run.open(Path("runs/again")).model_at(8)
    np.testing.assert_array_equal(again.head.weight, Run.open(Path("runs/two")).model_at(8).head.weight)  # type: ignore[attr-defined]
    for words, message in (
        ([*short, "head_first=3", "freeze=blocks"], "freeze says already what learns"),
        (["from=toy", "head_first=3", "steps=1"], "is taken over as it is"),
        ([*short, "head_first=-1"], "head_first=-1"),
        (["mlp", "head_first=3"], "without from=RUN every layer begins afresh"),
    ):
        refused = cli("train", *words)
        assert refused.code
        assert message in refused.err
