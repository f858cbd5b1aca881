"""Words about another domain and about other classes than before: `target=`, and a head that is replaced."""

from pathlib import Path

import pytest
import yaml

from .conftest import Command

SHORT = ["steps=2", "batch=8", "eval_every=2", "--json"]
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
        *SMALL,
        *SHORT,
    ]
    assert cli("train", *words, "run=first").code == 0
    config = yaml.safe_load(Path("runs/first/config.yaml").read_text())
    assert (config["target"]["data"]["angle"], config["target"]["labels"]) == (50, 4)
    assert cli("train", "config=runs/first/config.yaml", "run=again", "--json").code == 0
    assert yaml.safe_load(Path("runs/again/config.yaml").read_text())["target"] == config["target"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dann", "data=moons"], "dann learns from two domains"),
        (["mlp", "data=moons", "target_labels=3"], "there is no other domain"),
        (["dann", "data=moons", "target=rotated-moons", "target.angel=3"], "target.angel"),
        (["mlp", "data=moons", "target=rotated-moons"], "mlp learns from one domain"),
        (["dann", "data=moons", "target=digits"], "one network reads both"),
    ],
)
def test_what_does_not_fit_is_told(cli: Command, words: list[str], message: str) -> None:
    result = cli("train", *words)
    assert result.code
    assert message in result.err


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
