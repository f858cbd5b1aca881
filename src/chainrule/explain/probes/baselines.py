"""Did adaptation help? A run's own method and settings beside what it has to beat, trained anew over several seeds.

Source alone, a few target labels alone, the method, and an oracle that learns from all targets: one program each. With
one seed the run itself stands for the method, as `chainrule train` compares it when it is done. The verdict stays with
the run (`chainrule runs ls`), so that negative transfer is not forgotten.
"""

from dataclasses import replace
from typing import final

from pydantic import Field

from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.compared_trainings import compared
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import CanAdapt, Model
from chainrule.train import Run
from chainrule.train.verdicts import has_answers
from chainrule.transfer.adaptation import adaptation_report

_OWN = ("steps", "epochs", "seed", "keep", "best", "best_mode", "stopping", "rollbacks")
"""Settings of a run that say how long it goes on and what is kept of it, not how it learns."""


@final
class BaselinesSettings(Settings):
    """How often, and how long."""

    seeds: int = Field(
        3,
        ge=1,
        le=100,
        description="trainings of each kind, in one program; 1: the run itself beside one of each other",
    )
    steps: int | None = Field(
        None, ge=1, description="steps of each; none: as many as the run was given, or made with seeds=1"
    )
    few: int | None = Field(
        None,
        ge=0,
        description="target examples with targets of the second baseline; none: those of the run, or up to 20 where "
        "there are several seeds",
    )


def examine(run: Run, data: Data, settings: BaselinesSettings) -> Outcome:
    """Train all of them and compare."""
    if data.other is None or not has_answers(data):
        lacks = "no other domain" if data.other is None else "no targets of the other domain to judge by"
        return Outcome([f"There is nothing to compare: {run.id} has {lacks}. Train one with target=DATA."])
    model = run.config["model"]
    training = {name: value for name, value in run.config["train"].items() if name not in _OWN}
    itself = settings.seeds == 1
    some = 0 if itself else min(20, len(data.other.train))
    steps = settings.steps or (run.step if itself else run.status["total"])
    found = adaptation_report(
        data,
        seeds=settings.seeds,
        few=data.labels or some if settings.few is None else settings.few,
        model=model["name"],
        settings=model["settings"],
        trained=run.model if itself else None,
        seed=run.settings.seed if itself else 0,
        steps=steps,
        **training,
    )
    outcome = compared(found, data.name, data.other.name, settings.seeds)
    return replace(outcome, numbers={**outcome.numbers, "steps": steps})


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return isinstance(model, CanAdapt)


probe = Probe(
    "Did adaptation help? The run's method beside the source alone, a few target labels and an oracle, trained anew.",
    "a model that learned for another domain: target=DATA",
    _applies,
    examine,
    BaselinesSettings,
    toy={"seeds": 2, "steps": 2, "few": 2},
    by_name=True,
)

__all__ = ["BaselinesSettings", "examine", "probe"]
