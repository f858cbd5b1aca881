"""Composition: how a held-out excerpt of music goes on, and which of its events a model did not expect."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import CanCompose, Model
from chainrule.networks.pictures import music
from chainrule.train import Run


@final
class CompositionSettings(Settings):
    """What is looked at."""

    example: int = Field(0, ge=0, description="the held-out excerpt that is shown, counted from 0")
    known: float = Field(0.5, gt=0, lt=1, description="share of it that the model is given")
    temperature: float = Field(
        1.0, ge=0, description="of what it writes: below 1 likelier, above 1 more varied"
    )
    n: int = Field(64, ge=1, description="held-out excerpts whose events are judged, at most")
    seed: int = Field(0, ge=0, description="of what it writes")


def examine(run: Run, data: Data, settings: CompositionSettings) -> Outcome:
    """One excerpt continued, and the events of many."""
    model = eqx.nn.inference_mode(run.model)
    assert isinstance(model, CanCompose)
    part, said = data.held_out()
    if settings.example >= len(part):
        raise ArgumentError(
            f"example={settings.example}: there are {len(part)} held-out excerpts",
            remedy=f"use example={len(part) - 1} at most",
        )
    given = targets.of(data.schema).given
    x, y = part.batch(np.arange(min(settings.n, len(part))))[:2]
    own, its = part.batch(np.array([settings.example]))[:2]
    nats = np.asarray(_nats(model, jnp.asarray(x), jnp.asarray(y) if given else None))
    single = np.asarray(_nats(model, jnp.asarray(own), jnp.asarray(its) if given else None))[0]
    known = max(1, int(settings.known * own.shape[1]))
    options = {"condition": np.asarray(its)} if given else {}
    after = model.continued(
        random.key(settings.seed, "composition"),
        jnp.asarray(own[:, :known]),
        own.shape[1] - known,
        temperature=settings.temperature,
        **options,
    )
    whole = np.concatenate([own[0, :known], np.asarray(after)[0]])
    mean, perplexity = float(nats.mean()), float(np.exp(nats.mean()))
    return Outcome(
        [
            f"An event costs {mean:.2f} nats on average, as one of {perplexity:.1f} that are equally likely "
            f"({len(x)} excerpts).",
            *said,
        ],
        [*music.continuation(own[0], whole, known), music.by_kind(x, nats), music.over_time(own[0], single)],
        numbers={"nats_per_event": mean, "perplexity": perplexity},
    )


@eqx.filter_jit
def _nats(model: CanCompose, x: Array, y: Array | None) -> Array:
    return model.event_nats(x, y)


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return isinstance(model, CanCompose)


probe = Probe(
    "How an excerpt of music goes on, as piano roll and sound, and which events were not expected.",
    "a model of music",
    _applies,
    examine,
    CompositionSettings,
    toy={"n": 4},
)

__all__ = ["CompositionSettings", "examine", "probe"]
