import inspect

import equinox as eqx
import pytest

from chainrule import models
from chainrule.agents import algorithms
from chainrule.cli import settings
from chainrule.cli.models import abilities, model_classes
from chainrule.cli.training_request import OWN
from chainrule.data import load
from chainrule.models.protocol import (
    CanDecode,
    CanEncode,
    CanPredict,
    CanSample,
    Entry,
    HasBound,
    HasLogProb,
    Model,
    option_fields,
)
from chainrule.train import TrainConfig

from .conftest import Command


def test_every_model_is_listed_with_what_it_can_do(cli: Command) -> None:
    rows = cli("models", "ls", "--json").last
    assert [row["name"] for row in rows] == [*models.names(), *algorithms.names()]
    mlp = next(row for row in rows if row["name"] == "mlp")
    assert mlp["family"] == "supervised"
    assert mlp["can"] == ["predict"]
    text = cli("models", "ls").out
    for row in rows:
        assert row["summary"] in text


def test_a_model_shows_its_card_and_every_setting(cli: Command) -> None:
    text = cli("models", "show", "mlp").out
    assert models.card("mlp").strip() in text
    for name in models.entry("mlp").config.model_fields:
        assert f"\n{name} " in text
    assert "int >= 1 and <= 100" in text
    shown = cli("models", "show", "mlp", "--json").last
    assert [row["name"] for row in shown["settings"]] == list(models.entry("mlp").config.model_fields)


def outline(found: Entry) -> Model:
    """The toy of an entry without the numbers in its arrays, which nobody has to compute here."""
    examples = load(found.toy_data)
    built: Model = eqx.filter_eval_shape(lambda: models.build(found.name, examples, **found.toy))
    return built


@pytest.mark.parametrize("name", models.names())
def test_what_is_said_of_a_model_is_what_it_is(name: str) -> None:
    found = models.entry(name)
    built = outline(found)
    said = model_classes(found)
    assert type(built) in said  # a build function that chooses among classes names them all


@pytest.mark.parametrize("name", models.names())
def test_a_model_that_samples_shows_every_option(name: str, cli: Command) -> None:
    found = models.entry(name)
    built = outline(found)
    groups = cli("models", "show", name, "--json").last["sampling"]
    shown = {option["name"] for group in groups for option in group["options"]}
    assert shown >= (set(option_fields(built.sample_options())) if isinstance(built, CanSample) else set())


def test_the_layers_of_a_model_of_these_settings_are_shown(cli: Command) -> None:
    words = ("models", "summary", "cnn", "data=digits", "stages=1", "width=4")
    found = cli(*words, "--json").last
    fields = [row["receptive_field"] for row in found["layers"] if row["kind"] == "Conv"]
    assert fields == [[3, 3], [5, 5]]
    assert cli(*words).out.splitlines()[0] == "cnn   input 8 × 8 × 1"


@pytest.mark.parametrize("name", models.names())
def test_no_setting_of_a_model_hides_another_setting(name: str) -> None:
    own = set(settings.of(models.entry(name).config))
    assert not own & {*OWN, *settings.of(TrainConfig)}


def test_every_capability_has_a_word() -> None:
    known = [CanPredict, CanSample, HasLogProb, HasBound, CanEncode, CanDecode]
    words = [abilities([kind]) for kind in known]
    assert [len(found) for found in words] == [1] * len(known)
    assert len({found[0] for found in words}) == len(known)
    assert abilities([Model]) == []
    assert abilities([CanDecode, CanSample]) == ["sample", "decode"]


def test_a_build_function_must_name_its_class() -> None:
    mlp = models.entry("mlp")

    def build(config: object, schema: object, key: object) -> object:
        return None

    broken = type(mlp)(
        **{**{f: getattr(mlp, f) for f in inspect.signature(type(mlp)).parameters}, "build": build}
    )
    with pytest.raises(TypeError, match="mlp must name the class"):
        model_classes(broken)
