"""Forecasts of a trained run for new series, with intervals from the model's own distribution of what comes next."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, final

import jax.numpy as jnp
import numpy as np

from chainrule.core import progress, random
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import kinds, targets
from chainrule.data.inputs.protocol import Given
from chainrule.data.inputs.series import of_steps
from chainrule.models.protocol import CanEncode, CanForecast, CanPredict, CanSeparate
from chainrule.train import intervals, temperature
from chainrule.train.identifying import finder
from chainrule.train.predicting import Answered, Answering, Predictor, Unanswered
from chainrule.train.segmenting import MaskFinder
from chainrule.train.separating import SourceFinder

if TYPE_CHECKING:
    from chainrule.train.run import Run


@final
class Forecaster(Answering):
    """The next steps of each series: medians, and the ends of intervals."""

    def __init__(
        self, run: "Run", model: CanForecast, given: Given, *, level: float, horizon: int | None
    ) -> None:
        intervals.check_level(level)
        prepared = run.preparation
        window = prepared.schema.shape[0]
        if horizon is not None and horizon < 1:
            raise ArgumentError(f"horizon={horizon}: forecast at least one step")
        self._horizon = window if horizon is None else horizon
        self._model, self._level, self._prepared = model, level, prepared
        self._key = random.key(run.settings.seed, "forecast")
        self._histories = kinds.of(prepared.schema).histories(given, prepared)
        shortest = min(self._histories, key=lambda one: len(one.x))
        if len(shortest.x) < model.history_needed:
            raise ArgumentError(
                f"a series of {len(shortest.x)} steps: the model goes on from {model.history_needed} at least"
            )
        self.problems: list[Unanswered] = []
        self.count = 0

    def __iter__(self) -> Iterator[Answered]:
        tails = (1 - self._level) / 2
        for number, one in enumerate(self._histories):
            found = self._model.forecast_quantiles(
                random.at(self._key, number), jnp.asarray(one.x[None]), self._horizon, (0.5, tails, 1 - tails)
            )
            median, low, high = of_steps(self._prepared.scaling).inverse(np.asarray(found, np.float64)[:, 0])
            self.count += self._horizon
            names = [f"{one.name} +{step}".strip() for step in range(1, self._horizon + 1)]
            yield Answered(names, self._columns({"prediction": median, "low": low, "high": high}))
            progress.update("forecasts of series", number + 1, len(self._histories))

    def remarks(self) -> list[str]:
        """What was read, and what intervals are."""
        window, longest = len(self._histories[0].x), max(one.length for one in self._histories)
        found = [f"intervals of level {self._level:g}: by the model's own distribution of what comes next"]
        if longest > window:
            found.append(f"read: the last {window:,} of {longest:,} steps, as many as a training example has")
        return found

    def _columns(self, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        names = self._prepared.feature_names
        return {
            f"{what} {name}" if len(names) > 1 else what: values[:, index]
            for index, name in enumerate(names)
            for what, values in found.items()
        }


def answering(
    run: "Run",
    given: Given,
    level: float,
    horizon: int | None,
    calibrated: bool = False,
    crf: bool = False,
    tiled: bool | None = None,
    gallery: str | os.PathLike[str] | None = None,
) -> Answering:
    """What answers new inputs of a run: forecasts, sources of mixtures, masks, identities, predictions."""
    masks = isinstance(run.model, CanPredict) and targets.of(run.schema).has_mask
    if not masks and (crf or tiled is not None):
        word = "crf" if crf else "tiled"
        raise CapabilityError(f"{word}: {run.id} gives pixels no class", remedy=f"leave {word} out")
    heat = temperature.of_run(run) if calibrated else None
    if isinstance(run.model, CanForecast):
        return Forecaster(run, run.model, given, level=level, horizon=horizon)
    if horizon is not None:
        raise CapabilityError(
            f"horizon={horizon}: {run.id} is no model of series", remedy="leave horizon out"
        )
    if isinstance(run.model, CanSeparate):
        return SourceFinder(run, run.model, given)
    if masks:
        return MaskFinder(run, given, crf=crf, tiled=tiled)
    if targets.of(run.schema).has_identity and isinstance(run.model, CanEncode):
        return finder(run, given, gallery)
    if gallery is not None:
        raise CapabilityError(
            f"gallery={gallery}: {run.id} compares no identities", remedy="leave gallery out"
        )
    return Predictor(run, given, level=level, temperature=heat)


__all__ = ["Forecaster", "answering"]
