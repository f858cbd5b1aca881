import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from chainrule import report
from chainrule.cli.score_against import check_comparable
from chainrule.core.errors import ArgumentError
from chainrule.train import Run
from chainrule.train.scores import loss
from chainrule.train.scoring import Metric

from .conftest import Command


def test_scores_are_given_by_contract(cli: Command, trained: Path) -> None:
    metrics = cli("score", "toy", "--json").last["metrics"]
    expected = Run.open(trained).score()
    assert set(metrics) == set(expected)
    for name, metric in metrics.items():
        assert set(metric) == {"value", "unit", "stderr"}
        assert math.isclose(metric["value"], expected[name].value)
    assert metrics["accuracy"]["stderr"] > 0


def test_another_split_can_be_scored(cli: Command, trained: Path) -> None:
    test, train = (cli("score", "toy", *words, "--json").last["metrics"] for words in ([], ["split=train"]))
    assert test["loss"] != train["loss"]


def test_where_there_is_no_test_split_validation_is_scored_and_said(cli: Command, trained: Path) -> None:
    config = yaml.safe_load((trained / "config.yaml").read_text())
    config["data"]["split"] = [0.9, 0.1, 0.0]
    (trained / "config.yaml").write_text(yaml.safe_dump(config))
    assert cli("score", "toy").out.startswith("scored   the validation split: the data have no test split")
    refused = cli("score", "toy", "split=test")
    assert refused.code == 2
    assert "the test split of moons has no examples" in refused.err
    assert "split=val" in refused.err


def test_a_part_of_the_examples_can_be_scored(cli: Command, trained: Path) -> None:
    found = cli("score", "toy", "n=7", "--json").last["metrics"]["examples"]
    assert found["value"] == 7
    assert "\nexamples  " in cli("score", "toy", "n=7").out


def test_people_get_a_table(cli: Command, trained: Path) -> None:
    lines = cli("score", "toy").out.splitlines()
    assert lines[0].split() == ["metric", "value", "error", "unit"]
    assert {"loss", "accuracy"} <= {line.split()[0] for line in lines[1:] if line}


def test_the_true_class_may_be_looked_for_among_the_likeliest(cli: Command, trained: Path) -> None:
    found = cli("score", "toy", "top=1,2", "--json").last["metrics"]
    assert found["top_1_accuracy"]["value"] == found["accuracy"]["value"]
    assert found["top_2_accuracy"]["value"] == 1
    refused = cli("score", "toy", "top=few")
    assert refused.code == 2
    assert "top=few: top must be whole numbers of classes" in refused.err


def test_probabilities_are_judged_at_a_temperature_where_that_is_asked(cli: Command, trained: Path) -> None:
    found = cli("score", "toy", "calibrated=true", "--json").last["metrics"]
    assert {"temperature", "loss_at_temperature", "calibration_error_at_temperature"} <= found.keys()
    assert "temperature" not in cli("score", "toy").out
    assert "calibrated must be true or false" in cli("score", "toy", "calibrated=1").err
    np.save("new.npy", np.zeros((2, 2)))
    assert "probabilities at temperature" in cli("predict", "toy", "new.npy", "calibrated=true").out


def test_a_large_overfitting_gap_is_put_into_words(
    cli: Command, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = cli("score", "toy", "--json").last["metrics"]
    gap = found["loss"]["value"] - found["train_loss"]["value"]
    assert math.isclose(found["overfitting_gap"]["value"], gap)
    assert "overfitting:" not in cli("score", "toy").out
    monkeypatch.setattr(loss, "_NOTICEABLE", -math.inf)
    monkeypatch.setattr(loss, "_RATIO", 0.0)
    assert "\nnote     overfitting: the loss is" in cli("score", "toy").out
    assert "overfitting: the loss is" in report.write(Run.open(trained)).read_text()


def test_every_class_has_a_row_and_the_positive_one_is_named(cli: Command, trained: Path) -> None:
    out = cli("score", "toy", "positive=upper").out
    assert "positive_recall" in out
    assert "of upper" in out
    head, first, second = out.splitlines()[-3:]
    assert head.split() == ["of", "each", "precision", "recall", "f1", "support"]
    assert int(first.split()[4]) + int(second.split()[4]) == len(Run.open(trained).data.test)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["split=tset"], 'split must be "train", "val" or "test"'),
        (["spilt=test"], "error: unknown setting 'spilt' (did you mean 'split'?)"),
        (["positive=uper"], "error: positive='uper': there is no such class (did you mean 'upper'?)"),
        (["n=half"], "error: n=half: n must be a whole number of examples"),
        (["more"], "error: unexpected word 'more'"),
    ],
)
def test_a_mistake_in_the_words_is_told(cli: Command, trained: Path, words: list[str], message: str) -> None:
    result = cli("score", "toy", *words)
    assert result.code == 2
    assert message in result.err


def test_other_data_are_scored_with_the_scaling_of_training(cli: Command, trained: Path) -> None:
    run = Run.open(trained)
    data = run.data
    classes = np.array(data.schema.classes)[np.asarray(data.test.y)]
    np.savez("new.npz", x=data.inverse(data.test.x), y=classes)
    ours = cli("score", "toy", "data=new.npz", "--json").last
    assert ours["scored"] == f"{len(data.test)} points in 2 dimensions, 2 classes"
    expected = cli("score", "toy", "--json").last["metrics"]
    assert expected.keys() - ours["metrics"].keys() == {"train_loss", "overfitting_gap"}
    assert {name: one["value"] for name, one in ours["metrics"].items()} == pytest.approx(
        {name: one["value"] for name, one in expected.items() if name in ours["metrics"]}, rel=1e-4
    )
    out = cli("score", "toy", "data=moons", "data.seed=3", "data.n=50").out
    assert out.startswith("scored   moons   50 points in 2 dimensions, 2 classes, prepared as")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["data=digits"], 3, "error: digits holds images; the run was trained on points"),
        (["data=moons", "split=val"], 2, "error: split=val: other data are judged as a whole"),
        (["data.n=50"], 2, "error: unknown setting 'data.n'"),
        (["data=moons", "data.m=50"], 2, "error: unknown option 'm' of toy data"),
        (["data=mons"], 2, "error: unknown data 'mons' (did you mean 'moons'?)"),
        (["data=cuts.npz"], 3, "the targets of 1 of 2 examples are not known to the run; first: 'middle'"),
        (["data=bare.npz"], 3, "error: bare: the examples have no targets, which this run was trained with"),
    ],
)
def test_data_that_do_not_fit_are_refused(
    cli: Command, trained: Path, words: list[str], code: int, message: str
) -> None:
    np.savez("cuts.npz", x=np.ones((2, 2)), y=np.array(["upper", "middle"]))
    np.savez("bare.npz", x=np.ones((2, 2)))
    result = cli("score", "toy", *words)
    assert result.code == code
    assert message in result.err


def test_samples_are_held_against_real_examples(cli: Command) -> None:
    assert cli("train", "kde", "data=ring", "data.n=300", "run=density").code == 0
    found = cli("score", "density", "samples=40", "--json").last["metrics"]
    distance = found["feature_frechet_distance"]
    assert distance["value"] > 0
    assert distance["basis"].startswith("40 samples, 30 held-out and 240 training examples, features ")
    assert distance["basis"].endswith(found["sample_features"]["basis"])
    assert "feature_frechet_distance_of_real" in found
    assert found["modes_found"]["unit"].startswith("of 8, with 1 sample or more")
    out = cli("score", "density", "samples=40").out
    assert "\nsamples beside real " in out
    assert f"on the basis of {distance['basis']}" in out
    refused = cli("score", "density", "samples=5")
    assert refused.code == 2
    assert "samples=5: too few to be compared with real examples\n       use 20 or more" in refused.err


def test_a_model_that_draws_nothing_has_no_samples_to_judge(cli: Command, trained: Path) -> None:
    refused = cli("score", "toy", "samples=50")
    assert refused.code == 2
    assert "samples=50: only models that draw points, images or rows of tables" in refused.err


def test_runs_on_the_same_examples_stand_beside_each_other(cli: Command, trained: Path) -> None:
    twin = Path(shutil.copytree(trained, "runs/twin"))
    found = cli("score", "toy", "against=twin", "--json").last
    assert found["against"] == {"twin": found["metrics"]}
    lines = [line.split() for line in cli("score", "toy", "against=twin").out.splitlines()]
    assert lines[0] == ["metric", "toy", "twin", "unit"]
    assert any(line[0] == "accuracy" for line in lines)
    config = yaml.safe_load((twin / "config.yaml").read_text())
    config["data"]["split"] = [0.7, 0.1, 0.2]
    (twin / "config.yaml").write_text(yaml.safe_dump(config))
    refused = cli("score", "toy", "against=twin")
    assert refused.code == 2
    assert "another split" in refused.err
    assert "data=OTHER" in refused.err
    assert "moons" in cli("score", "toy", "against=twin", "data=moons", "data.n=50").out  # the remedy


def test_runs_to_stand_beside_are_named(cli: Command, trained: Path) -> None:
    for word, said in (("", "no run is named"), ("toy", "this is the run itself"), ("nobody", "nobody")):
        refused = cli("score", "toy", f"against={word}")
        assert refused.code == 2
        assert said in refused.err


def test_numbers_on_unlike_grounds_do_not_stand_beside_each_other() -> None:
    rests_on = {name: {"kernel_distance": Metric(1.0, basis=f"features {name}")} for name in ("one", "two")}
    with pytest.raises(ArgumentError, match=r"kernel_distance of one .* do not compare"):
        check_comparable(rests_on)
