"""The learning curve of a density: in its unit, beside the entropy of the data where their distribution is known."""

from dataclasses import replace

import numpy as np

from chainrule.core.errors import ChainruleError
from chainrule.core.pictures import Lines
from chainrule.data.generated.known_entropy import entropy_of
from chainrule.models.protocol import HasConditionalDensity, HasLogProb
from chainrule.train import Run


def with_entropy(curve: Lines, run: Run) -> Lines:
    """The curve of the loss in its unit and, of a density, with the least that it can be on average."""
    curve = replace(curve, y_label=curve.y_label or run.model.loss_unit())
    least = _least(run)
    if least is None or not curve.series:
        return curve
    steps = np.concatenate([x for x, *_ in curve.series.values()])
    words = (
        f"{curve.caption} No density costs less on average than the entropy of the data; what lies above it is the "
        "divergence of the data from the model."
    )
    ends = np.array([steps.min(), steps.max()])
    line = {f"entropy {least:.3f}": (ends, np.full(2, least))}
    return replace(
        curve, series={**curve.series, **line}, log_y=curve.log_y and least > 0, caption=words.strip()
    )


def _least(run: Run) -> float | None:
    """The entropy of the data, in the units of the model, where that is what its loss cannot go below."""
    model = run.model
    # A density that is told the class of an example can cost less than the entropy of all data together.
    conditional = isinstance(model, HasConditionalDensity) and model.conditional
    if not isinstance(model, HasLogProb) or conditional or model.loss_unit() != "nats per example":
        return None
    try:
        data = run.data
    except ChainruleError:  # the report says in its own place that they are gone
        return None
    entropy = entropy_of(data.source)
    return None if entropy is None else entropy - float(data.nats(0.0))


__all__ = ["with_entropy"]
