"""Every registered model against every promise. A new model folder is picked up as it is."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import pytest

import chainrule as cr
from chainrule.cli.training_request import OWN
from chainrule.data import Batch, Data
from chainrule.models.protocol import (
    CanDecode,
    CanEncode,
    CanPredict,
    CanSample,
    CanSeparate,
    Entry,
    HasBound,
    HasLogProb,
    HasOwnTraining,
    Model,
)
from chainrule.train import Run, TrainConfig, fit
from tests.contracts import checks
from tests.tiers import tiers

LONG = (
    *("alexnet", "convnext", "mobilenet", "vgg", "vit"),  # beside cnn and resnet
    *("control", "distill", "edm", "noisy-classifier", "score", "vdm"),  # beside diffusion
    *("bert", "pair-encoder", "seq2seq", "translator"),  # beside gpt, char-rnn and reader
    "pixel-cnn",  # beside made
    *("faster-rcnn", "deeplab"),  # beside detector and segmenter
    *("identifier", "spoof-detector"),  # beside tests of their own
    *("f-gan", "wgan", "wgan-gp"),  # beside gan and dcgan
)
"""Models whose programs take long to compile even as toys, and whose layers and promises others share."""
TOY_TRAINING: dict[str, Any] = {
    "steps": 40,
    "log_every": 4,
    "eval_every": 20,
    "save_every": 20,
}


@final
@dataclass(frozen=True)
class Subject:
    """A registered model at toy size, fresh, with its toy data."""

    name: str
    entry: Entry
    data: Data
    model: Model
    batch: Batch


@pytest.fixture(scope="module", params=tiers(cr.models.names(), slow=LONG))
def subject(request: pytest.FixtureRequest) -> Subject:
    entry = cr.models.entry(request.param)
    data = cr.data.load(entry.toy_data)
    model = cr.models.build(request.param, data, **entry.toy)
    return Subject(request.param, entry, data, model, checks.examples(data))


@pytest.fixture(scope="module")
def run(subject: Subject, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A short training run, shared by everything that looks at a trained model."""
    path = tmp_path_factory.mktemp("runs") / subject.name
    batch = {} if isinstance(subject.model, HasOwnTraining) else {"batch": min(16, len(subject.data.train))}
    return fit(subject.model, subject.data, run=path, **{**TOY_TRAINING, **batch})


def test_every_model_folder_has_a_card_and_is_registered_by_it() -> None:
    root = Path(cr.models.__file__).parent
    modules = list(root.glob("*/*/__init__.py"))
    folders = {m.parent for m in modules if re.search(r"^entry\b", m.read_text(), flags=re.MULTILINE)}
    assert root / "supervised" / "mlp" in folders
    assert [folder.name for folder in folders if not (folder / "card.md").exists()] == []
    assert {folder.name.replace("_", "-") for folder in folders} == set(cr.models.names())


@pytest.mark.slow  # outside of compilation every operation is a program of its own
def test_the_loss_is_the_same_compiled_or_not(subject: Subject) -> None:
    checks.check_jit(subject.model, subject.batch)


def test_the_order_of_the_examples_does_not_matter(subject: Subject) -> None:
    checks.check_order(subject.model, subject.batch)


def test_the_gradient_is_the_derivative_unless_the_entry_says_otherwise(subject: Subject) -> None:
    checks.check_gradient(subject.model, subject.batch, subject.entry.surrogate_gradient)


def test_what_is_moved_by_rule_is_named_as_state(subject: Subject) -> None:
    checks.check_state(subject.model, subject.batch)


def test_low_precision_gives_nearly_the_same_loss(subject: Subject) -> None:
    checks.check_precision(subject.model, subject.data)


def test_it_learns(subject: Subject, run: Run) -> None:
    checks.check_learns(subject.model, run, subject.batch)


def test_a_saved_model_is_the_trained_one(subject: Subject, run: Run) -> None:
    checks.check_kept(run, Run.open(run.path).model, subject.data)


def test_what_it_can_do_it_does_as_promised(subject: Subject, run: Run) -> None:
    model, batch, schema = run.model, subject.batch, subject.data.schema
    found = 0
    for capabilities, check in (
        (CanPredict, lambda: checks.check_predict(model, batch, schema)),
        (CanSample, lambda: checks.check_sample(model, schema)),
        (CanSample, lambda: checks.check_sample_of_run(run, schema)),
        (HasLogProb, lambda: checks.check_log_prob(model, batch)),
        (HasBound, lambda: checks.check_bound(model, batch)),
        (CanEncode | CanDecode, lambda: checks.check_codes(model, batch)),
        (CanSeparate, lambda: checks.check_separate(model, batch)),
    ):
        if isinstance(model, capabilities):
            check()
            found += 1
    assert found, "it can be trained but is of no use"


def test_new_inputs_are_answered_or_another_verb_is_named(subject: Subject, run: Run) -> None:
    checks.check_new_inputs(run, subject.data)


def test_scores_are_numbers(subject: Subject, run: Run) -> None:
    for name, metric in run.score("val").items():
        assert np.isfinite(metric.value), name


def test_settings(subject: Subject) -> None:
    reserved = [*TrainConfig.model_fields, *OWN]
    checks.check_config(subject.entry.config, subject.entry.toy, reserved)


def test_the_entry(subject: Subject) -> None:
    folder = Path(cr.models.__file__).parent / cr.models.family(subject.name)
    (found,) = [p.name for p in folder.iterdir() if p.name.replace("_", "-") == subject.name]
    checks.check_entry(subject.entry, found, [known.name for known in cr.data.names()])
    assert cr.models.entry_of(subject.model) is subject.entry, "a run could not tell which model it holds"


def test_former_names_are_no_present_ones(subject: Subject) -> None:
    checks.check_former(subject.entry, subject.model)


def test_the_card(subject: Subject) -> None:
    checks.check_card(cr.models.card(subject.name), subject.name)


def test_the_commands_on_the_card(subject: Subject) -> None:
    checks.check_commands(cr.models.card(subject.name), subject.entry)
