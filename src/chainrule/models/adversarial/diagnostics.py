"""How a game goes, from the numbers its players leave: alarms in words, and curves that can be read."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.core.pictures import Lines, Picture
from chainrule.models.adversarial.games import AdversarialGame
from chainrule.models.adversarial.remedies import (
    History,
    Played,
    another_game,
    bounded_layers,
    decisions_about_several,
    helps,
    lower_rate,
    slower_discriminator,
    steep_price,
)
from chainrule.models.protocol import Alarm

PERFECT_STEPS = 500
"""For how long a discriminator that is always right may be so before it is an alarm."""
_PERFECT = 0.995
_FADED = 1e-6
"""Gradients of a generator that say nothing."""
_LINES = 3
"""Lines of training numbers, or evaluations, in a row that make an alarm."""
_HALF = 0.5
_NARROW = 0.1
"""Share of the data's spread below which generated examples are all alike."""
_LARGEST = {True: 100.0, False: 1e5}
"""Scores beyond this diverge: of games in which a score is bounded by its meaning, and of others."""


def _column(history: History, name: str, split: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of one number."""
    if name not in history:
        return np.empty(0, int), np.empty(0)
    chosen = (history["split"] == split) & np.isfinite(history[name])
    return history["step"][chosen], history[name][chosen]


def alarms(game: AdversarialGame, history: History, config: Any) -> list[Alarm]:
    """What has gone wrong by the end of a history, each with what helps a model that has these settings."""
    played = Played(config, history)
    found = [
        _perfect(played) if game.bounded else None,
        _faded(played),
        _collapsed(played),
        _stalled(played),
        _large(game, played),
    ]
    return [alarm for alarm in found if alarm is not None]


def _perfect(played: Played) -> Alarm | None:
    step, real = _column(played.history, "discriminator.real_accuracy")
    _, fake = _column(played.history, "discriminator.fake_accuracy")
    if not len(step) or step[-1] < PERFECT_STEPS:
        return None
    late = step > step[-1] - PERFECT_STEPS
    if min(real[late].min(), fake[late].min()) < _PERFECT:
        return None
    return Alarm(
        "discriminator perfect",
        int(step[-1]),
        f"the discriminator has been right of every example for {PERFECT_STEPS} steps: the generator learns little "
        f"from it. {helps(played, steep_price, slower_discriminator, bounded_layers)}",
    )


def _faded(played: Played) -> Alarm | None:
    step, size = _column(played.history, "generator.grad_norm")
    if len(step) < _LINES or size[-_LINES:].max() >= _FADED:
        return None
    return Alarm(
        "generator without gradient",
        int(step[-1]),
        f"the generator's gradient is {size[-1]:.1e}: it no longer moves. "
        f"{helps(played, another_game, steep_price, slower_discriminator)}",
    )


def _collapsed(played: Played) -> Alarm | None:
    step, narrow = _column(played.history, "generator.spread")
    late = len(narrow) >= _LINES and narrow[-_LINES:].max() < _NARROW
    at, covered = _column(played.history, "coverage", "val")
    bare = _uncovered(played)
    if not (late or (bare and not _astray(played))):
        return None
    what = (
        f"generated examples lie {narrow[-1]:.0%} as far apart as real ones"
        if late
        else f"generated examples have been near fewer than half of the held-out ones in {_LINES} evaluations "
        f"({covered[-1]:.0%} now)"
    )
    return Alarm(
        "collapse",
        int(step[-1] if late else at[-1]),
        f"{what}: modes are missing. "
        f"{helps(played, another_game, decisions_about_several, steep_price, lower_rate)}",
    )


def _uncovered(played: Played) -> bool:
    _, covered = _column(played.history, "coverage", "val")
    return len(covered) >= _LINES and bool(covered[-_LINES:].max() < _HALF)


def _astray(played: Played) -> bool:
    """Whether what is generated lies where no real examples are: little is covered then, and no mode was given up."""
    _, near = _column(played.history, "precision", "val")
    return len(near) > 0 and bool(near[-1] < _HALF)


def _stalled(played: Played) -> Alarm | None:
    """Off the data, and no longer on the way there: the first evaluations of every game look like that otherwise."""
    step, distance = _column(played.history, "loss", "val")
    if not (_uncovered(played) and _astray(played)) or len(distance) <= _LINES:
        return None
    if distance[-_LINES:].min() < distance[:-_LINES].min():
        return None
    _, near = _column(played.history, "precision", "val")
    return Alarm(
        "off the data",
        int(step[-1]),
        f"{near[-1]:.0%} of the generated examples are near a real one, and in {_LINES} evaluations they have come no "
        f"nearer. {helps(played, another_game, steep_price, lower_rate)}",
    )


def _large(game: AdversarialGame, played: Played) -> Alarm | None:
    step, high = _column(played.history, "discriminator.real_high")
    _, low = _column(played.history, "discriminator.fake_low")
    if len(step) < _LINES:
        return None
    largest = _LARGEST[game.bounded]
    if np.maximum(np.abs(high), np.abs(low))[-_LINES:].min() < largest:
        return None
    return Alarm(
        "scores diverging",
        int(step[-1]),
        f"scores have grown beyond {largest:g} ({high[-1]:.3g} for real, {low[-1]:.3g} for generated examples). "
        f"{helps(played, steep_price, bounded_layers, lower_rate)}",
    )


# ---------------------------------------------------------------------- curves


def curves(game: AdversarialGame, history: History, found: Sequence[Alarm]) -> list[Picture]:
    """Scores with their spread, accuracies, distance and coverage, gradients and moves of both players, penalty."""
    marks = [(float(alarm.step), alarm.name) for alarm in found]
    # Where only differences of scores count, pairs are told apart, and there is one share of them.
    shares = {"real": "discriminator.real_accuracy", "generated": "discriminator.fake_accuracy"}
    if game.threshold is None:
        shares = {"pairs": "discriminator.real_accuracy"}
    pictures = [
        _scores(game, history, marks),
        _several(
            history,
            "told-apart",
            "How often examples are told apart",
            "share" if game.threshold is not None else "share of pairs",
            shares,
            caption="A discriminator that is always right, or always undecided at 0.5 with samples that differ, "
            "teaches the generator nothing.",
        ),
        *_beside_real(history, marks),
        _several(
            history,
            "spread",
            "How far apart samples are",
            "beside real examples",
            {"samples": "generator.spread"},
            marks=marks,
            caption="Root mean squared distance of two samples of a batch, beside that of two real examples: 1 where "
            f"both vary as much. Below {_NARROW:g} samples are all alike, which raises an alarm.",
        ),
        _several(
            history,
            "gradients",
            "Gradients and moves of both players",
            "norm",
            {
                "discriminator, gradient": "discriminator.grad_norm",
                "generator, gradient": "generator.grad_norm",
                "discriminator, move": "discriminator.update_norm",
                "generator, move": "generator.update_norm",
            },
            log=True,
        ),
        _several(
            history,
            "game",
            "What the players minimise",
            "loss",
            {
                "discriminator": "discriminator.game_loss",
                "penalty": "discriminator.penalty",
                "generator": "generator.loss",
            },
            caption="These are moves in a game, not progress: both may stand still while samples improve, or fall "
            "while they get worse.",
        ),
        _bound(game, history),
        *_of_critic(game, history),
    ]
    return [picture for picture in pictures if picture is not None]


def _beside_real(history: History, marks: Sequence[tuple[float, str]]) -> list[Lines | None]:
    """How samples lie to held-out examples, and how far these are from each other."""
    return [
        _several(
            history,
            "distance",
            "How far samples are from held-out examples",
            "kernel distance",
            {"samples": "loss", "real examples": "distance_of_real"},
            split="val",
            marks=marks,
            caption="The number a game is judged by, and the same for one half of the held-out examples beside the "
            "other: what chance leaves, at times below zero." + (" Marks are alarms." if marks else ""),
        ),
        _several(
            history,
            "coverage",
            "Held-out examples beside generated ones",
            "share",
            {"coverage": "coverage", "precision": "precision"},
            split="val",
            marks=marks,
            caption="Coverage: share of held-out examples with a generated one near. Precision: share of generated "
            "ones near a held-out one. Near means nearer than all but a twentieth of the real examples. Coverage below "
            "one half in three evaluations raises an alarm where precision is above it, or the distance falls no more.",
        ),
    ]


def _bound(game: AdversarialGame, history: History) -> Lines | None:
    """What the critic of an f-divergence says it is at least, on batches it has not learned from yet."""
    step, loss = _column(history, "discriminator.game_loss")
    if game.bounds is None or not len(step):
        return None
    one = game.bounds
    ends = step[[0, -1]].astype(float)
    remark = f" {one.remark}" if one.remark else ""
    return Lines(
        "bound",
        f"Lower bound of {one.name}",
        "step",
        "divergence",
        {"by the critic": (step.astype(float), -loss), "equal laws": (ends, np.full(2, one.at_one))},
        caption="Of the data from samples, on fresh batches: as tight as the critic is good, and below what equal laws "
        f"have where it is wrong. A bound that falls means samples that are nearer, or a critic that is worse.{remark}",
    )


def _of_critic(game: AdversarialGame, history: History) -> list[Lines | None]:
    """What only critics have: a gap that stands for a distance, and perhaps weights that are clipped."""
    if game.threshold is not None or game.paired:
        return []
    return [
        _several(
            history,
            "gap",
            "Gap between mean scores, not calibrated",
            "score",
            {"real less generated": "discriminator.gap"},
            caption="A Wasserstein distance times the steepest slope of the critic, at best: clipping leaves that "
            "slope unknown, a penalty only asks for 1.",
        ),
        _several(
            history,
            "clipped",
            "Parameters of the critic at the ends of the box",
            "share",
            {"at the ends": "discriminator.clipped_share"},
        ),
        _several(
            history,
            "slope-lengths",
            "Slopes of the critic between real and generated examples",
            "length",
            {"mean": "discriminator.slope_mean", "largest": "discriminator.slope_largest"},
            caption="Of pairs drawn at random. The penalty pulls them to 1; theory has them there only between "
            "examples that an optimal transport couples.",
        ),
    ]


def _scores(game: AdversarialGame, history: History, marks: Sequence[tuple[float, str]]) -> Lines | None:
    series = {}
    for label, name in (("real", "real"), ("generated", "fake")):
        columns = [_column(history, f"discriminator.{name}_{mark}") for mark in ("middle", "low", "high")]
        if not len(columns[0][0]):
            return None
        values = [1 / (1 + np.exp(-np.clip(y, -60, 60))) if game.probability else y for _, y in columns]
        series[label] = (columns[0][0].astype(float), *values)
    return Lines(
        "scores",
        "Scores of real and generated examples",
        "step",
        "D(x)" if game.probability else "score",
        series,
        marks=marks,
        caption="Medians, and bands from the 10th to the 90th percentile of a batch. "
        + (
            "Where the generator has won, both lie at half of real_target: 0.5 unless labels are smoothed."
            if game.probability
            else _undecided_at(game)
        )
        + (" Marks are alarms." if marks else ""),
    )


def _undecided_at(game: AdversarialGame) -> str:
    if game.threshold is None:
        return ""
    at = f"{game.threshold:.3g}" + (" times real_target" if game.can_smooth else "")
    return f"Where both are equally likely, the best score is {at}."


def _several(
    history: History,
    name: str,
    title: str,
    unit: str,
    names: Mapping[str, str],
    *,
    split: str = "train",
    log: bool = False,
    marks: Sequence[tuple[float, str]] = (),
    caption: str = "",
) -> Lines | None:
    found = {label: _column(history, column, split) for label, column in names.items()}
    series = {
        label: (step.astype(float), value)
        for label, (step, value) in found.items()
        if len(step) and value.any() and not (log and (value <= 0).any())
    }
    if not series:
        return None
    return Lines(name, title, "step", unit, series, log_y=log, marks=marks, caption=caption)


__all__ = ["alarms", "curves"]
