"""The first stage of `chainrule train from=RUN data=OTHER`: a fresh head learns alone before all layers do."""

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chainrule.cli.training_request import TrainingRequest
    from chainrule.data.dataset import Data
    from chainrule.models.protocol import Model


def with_head_first(
    request: "TrainingRequest", model: "Model", data: "Data", *, quiet: bool
) -> "TrainingRequest":
    """The request with the steps of the first stage, and the rate of the second unless one is given."""
    from chainrule.cli.output import say
    from chainrule.core.errors import ArgumentError
    from chainrule.core.formatting import scientific
    from chainrule.transfer import fine_tuning

    start = request.start
    if start is None:
        return request
    begun = start.run.config["model"].get("from") or {}
    never_trained = (
        start.run.step == 0 and begun.get("head") == "new"
    )  # as `chainrule import head=new` left it
    afresh = request.entry.head in start.fresh or never_trained
    steps = start.head_first
    if steps is None:
        steps = fine_tuning.usual_steps(model, data, dict(request.train)) if never_trained else 0
    if not steps:
        return replace(request, start=replace(start, head_first=0))
    if not afresh:
        raise ArgumentError(
            f"head_first={steps}: the head of {start.run.id} is taken over as it is",
            remedy=f"to begin it afresh: fresh={request.entry.head}",
        )
    fine_tuning.check(model, data, dict(request.train))
    train = fine_tuning.slowed(dict(request.train), request.entry, data)
    chosen = replace(request, start=replace(start, head_first=steps), train=train)
    if not quiet:
        rate = scientific(chosen.settled(data)[0].optimizer.lr)
        say(
            "head",
            f"it learns alone for {steps:,} steps, all layers follow at optimizer.lr={rate}; all at once: head_first=0",
        )
    return chosen


def head_alone(request: "TrainingRequest", model: "Model", data: "Data") -> "Model":
    """The model after the first stage, if there is one."""
    from chainrule.transfer import fine_tuning

    if request.start is None or not request.start.head_first:
        return model
    config = request.settled(data)[0]
    return fine_tuning.head_alone(model, request.entry, data, config, request.start.head_first)


__all__ = ["head_alone", "with_head_first"]
