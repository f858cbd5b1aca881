"""The stability watch: every alarm on a history that deserves it, none on a healthy one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chainrule.agents.evaluation.watch import Facts, alarms, watch

FACTS = Facts(
    actions=2,
    gamma=0.99,
    rewards=(0.0, 1.0),
    rewards_known=True,
    random_return=22.0,
    random_error=1.0,
    solved=475.0,
    batch=128,
    buffer=10_000,
    learning_start=10_000,
    steps=100_000,
)
LINES, JUDGED = 100, 10


def history(**changed: Any) -> dict[str, np.ndarray]:
    """A run of 100,000 steps that learns, with some columns replaced: `name` on the way, `val_name` of evaluations."""
    share = np.arange(1, LINES + 1) / LINES
    train = {
        "return_mean": 22 + 400 * share,
        "entropy": 0.69 * (1 - 0.8 * share),
        "kl": 0.01 + 0 * share,
        "explained_variance": share - 0.1,
        "q_max": 60 * share,
        "buffer_fill": np.minimum(1, 10 * share),
        "loss": 1 / share,
    }
    judged = {"return_mean": 22 + 400 * share[9::10], "action_share": np.full(JUDGED, 0.6)}
    train |= {name: np.asarray(v, float) for name, v in changed.items() if not name.startswith("val_")}
    judged |= {name[4:]: np.asarray(v, float) for name, v in changed.items() if name.startswith("val_")}
    none = {name: np.full(LINES, np.nan) for name in train | judged}
    few = {name: np.full(JUDGED, np.nan) for name in train | judged}
    columns = {n: np.concatenate([(none | train)[n], (few | judged)[n]]) for n in train | judged}
    steps = np.concatenate([1000 * np.arange(1, LINES + 1), 10_000 * np.arange(1, JUDGED + 1)])
    split = np.array(["train"] * LINES + ["val"] * JUDGED)
    order = np.argsort(steps, kind="stable")
    return {"step": steps[order], "split": split[order], **{n: c[order] for n, c in columns.items()}}


LINE = np.arange(LINES)
FLAT = {"return_mean": np.full(LINES, 30.0), "val_return_mean": np.full(JUDGED, 30.0)}
UNHEALTHY: dict[str, tuple[dict[str, Any], Facts, int, str]] = {
    "entropy collapsed": (
        {**FLAT, "entropy": np.where(LINE < 30, 0.6, 0.001)},
        FACTS,
        31_000,
        "entropy bonus",
    ),
    "KL spike": ({"kl": np.where(LINE == 41, 0.4, 0.01)}, FACTS, 42_000, "target_kl"),
    "critic worse than a constant": (
        {"explained_variance": np.where(LINE < 50, 0.4, -0.2)},
        FACTS,
        53_000,  # the median of five lines
        "value loss",
    ),
    "values too high": ({"q_max": 2.9 * LINE}, FACTS, 38_000, "double targets"),
    "values cut off": (
        {"q_max": np.where(LINE < 20, 0.1 * LINE, 9.9), "q_mean": np.full(LINES, 2.0)},
        replace(FACTS, sayable=(-10.0, 10.0)),
        25_000,
        "lowest and highest",
    ),
    "buffer too young": (
        {},
        Facts(batch=128, buffer=10_000, learning_start=500),
        1_000,
        "learning_start and buffer to 1,280",
    ),
    "no better than random": (
        {"return_mean": np.full(LINES, 22.0), "val_return_mean": np.full(JUDGED, 22.0)},
        FACTS,
        40_000,  # the third evaluation after a fifth of the run
        "another algorithm",
    ),
    "one action only": ({"val_action_share": np.ones(JUDGED)}, FACTS, 40_000, "entropy bonus"),
    "all actions equal": ({"entropy": np.full(LINES, np.log(2))}, FACTS, 29_000, "learning rate"),
    "not finite": ({"loss": np.where(LINE < 60, 1.0, np.nan)}, FACTS, 61_000, "checkpoint"),
}


def test_a_healthy_run_raises_no_alarm() -> None:
    assert alarms(history(), FACTS) == []
    assert watch(history()) == []


@pytest.mark.parametrize("name", UNHEALTHY)
def test_what_goes_wrong_is_named_with_its_step_and_a_remedy(name: str) -> None:
    changed, facts, step, remedy = UNHEALTHY[name]
    found = alarms(history(**changed), facts)
    assert [alarm.name for alarm in found] == [name]
    assert found[0].step == step
    assert f"{step:,}" in found[0].text or name == "buffer too young"
    assert remedy in found[0].text


@pytest.mark.parametrize("name", UNHEALTHY)
def test_an_alarm_says_the_same_however_long_the_run_goes_on(name: str) -> None:
    changed, facts, _, _ = UNHEALTHY[name]
    whole = history(**changed)
    texts = set()
    for end in range(1, len(whole["step"]) + 1):
        texts |= set(watch({column: values[:end] for column, values in whole.items()}, facts))
    assert len(texts) == 1


def test_a_policy_that_is_sure_and_still_gets_better_is_left_alone() -> None:
    assert alarms(history(entropy=np.where(LINE < 10, 0.6, 0.001)), FACTS) == []


def test_a_solved_problem_is_left_alone() -> None:
    solved = {"return_mean": np.full(LINES, 500.0), "val_return_mean": np.full(JUDGED, 500.0)}
    changed = {**solved, "entropy": np.where(LINE < 10, 0.6, 0.001), "val_action_share": np.ones(JUDGED)}
    changed["explained_variance"] = np.full(LINES, -0.2)  # of returns that are all alike
    assert alarms(history(**changed), FACTS) == []


def test_values_at_the_lower_end_are_cut_off_too() -> None:
    low = {"q_max": np.full(LINES, -9.0), "q_mean": np.full(LINES, -9.8)}
    (found,) = alarms(history(**low), Facts(sayable=(-10.0, 10.0)))
    assert found.name == "values cut off"
    assert alarms(history(**low), Facts(sayable=(-20.0, 10.0))) == []


def test_rewards_that_the_run_has_met_raise_the_bound_of_values() -> None:
    seen = replace(FACTS, rewards_known=False)
    assert alarms(history(q_max=3.0 * LINE, reward_max=np.full(LINES, 5.0)), seen) == []
    assert alarms(history(q_max=3.0 * LINE), seen) == []  # there may be rewards that nobody has seen
    (found,) = alarms(history(q_max=3.0 * LINE, reward_max=np.full(LINES, 1.0)), seen)
    assert found.name == "values too high"


def test_where_every_reward_is_negative_nothing_is_worth_more_than_the_end() -> None:
    facts = Facts(gamma=0.99, rewards=(-1.0, -1.0), rewards_known=True)
    assert alarms(history(q_max=np.full(LINES, 4.0)), facts) == []
    assert [a.name for a in alarms(history(q_max=np.full(LINES, 6.0)), facts)] == ["values too high"]


def test_lines_without_a_finished_episode_are_no_alarm() -> None:
    assert alarms(history(return_mean=np.where(LINE < 50, np.nan, 300.0)), FACTS) == []
    assert alarms(history(return_mean=np.where(LINE > 50, np.nan, 300.0)), FACTS) == []


@pytest.mark.parametrize(
    "name", ["game_length", "first_share", "draw_share", "truncated_share", "resign_wrong"]
)
def test_lines_without_a_finished_game_are_no_alarm(name: str) -> None:
    assert alarms(history(**{name: np.where(LINE > 50, np.nan, 0.5)}), FACTS) == []


def test_the_first_array_that_is_not_finite_is_named() -> None:
    state = {"actor": {"weight": np.ones(2)}, "critic": {"bias": np.array([1.0, np.nan])}}
    (text,) = watch(history(loss=np.where(LINE < 60, 1.0, np.nan)), FACTS, state)
    assert "loss is not finite from step 61,000 on; first array: critic.bias" in text
    (text,) = watch(history(), FACTS, state)
    assert "not finite at step 100,000; first array: critic.bias" in text


def test_without_facts_only_what_history_alone_shows_is_said() -> None:
    assert watch(history(q_max=1e6 * LINE, val_return_mean=np.full(JUDGED, 22.0))) == []


def test_an_empty_history_is_silent() -> None:
    assert watch({"step": np.zeros(0, int), "split": np.zeros(0, str)}, FACTS) == []


def test_returns_of_other_rewards_than_those_that_are_earned_say_nothing_about_progress() -> None:
    steps = np.repeat(np.arange(1, 13) * 1000, 2)
    split = np.array(["train", "val"] * 12)
    train = split == "train"
    history = {
        "step": steps,
        "split": split,
        "entropy": np.where(train, np.where(steps <= 4000, 1.4, 0.01), np.nan),
        "return_mean": np.where(train, -8.0, -300 + steps / 100),
    }
    assert [one.name for one in alarms(history, Facts())] == ["entropy collapsed"]
    assert not alarms(history, Facts(earned=False))


def test_what_is_done_before_learning_starts_is_no_alarm() -> None:
    steps = np.arange(1, 6) * 4000
    history = {
        "step": steps,
        "split": np.full(5, "val"),
        "action_share": np.array([1.0, 1.0, 1.0, 1.0, 0.6]),
        "return_mean": np.array([9.0, 9.0, 9.0, 9.0, 60.0]),
    }
    facts = Facts(steps=20_000, random_return=20.0, learning_start=10_000)
    assert not alarms(history, facts)
    names = {one.name for one in alarms(history, replace(facts, learning_start=0))}
    assert names == {"no better than random", "one action only"}
