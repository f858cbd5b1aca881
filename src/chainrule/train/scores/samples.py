"""Samples beside real examples: distances, precision and recall, copies, modes and classes, with their floors."""

from chainrule.core.errors import ArgumentError
from chainrule.data import kinds
from chainrule.models.protocol import CanSample
from chainrule.train.generation.drawing import as_rows, can_be_judged, draw
from chainrule.train.generation.measures import FEWEST, measure
from chainrule.train.generation.real_examples import RealExamples, real_examples
from chainrule.train.scoring import Evaluation, Metric, Score

_MOST = 1000
_FOR_MODES = 2500
"""Samples for data whose modes are known."""
_NUMBERS = 2**17
"""Entries of images that are drawn, about: large ones take long."""
_IMAGES = 200
"""Images that are drawn at least."""


def usual_count(known: RealExamples) -> int:
    """Samples that are drawn unless told: as many as there are held-out examples, within limits."""
    if known.modes is not None:
        return _FOR_MODES
    schema = known.schema
    most = max(_IMAGES, _NUMBERS // schema.dimensions) if kinds.of(schema).spatial else _MOST
    return min(len(known.held_out), len(known.train), most, _MOST)


def _applies(evaluation: Evaluation) -> bool:
    return can_be_judged(evaluation.model, evaluation.data.schema)


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    model, part, asked = evaluation.model, evaluation.split, evaluation.samples
    assert isinstance(model, CanSample), "ask what applies first"
    if asked is not None and asked < FEWEST:
        raise ArgumentError(
            f"samples={asked}: too few to be compared with real examples", remedy=f"use {FEWEST} or more"
        )
    if min(len(part), len(evaluation.data.train)) < 2:  # a single point has no spread
        return {}
    known = real_examples(evaluation.data, part)
    drawn = draw(model, evaluation.data, asked or usual_count(known), evaluation.key, part)
    return measure(known, as_rows(drawn))


score = Score("Samples beside real examples.", _applies, _measure, order=60)

__all__ = ["score", "usual_count"]
