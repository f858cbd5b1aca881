"""Every setting of every model, of training, sampling, probes and experiments: a number is used or refused in words."""

import functools
import math
import re
import warnings
from typing import Any

import equinox as eqx
import pytest

from chainrule import data, models
from chainrule.cli import settings
from chainrule.cli.arguments import nest
from chainrule.core import machine
from chainrule.core.errors import ArgumentError, ChainruleError, ChainruleWarning
from chainrule.explain import experiments, probes
from chainrule.models.protocol import CanSample, read_options
from chainrule.train import TrainConfig
from tests.cli.conftest import Command

ODD: dict[str, float] = {"inf": math.inf, "nan": math.nan, "-1": -1, "0": 0, "1e18": 10**18, "1e6": 10**6}
QUICK = ("mlp", "gpt")


def numeric(schema: Any) -> list[settings.Setting]:
    """The settings of a schema that take numbers."""
    return [one for one in settings.of(schema).values() if re.search(r"\b(int|float)\b", one.allowed)]


def values(setting: settings.Setting) -> list[Any]:
    listed = ",..." in setting.allowed
    return [[value] if listed else value for value in ODD.values()]


def refused(work: Any) -> str:
    """What was said, empty if it worked, perhaps with a warning; any other kind of error fails the test."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ChainruleWarning)
            work()
    except ChainruleError as error:
        return error.message
    return ""


@pytest.mark.parametrize("name", models.names())
def test_no_setting_of_a_model_takes_a_number_that_is_not_finite_or_far_too_large(name: str) -> None:
    toy = models.entry(name).toy
    for one in numeric(models.entry(name).config):
        for value in values(one):
            bare = value[0] if isinstance(value, list) else value
            said = refused(functools.partial(models.configure, name, **{**toy, **nest({one.name: value})}))
            assert said or (math.isfinite(bare) and ("float" in one.allowed or bare < 10**18)), (
                one.name,
                value,
            )
            assert "\n" not in said


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in models.names()]
)
def test_a_model_is_described_or_refused_whatever_number_a_setting_has(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is allocated: a model that is accepted is traced, one that is too large for memory is refused."""
    entry = models.entry(name)
    schema = data.load(entry.toy_data).schema
    monkeypatch.setattr(machine, "memory", lambda: 2**32)
    for one in numeric(entry.config):
        for value in values(one):
            chosen = {**entry.toy, **nest({one.name: value})}
            refused(functools.partial(eqx.filter_eval_shape, models.build, name, schema, **chosen))


def test_a_model_larger_than_memory_is_refused_before_it_is_built(cli: Command) -> None:
    for words in (["mlp", "data=moons", "width=10000000"], ["gpt", "layers=2", "width=65536", "heads=1"]):
        result = cli("train", *words)
        assert result.code == 2
        assert "of memory\n" in result.err
        assert "its largest setting is width=" in result.err
    assert "at most 16,777,216" in cli("train", "mlp", "data=moons", "width=1000000000").err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["optimizer.lr=inf"], "error: optimizer.lr='inf': input should be a finite number"),
        (["optimizer.lr=nan"], "error: optimizer.lr='nan': input should be a finite number"),
        (["epochs=inf"], "error: epochs='inf': input should be a finite number"),
        (["epochs=1e18"], "steps; 2,147,483,647 can be counted"),
        (["steps=1000000000000000000"], "at most 2,147,483,647"),
        (["groups.head.lr=inf"], "input should be a finite number"),
    ],
)
def test_numbers_without_end_are_refused_on_the_command_line(
    cli: Command, words: list[str], says: str
) -> None:
    result = cli("train", "mlp", "data=moons", *words)
    assert (result.code, says in result.err) == (2, True), result.err


def test_no_setting_of_training_takes_a_number_that_is_not_finite_or_far_too_large() -> None:
    for one in numeric(TrainConfig):
        for value in (math.inf, math.nan, -math.inf, 2**63):
            if "float" in one.allowed and value == 2**63:
                continue
            with pytest.raises(ArgumentError):
                TrainConfig.parse(**nest({one.name: value}))


@pytest.mark.parametrize("kind", [probes, experiments], ids=["probes", "experiments"])
def test_no_setting_of_a_probe_takes_a_number_that_is_not_finite_or_far_too_large(kind: Any) -> None:
    for name in kind.names():
        for one in numeric(kind.get(name).settings):
            for value in (math.inf, math.nan, 2**63):
                listed = [value] if ",..." in one.allowed else value
                if value == 2**63 and "float" in one.allowed:
                    continue
                with pytest.raises(ArgumentError):
                    kind.configure(name, **nest({one.name: listed}))


# Numbers of any size and sign, and layers that are counted from either end: how many there are is known with the run.
ANY = {
    *(
        "approximation interval",
        "backward w1",
        "backward w2",
        "backward x",
        "batch-norm mean",
        "descent start",
    ),
    *("constructions knots", "constructions outline", "constructions slopes", "constructions table"),
    *("constructions value", "convolution kernel", "convolution signal", "softmax logits", "softmax shift"),
    *("states x", "states y", "tensors entries", "slide-test x", "slide-test y"),
    *("conditioner mean", "conditioner covariance", "conditioner observed", "conditioner values"),
    "gaussian-information coefficients",
    *(
        "settings-grid x_values",
        "settings-grid y_values",
    ),  # the algorithm says which of its numbers may be what
    *("dreams layer", "features layers", "saliency cam", "saliency activations", "units layer"),
}


def test_every_number_of_a_probe_has_a_range() -> None:
    found = {
        f"{name} {one.name}"
        for kind in (probes, experiments)
        for name in kind.names()
        for one in numeric(kind.get(name).settings)
        if not any(sign in one.allowed for sign in "<>")
    }
    assert found == ANY


@pytest.mark.parametrize("shares", ["-0.1,2", "2", "0.1,-1", "nan", "inf", ""])
def test_shares_of_an_attack_are_shares(shares: str) -> None:
    given = settings.read(shares, settings.of(probes.get("attack").settings)["shares"].annotation)
    with pytest.raises(ArgumentError, match="shares"):
        probes.configure("attack", shares=given)


def test_no_option_of_sampling_takes_a_number_that_is_not_finite() -> None:
    for name in models.names():
        made = models.entry(name).build
        if not (isinstance(made, type) and issubclass(made, CanSample)):
            continue
        groups = made.sample_options()
        for group in groups:
            for one in numeric(group.schema):
                for value in (math.inf, math.nan):
                    given = {one.name: value, **({group.when[0]: group.when[1]} if group.when else {})}
                    with pytest.raises(ArgumentError):
                        read_options(groups, given)
