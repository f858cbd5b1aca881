"""Training settings: one sentence for every mistake, with the right name where there is one."""

import math
from typing import Any

import pydantic
import pytest

from chainrule import data, models
from chainrule.core.errors import ArgumentError
from chainrule.models.protocol import HasOwnTraining
from chainrule.train.config import Optimizer, TrainConfig
from chainrule.train.loop import merge, settled
from chainrule.train.optimizers import check_parts, for_part


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epoch": 3}, "unknown setting 'epoch' (did you mean 'epochs'?)"),
        ({"lr": 0.1}, "unknown setting 'lr' (did you mean 'optimizer.lr'?)"),
        (
            {"patience": 3},
            "unknown setting 'patience' (did you mean 'schedule.patience' or 'stopping.patience'?)",
        ),
        ({"optimizer": {"beta": 1}}, "unknown setting 'optimizer.beta' (did you mean 'optimizer.betas'?)"),
        ({"optimizer.lr": 1}, "unknown setting 'optimizer.lr' (in Python: optimizer={'lr': ...})"),
        ({"zzzz": 1}, "unknown setting 'zzzz'"),
        ({"steps": 0}, "steps=0: input should be greater than or equal to 1"),
        ({"steps": "many"}, "steps='many': input should be a valid integer"),
        ({"batch": 2.5}, "batch=2.5: input should be a valid integer"),
        ({"ema": 1.0}, "ema=1.0: input should be less than 1"),
        (
            {"precision": "float61"},
            "precision='float61': input should be 'float32', 'bfloat16' or 'float16' (did you mean",
        ),
        ({"optimizer": {"betas": (0.9, 1.0)}}, "optimizer.betas.1=1.0: input should be less than 1"),
        ({"schedule": {"name": "cosin"}}, "(did you mean 'cosine'?)"),
        ({"schedule": {"floor": 2.0}}, "schedule.floor=2.0: input should be less than or equal to 1"),
        ({"optimizer": {"lr": math.nan}}, "optimizer.lr=nan"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(settings: dict, sentence: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        TrainConfig.parse(**settings)
    assert sentence in raised.value.message
    assert "\n" not in raised.value.message
    assert raised.value.remedy


def test_a_mistake_in_the_settings_of_a_model_is_told_the_same_way() -> None:
    with pytest.raises(ArgumentError, match=r"unknown setting 'widht' \(did you mean 'width'\?\)"):
        models.configure("mlp", widht=3)
    with pytest.raises(
        ArgumentError, match=r"activation='rleu': input should be .* \(did you mean 'relu'\?\)"
    ):
        models.configure("mlp", activation="rleu")


def test_settings_survive_the_way_through_plain_values() -> None:
    config = TrainConfig.parse(epochs=1.5, optimizer={"betas": (0.8, 0.9)}, parts={"critic": {"lr": 1e-4}})
    assert TrainConfig.parse(**config.model_dump()) == config
    assert TrainConfig.model_validate_json(config.model_dump_json()) == config


def test_every_setting_says_what_it_is() -> None:
    def check(schema: type[pydantic.BaseModel]) -> None:
        for name, field in schema.model_fields.items():
            kind = field.annotation
            if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
                check(kind)
            else:
                assert field.description, name

    check(TrainConfig)


def test_steps_and_epochs_give_the_length_of_the_run() -> None:
    assert TrainConfig.parse(steps=7).total_steps(steps_per_epoch=10) == 7
    assert TrainConfig.parse(epochs=2.5).total_steps(steps_per_epoch=10) == 25
    assert TrainConfig.parse(epochs=0.001).total_steps(steps_per_epoch=10) == 1
    # Without either: 2,000 steps or five epochs, whichever is longer.
    assert TrainConfig.parse().total_steps(steps_per_epoch=10) == 2000
    assert TrainConfig.parse().total_steps(steps_per_epoch=1000) == 5000


def test_steps_and_epochs_together_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"steps=5 and epochs=2.0: give one of the two"):
        TrainConfig.parse(steps=5, epochs=2).total_steps(10)


def test_given_steps_replace_default_epochs_and_the_other_way_round() -> None:
    assert merge({"epochs": 3}, {"steps": 5}) == {"steps": 5}
    assert merge({"steps": 3}, {"epochs": 5}) == {"epochs": 5}
    assert merge({"steps": 3}, {"batch": 5}) == {"steps": 3, "batch": 5}
    assert merge({"optimizer": {"name": "sgd", "lr": 1}}, {"optimizer": {"lr": 2}}) == {
        "optimizer": {"name": "sgd", "lr": 2}
    }


def test_what_nobody_asked_for_gives_way_to_few_examples() -> None:
    own = {"batch": 128, "schedule": {"warmup": 100}}
    config, steps = settled(own, {"epochs": 10}, examples=20)
    assert (config.batch, config.schedule.warmup, steps) == (20, 1, 10)
    config, _ = settled(own, {"epochs": 10, "batch": 5, "schedule": {"warmup": 7}}, examples=20)
    assert (config.batch, config.schedule.warmup) == (5, 7)
    with pytest.raises(ArgumentError, match="batch=21: a batch must hold between 1 and 20 examples"):
        settled(own, {"batch": 21}, examples=20)


@pytest.mark.parametrize(
    ("given", "examples", "log_every", "eval_every"),
    [
        ({"steps": 5000}, 640, 50, 200),  # a long run keeps the general pace
        ({"steps": 125}, 640, 2, 12),
        ({"steps": 20}, 640, 1, 10),
        ({"steps": 125, "eval_every": 7, "log_every": 3}, 640, 3, 7),
        ({"epochs": 50}, 640, 10, 10),  # an epoch is 10 steps
        ({"epochs": 20}, 6400, 40, 100),
        ({"epochs": 2}, 6400, 4, 20),  # fifths of an epoch
        ({"epochs": 30}, 192, 1, 12),  # four epochs of three steps
        ({"epochs": 1000}, 640, 50, 100),
    ],
)
def test_short_runs_are_logged_and_evaluated_often_enough_for_curves(
    given: dict[str, Any], examples: int, log_every: int, eval_every: int
) -> None:
    config, _ = settled({}, given, examples)
    assert (config.log_every, config.eval_every) == (log_every, eval_every)


def test_epochs_that_suit_a_model_become_enough_steps_for_a_handful_of_examples() -> None:
    assert settled({"epochs": 15}, {}, 36)[1] == 300
    assert settled({"epochs": 15}, {}, 6400)[1] == 1500
    assert settled({"epochs": 15}, {"epochs": 2}, 36)[1] == 2
    assert settled({"epochs": 15}, {"steps": 20}, 36)[1] == 20
    assert settled({"steps": 200}, {}, 36)[1] == 200


def test_a_part_has_the_general_settings_with_its_own_on_top() -> None:
    general = Optimizer(name="adam", lr=1e-3, clip=1.0)
    own = for_part(general, {"critic": {"lr": 1e-4}}, "critic")
    assert (own.name, own.lr, own.clip) == ("adam", 1e-4, 1.0)
    assert for_part(general, {"critic": {"lr": 1e-4}}, "maker") == general


def test_mistakes_in_the_settings_of_a_part_are_refused() -> None:
    with pytest.raises(
        ArgumentError, match=r"unknown setting 'parts.critic.lrr' \(did you mean 'parts.critic.lr'"
    ):
        for_part(Optimizer(), {"critic": {"lrr": 1}}, "critic")
    with pytest.raises(ArgumentError, match=r"parts.citric: this model has no such part") as raised:
        check_parts({"citric": {}}, ["critic", "maker"])
    assert "critic, maker" in raised.value.remedy


def test_a_method_that_is_given_no_rate_and_decay_has_its_usual_ones() -> None:
    usual = {name: (Optimizer(name=name).lr, Optimizer(name=name).decay) for name in ("adamw", "adam", "sgd")}
    assert usual == {"adamw": (3e-4, 0.01), "adam": (1e-3, 0.0), "sgd": (1e-3, 0.0)}
    torch = Optimizer(parity="torch")
    assert (torch.name, torch.lr, torch.decay) == ("adamw", 1e-3, 0.01)
    stored = Optimizer(
        **{**Optimizer().model_dump(), "lr": 1e-3, "decay": 0.0}
    )  # of a run of an earlier version
    assert (stored.lr, stored.decay) == (1e-3, 0.0)
    assert "lr" not in TrainConfig.parse(optimizer={"clip": 1.0}).model_dump(exclude_unset=True)["optimizer"]


@pytest.mark.parametrize("name", models.names())
def test_registered_models_that_learn_by_gradients_say_their_rate_and_decay_themselves(name: str) -> None:
    entry = models.entry(name)
    given = entry.training.get("optimizer", {})
    if not given:  # only an algorithm of its own needs neither
        assert isinstance(models.build(name, data.load(entry.toy_data), **entry.toy), HasOwnTraining)
        return
    assert "lr" in given
    assert "decay" in given or given["name"] != "adamw"
