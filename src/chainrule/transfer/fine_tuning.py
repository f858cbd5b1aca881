"""Fine-tuning in two stages: a fresh head learns alone first, then everything at a tenth of its rate.

What a head that begins at random sends back in its first steps would undo in the layers below what they have learnt.
So it learns alone until it is a good linear classifier of the features as they are, on features that are computed once
(`train_head`), and small steps of all layers follow. That suits features that are good already, such as those of
published weights; where they are not, all layers at once learn sooner.

Reference: Kumar, Raghunathan, Jones, Ma and Liang, Fine-tuning can distort pretrained features and underperform
out-of-distribution, 2022, arXiv:2202.10054.
"""

from pathlib import Path
from typing import Any

from chainrule import models
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.splits import Rows
from chainrule.models.protocol import Entry, Model
from chainrule.models.starting import replaced_head
from chainrule.train import Run, TrainConfig, events, fit
from chainrule.train.loop import merge, settled
from chainrule.transfer.heads import has_last_layer, last_layer, train_head

SLOWER = 0.1
"""The rate of all layers in the second stage, as a share of that of the head in the first."""
STEPS = 1000
"""Of the first stage: a linear model of kept features takes seconds, however long a step of all layers takes."""
_OTHERWISE = (
    "freeze",
    "lora",
    "unfreeze",
    "layer_decay",
    "anchor",
    "groups",
    "parts",
    "distill",
    "adversary",
)
"""Settings that say already what learns, and how fast."""


def usual_steps(model: Model, data: Data, settings: dict[str, Any]) -> int:
    """Steps of the first stage unless they are given; 0 where everything learns at once.

    That is so where settings say what learns, and for models and data whose head cannot learn alone.
    """
    if _said(settings) or data.other is not None or not _alone(model, data):
        return 0
    return STEPS


def check(model: Model, data: Data, settings: dict[str, Any]) -> None:
    """Raise where a first stage was asked for and there can be none."""
    if said := _said(settings):
        raise ArgumentError(
            f"head_first: {said[0]} says already what learns", remedy=f"leave one of the two out: {said[0]}"
        )
    last_layer(model)
    if data.other is not None or not _alone(model, data):
        raise ArgumentError(
            f"head_first: the head of {models.title(model)} cannot learn from {data.name} alone",
            remedy="let all layers learn at once: head_first=0",
        )


def _said(settings: dict[str, Any]) -> list[str]:
    """Those settings that say what learns; a recipe names all of them, most with their usual values."""
    given, usual = TrainConfig.parse(**settings), TrainConfig.parse()
    return [name for name in _OTHERWISE if getattr(given, name) != getattr(usual, name)]


def slowed(settings: dict[str, Any], entry: Entry, data: Data) -> dict[str, Any]:
    """Settings of the second stage: a tenth of the usual rate, unless a rate is given."""
    if "lr" in settings.get("optimizer", {}):
        return settings
    return merge(settings, {"optimizer": {"lr": SLOWER * _usual_rate(entry, data)}})


def _usual_rate(entry: Entry, data: Data) -> float:
    return TrainConfig.parse(**entry.training_for(data.schema)).optimizer.lr


def head_alone(model: Model, entry: Entry, data: Data, config: TrainConfig, steps: int) -> Model:
    """The model after the first stage, at the usual rate; everything else is as `config` has it for the second."""
    own = config.optimizer.model_dump()
    return train_head(
        model,
        data,
        steps=steps,
        seed=config.seed,
        batch=min(config.batch, len(data.train)),
        balanced=config.balanced,
        optimizer={**own, "lr": _usual_rate(entry, data)},
    )


def fine_tune(
    source: Run,
    data: Data,
    *,
    run: str | Path | None = None,
    head_steps: int | None = None,
    seed: int = 0,
    listener: events.Listener = events.silent,
    **settings: Any,
) -> Run:
    """A run that begins with the layers of another and goes on with other data of the same kind.

    Where classes or targets are others the head begins afresh and learns alone for `head_steps` (1,000 unless given; 0:
    all layers at once); all layers follow at `optimizer={"lr": ...}`, a tenth of the usual rate unless given.
    `settings` are those of training.
    """
    entry = models.entry_of(source.model)
    if entry is None:
        raise ArgumentError(
            f"fine_tune: {source.id} is no model of the registry", remedy="use replace_head and cr.fit"
        )
    head = replaced_head(entry, source.model, data.schema)
    model = models.begin(entry.name, source.model, data, seed=seed)
    given, defaults, many = {**settings, "seed": seed}, entry.training_for(data.schema), len(data.train)
    steps = head_steps
    if steps is None:
        steps = usual_steps(model, data, settings) if head else 0
    origin: dict[str, Any] = {**source.origin, "fresh": [head] if head else []}
    if whole("fine_tune", "head_steps", steps, least=0):
        check(model, data, settings)
        given = slowed(given, entry, data)
        model = head_alone(model, entry, data, settled(defaults, given, many)[0], steps)
        origin["head_first"] = steps
    return fit(model, data, run=run, listener=listener, origin=origin, **given)


def _alone(model: Model, data: Data) -> bool:
    """Whether the head is one dense layer on features of examples that are the same whenever training sees them."""
    rows = isinstance(data.train, Rows) and not data.train.mapped and not data.train.changes
    return rows and targets.of(data.schema).given and has_last_layer(model)


__all__ = ["SLOWER", "STEPS", "check", "fine_tune", "head_alone", "slowed", "usual_steps"]
