"""Every check accepts a sound toy and refuses the same toy with one flaw, for the right reason."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import final

import jax.numpy as jnp
import pytest
from pydantic import BaseModel, Field, field_validator

from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.models.protocol import Model
from chainrule.train import Run, fit
from tests.contracts import checks
from tests.contracts.toys import CARD, ENTRY, Toy, ToyConfig, TwoParts, Vector, points

DATA = points()
BATCH = checks.examples(DATA)
SCHEMA = DATA.schema

CHECKS: dict[str, Callable[[Model], None]] = {
    "jit": lambda model: checks.check_jit(model, BATCH),
    "order": lambda model: checks.check_order(model, BATCH),
    "gradient": lambda model: checks.check_gradient(model, BATCH),
    "state": lambda model: checks.check_state(model, BATCH),
    "precision": lambda model: checks.check_precision(model, DATA),
    "predict": lambda model: checks.check_predict(model, BATCH, SCHEMA),
    "sample": lambda model: checks.check_sample(model, SCHEMA),
    "log_prob": lambda model: checks.check_log_prob(model, BATCH),
    "bound": lambda model: checks.check_bound(model, BATCH),
    "codes": lambda model: checks.check_codes(model, BATCH),
}


@pytest.mark.parametrize("check", CHECKS)
def test_a_sound_model_is_accepted(check: str) -> None:
    CHECKS[check](Toy())


def test_noise_does_not_offend_the_order_of_the_examples() -> None:
    CHECKS["order"](Toy("noise"))


@pytest.mark.parametrize(
    ("check", "flaw", "complaint"),
    [
        ("jit", "jit", "loss changes under jit"),
        ("order", "order", "the order of the examples changes the loss"),
        ("order", "order under noise", "the order of the examples changes the loss"),
        ("gradient", "gradient", "is off by"),
        ("gradient", "no gradient", "does not depend on anything it owns"),
        ("gradient", "single precision", "falls back to float32"),
        ("state", "unnamed state", "seen is moved by rule but not named as state"),
        ("state", "type of state", "seen changes its shape or type"),
        ("precision", "low precision", "in bfloat16"),
        ("precision", "nan gradient", "a gradient of model is not finite"),
        ("predict", "logits", "probabilities are negative"),
        ("predict", "sum", "probabilities do not sum to one"),
        ("predict", "shape of prediction", r"predictions have shape \(8, 1\)"),
        ("predict", "neighbours in prediction", "depends on the examples beside it"),
        ("sample", "shape of sample", "samples have shape"),
        ("sample", "nan sample", "samples are not finite"),
        ("sample", "one sample", "another key gives the same samples"),
        ("sample", "random sample", "the same key gives other samples"),
        ("log_prob", "shape of density", r"log-densities have shape \(8, 1\)"),
        ("log_prob", "nan density", "the log-density is not finite"),
        ("log_prob", "neighbours in density", "depends on the examples beside it"),
        ("bound", "shape of bound", "bounds have shape"),
        ("bound", "bound above", "the bound lies above the log-density"),
        ("codes", "shape of code", "the code of 8 examples has shape"),
        ("codes", "neighbours in code", "the code of an example depends on"),
        ("codes", "shape of decoded", "decoded examples have shape"),
    ],
)
def test_a_flaw_is_found(check: str, flaw: str, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        CHECKS[check](Toy(flaw))


def test_a_surrogate_gradient_needs_to_be_said_and_to_be_true() -> None:
    checks.check_gradient(Toy("gradient"), BATCH, surrogate="a tenth more than the derivative")
    with pytest.raises(AssertionError, match="the gradient is the derivative after all"):
        checks.check_gradient(Toy(), BATCH, surrogate="a tenth more than the derivative")
    with pytest.raises(AssertionError, match="does not depend on anything it owns"):
        checks.check_gradient(Toy("no gradient"), BATCH, surrogate="none at all")


def test_a_loss_that_is_no_scalar_is_found() -> None:
    with pytest.raises(AssertionError, match=r"the loss has shape \(8,\), not that of a scalar"):
        checks.check_jit(Vector(jnp.ones(2)), BATCH)


# ---------------------------------------------------------------------- learning and keeping


def short(model: Model, path: Path, lr: float = 0.05) -> Run:
    settings = {"steps": 100, "batch": 16, "log_every": 5, "eval_every": 50, "save_every": 50}
    return fit(model, DATA, run=path / "run", optimizer={"name": "sgd", "lr": lr}, **settings)


def test_a_sound_model_learns_and_is_kept(tmp_path: Path) -> None:
    run = short(Toy(), tmp_path)
    checks.check_learns(Toy(), run, BATCH)
    checks.check_sample_of_run(run, SCHEMA)
    checks.check_kept(run, Run.open(run.path, model=Toy(), data=DATA).model, DATA)


def test_a_model_that_unlearns_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the loss rose"):
        checks.check_learns(Toy(), short(Toy("ascent"), tmp_path, lr=1e-3), BATCH)


def test_a_model_with_values_outside_its_arrays_is_found(tmp_path: Path) -> None:
    run = short(Toy("forgets"), tmp_path)
    with pytest.raises(AssertionError, match=r"trained: .*, opened: "):
        checks.check_kept(run, Run.open(run.path, model=Toy("forgets"), data=DATA).model, DATA)


@pytest.mark.parametrize("idle", [False, True])
def test_a_part_that_never_moves_is_found(idle: bool, tmp_path: Path) -> None:
    model = TwoParts(jnp.ones(()), jnp.ones(()), idle)
    run = short(model, tmp_path)
    if not idle:
        checks.check_learns(model, run, BATCH)
        checks.check_gradient(model, BATCH)
        return
    with pytest.raises(AssertionError, match="runner did not move in 100 steps"):
        checks.check_learns(model, run, BATCH)
    with pytest.raises(AssertionError, match="the loss of runner does not depend on anything it owns"):
        checks.check_gradient(model, BATCH)


# ---------------------------------------------------------------------- settings, entry, card


@final
class Wordless(BaseModel):
    width: int = 3


@final
class Forgetful(BaseModel):
    width: int = Field(3, description="units; grows every time it is read")

    @field_validator("width")
    @classmethod
    def _grow(cls, width: int) -> int:
        return width + 1


@final
class Clashing(BaseModel):
    steps: int = Field(3, description="steps of something else")


@final
class Nested(BaseModel):
    inner: Wordless = Field(default_factory=Wordless, description="settings below")


def test_sound_settings_are_accepted() -> None:
    checks.check_config(ToyConfig, {"width": 2}, ["steps"])


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (Wordless, "setting 'width' has no description"),
        (Nested, "setting 'width' has no description"),
        (Forgetful, "settings change on the way"),
        (Clashing, "setting 'steps' is a word of `chainrule train` already"),
    ],
)
def test_flawed_settings_are_found(schema: type[BaseModel], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        checks.check_config(schema, {}, ["steps"])


def test_a_sound_entry_is_accepted() -> None:
    checks.check_entry(ENTRY, "toy_model", ["moons"])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"name": "other"}, "the entry is called 'other', its folder 'toy_model'"),
        ({"summary": "no full stop"}, "the summary is not a sentence"),
        ({"citation": ""}, "there is no citation"),
        ({"toy_data": "moon"}, "there are no data called 'moon'"),
    ],
)
def test_a_flawed_entry_is_found(change: dict, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        checks.check_entry(replace(ENTRY, **change), "toy_model", ["moons"])


def test_an_entry_with_unknown_training_settings_is_found() -> None:
    with pytest.raises(ArgumentError, match="unknown setting 'lr'"):
        checks.check_entry(replace(ENTRY, training={"lr": 0.1}), "toy_model", ["moons"])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"former_settings": {"width": "depth"}}, "'width' is the name of a setting today"),
        ({"former_settings": {"units": "wdith"}}, "'units' became 'wdith', which is no setting"),
        (
            {"former_arrays": {"head": "top"}},
            "'model.head.weight' of today would be read as 'model.top.weight'",
        ),
        ({"former_arrays": {"mu": "mean"}}, "would be read as 'optimizers.model.*.mean"),
    ],
)
def test_a_former_name_that_is_in_use_is_found(change: dict, complaint: str) -> None:
    entry = models.entry("mlp")
    model = models.build("mlp", points(), **entry.toy)
    checks.check_former(entry, model)
    with pytest.raises(AssertionError, match=complaint):
        checks.check_former(replace(entry, **change), model)


def test_a_sound_card_is_accepted() -> None:
    checks.check_card(CARD, "toy-model")
    checks.check_commands(CARD, ENTRY)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("# toy-model: ", "# another: ", "does not start with '# toy-model: '"),
        ("## Limits\nMany.\n\n", "", "the headings of the card are"),
        ("## Results", "## Outcome", "the headings of the card are"),
        ("## What it is\nA toy.\n", "## What it is\n", "nothing under 'What it is'"),
        ("train toy-model", "train mlp", "no command trains it"),
        ("chainrule sample", "chainrule smaple", "there is no verb 'smaple'"),
        ("chainrule sample", "rm -rf", "'rm' is not a command of this project"),
    ],
)
def test_a_flawed_card_is_found(old: str, new: str, complaint: str) -> None:
    assert old in CARD
    with pytest.raises(AssertionError, match=re.escape(complaint)):  # noqa: PT012  # one of the two complains
        checks.check_card(CARD.replace(old, new), "toy-model")
        checks.check_commands(CARD.replace(old, new), ENTRY)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("width=4 opt", "widht=4 opt", "unknown setting 'widht'"),
        ("optimizer.lr=1e-2", "lr=1e-2", "unknown setting 'lr'"),
        ("optimizer.lr=1e-2", "optimizer.lr=fast", "optimizer.lr='fast'"),
        ("`width=4`", "`depth=4`", "unknown setting 'depth'"),
        ("import chainrule as cr", "import chainrule has cr", "invalid syntax"),
    ],
)
def test_a_card_with_commands_that_do_not_work_is_found(old: str, new: str, complaint: str) -> None:
    assert old in CARD
    with pytest.raises((ArgumentError, SyntaxError), match=re.escape(complaint)):
        checks.check_commands(CARD.replace(old, new), ENTRY)
