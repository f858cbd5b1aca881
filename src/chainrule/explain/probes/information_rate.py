"""The information rate of a trained sequence model: how much the past says about the next sample, along a piece and on
average.

It is the surprisal of held-out samples by how often they come in the training data, time order ignored, minus their
surprisal under the model. Training data are never judged: a model that has learnt them by heart would seem to know
much.
"""

from typing import Literal, final

import equinox as eqx
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Lines, Passage, Picture, Table
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.explain.methods.step_surprisal import StepSurprisal, step_surprisal
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.information.sequence_rates import (
    SequenceInformation,
    block_bootstrap,
    sequence_information_rate,
)
from chainrule.models.protocol import HasStepDensity, HasSurprisal, Model
from chainrule.train import Run

_SHOWN = 400
_PARTS = 60
"""Parts of a piece whose means are shown."""


@final
class InformationRateSettings(Settings):
    """Which held-out samples, and how the interval is found."""

    split: Literal["test", "val"] | None = Field(
        None, description="which held-out samples; none: test, or validation where there is no test split"
    )
    samples: int = Field(20_000, ge=20, description="tokens or steps, at most, from the beginning")
    block: int | None = Field(
        None, ge=1, description="neighbours that are drawn together for the interval; none: by their number"
    )
    draws: int = Field(500, ge=20, le=100_000, description="for the interval")
    seed: int = Field(0, ge=0, description="of these draws")


def examine(run: Run, data: Data, settings: InformationRateSettings) -> Outcome:
    """Judge held-out samples with and without their past."""
    name = settings.split or ("test" if len(data.test) else "val")
    part = data.split(name)
    if not len(part):
        raise ArgumentError(
            f"{data.name} has no held-out samples: what the past says is judged on data the model never saw",
            remedy="train on a part of the data: data.split=0.9,0.05,0.05",
        )
    found = step_surprisal(eqx.nn.inference_mode(run.model), data, part, settings.samples)
    rate = sequence_information_rate(
        found.predictive,
        found.unordered,
        block=settings.block or found.block,
        draws=settings.draws,
        seed=settings.seed,
    )
    what = "token" if found.tokens is not None else "step"
    return _outcome(found, rate, what, name, data.schema, settings)


def _outcome(
    found: StepSurprisal,
    rate: SequenceInformation,
    what: str,
    split: str,
    schema: Schema,
    settings: InformationRateSettings,
) -> Outcome:
    low, high = rate.interval
    count = len(rate.profile)
    misled = float((rate.profile < 0).mean())
    pictures: list[Picture] = [_along(rate, what, settings)]
    if found.tokens is not None:
        pictures.insert(0, _passage(found.tokens, rate.profile, schema))
    else:
        pictures.append(_beside(found, rate))
    share = (
        f", {rate.value / rate.unordered:.0%} of what a {what} has without it"
        if found.tokens is not None
        else ""
    )
    return Outcome(
        [
            f"Information rate {rate.value:.3f} bits per {what} ({low:.3f} to {high:.3f}) on {count:,} held-out "
            f"{what}s ({split}): what the past says about the next one{share}.",
            f"With time order ignored a {what} costs {rate.unordered:.3f} bits, given its past {rate.predictive:.3f}"
            + (" (of densities, in the units of the model)." if found.tokens is None else "."),
            f"The past misleads at {misled:.1%} of them. The interval draws blocks of {rate.block:,} neighbours again.",
            *rate.remarks,
        ],
        pictures,
        Table(
            "information-rate",
            f"Bits per {what}",
            ["", "bits", "from", "to"],
            [
                ["time order ignored", rate.unordered, *_ends(found.unordered, rate, settings)],
                ["given the past", rate.predictive, *_ends(found.predictive, rate, settings)],
                ["information rate", rate.value, low, high],
            ],
        ),
        {
            "unit": "bits",
            "information_rate": rate.value,
            "interval": [low, high],
            "unordered": rate.unordered,
            "predictive": rate.predictive,
            "samples": count,
            "block": rate.block,
            "misled": misled,
            "split": split,
            "flagged": bool(rate.value < 0),
        },
    )


def _ends(
    nats: np.ndarray, rate: SequenceInformation, settings: InformationRateSettings
) -> tuple[float, float]:
    return block_bootstrap(nats / np.log(2), rate.block, settings.draws, settings.seed)


def _along(rate: SequenceInformation, what: str, settings: InformationRateSettings) -> Lines:
    """Means over consecutive parts, each with the interval of its own blocks."""
    parts = [
        part
        for part in np.array_split(rate.profile, min(_PARTS, max(1, len(rate.profile) // 8)))
        if len(part)
    ]
    ends = np.cumsum([len(part) for part in parts])
    middle = ends - np.array([len(part) for part in parts]) / 2
    bands = np.array(
        [
            block_bootstrap(part, min(rate.block, max(1, len(part) // 5)), settings.draws, settings.seed)
            for part in parts
        ]
    )
    means = np.array([part.mean() for part in parts])
    return Lines(
        "information-rate-profile",
        "What the past says, along the held-out data",
        what,
        f"bits per {what}",
        {
            f"mean of {len(parts[0]):,} {what}s": (middle, means, bands[:, 0], bands[:, 1]),
            "mean of all": (np.array([0.0, float(ends[-1])]), np.full(2, rate.value)),
        },
        caption=f"Surprisal with time order ignored minus surprisal given the past. Shaded: 95 %, by drawing blocks of "
        f"neighbouring {what}s again. Below zero the past misleads.",
    )


def _passage(tokens: np.ndarray, profile: np.ndarray, schema: Schema) -> Passage:
    return Passage(
        "information-rate-text",
        "What the past says about each token",
        tokenizers.of(schema).pieces(tokens[:_SHOWN].astype(np.int32)),
        np.maximum(profile[:_SHOWN], 0.0),
        "bits",
        caption="The denser, the more the past told of the token than its frequency does; unshaded tokens were told "
        "nothing of, or worse.",
    )


def _beside(found: StepSurprisal, rate: SequenceInformation) -> Lines:
    assert found.values is not None, "a series has values"
    shown = min(_SHOWN, found.block or _SHOWN, len(found.values))
    steps = np.arange(1.0, shown + 1)
    return Lines(
        "information-rate-series",
        "What the past says about each step of one series",
        "step",
        "bits; value in units of the model",
        {"the past says": (steps, rate.profile[:shown]), "value": (steps, found.values[:shown])},
    )


def _applies(model: Model, schema: Schema) -> bool:
    tokens = (
        isinstance(model, HasSurprisal) and kinds.of(schema).has_tokens and kinds.of(schema).is_corpus(schema)
    )
    return tokens or isinstance(model, HasStepDensity)


probe = Probe(
    "How much the past says about the next token or step of held-out data, along them and on average.",
    "a model that predicts texts token by token, or series step by step",
    _applies,
    examine,
    InformationRateSettings,
    toy={"samples": 200, "draws": 20},
)

__all__ = ["InformationRateSettings", "examine", "probe"]
