"""Surprisal of every token of a text under a language model."""

import itertools
from typing import Any, final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Bars, Table
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.prompts import tokens_of
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasSurprisal, Model
from chainrule.train import Run, surprisal

_LISTED = 10
_MOST = 256
"""Passages over which positions in the window are compared."""


@final
class SurprisalSettings(Settings):
    """What the model is to read."""

    text: str = Field("", description="the text to read; a passage of the held-out text if not given")


def examine(run: Run, data: Data, settings: SurprisalSettings) -> Outcome:
    """Read a text, and held-out passages by position."""
    model = run.model
    assert isinstance(model, HasSurprisal)
    window = data.schema.shape[0]
    tokens = (
        tokens_of(data.schema, settings.text, most=window)
        if settings.text
        else np.asarray(data.val.arrays["tokens"][:window])
    )
    picture = surprisal.passage(model, tokens, data.schema)
    bits = np.asarray(picture.values[1:])
    worst = np.argsort(-bits, kind="stable")[:_LISTED]
    rows: list[list[Any]] = [
        [
            repr(picture.pieces[i + 1])[1:-1],
            repr("".join(picture.pieces[max(0, i - 19) : i + 1]))[1:-1],
            float(bits[i]),
        ]
        for i in worst
    ]
    x = jnp.asarray(data.val.batch(np.arange(min(len(data.val), _MOST))).x)
    nats = np.asarray(model.surprisal(x).mean(axis=0), np.float64)
    groups = np.array_split(nats, min(16, len(nats)))
    edges = np.cumsum([0, *(len(group) for group in groups)])
    names = [str(a + 1) if b - a == 1 else f"{a + 1} to {b}" for a, b in itertools.pairwise(edges)]
    by_position = Bars(
        "surprisal-positions",
        "Surprisal by how much was read before",
        "position in the window",
        "nats per token",
        names,
        {"nats": np.array([group.mean() for group in groups])},
        caption=f"Mean over {len(x)} held-out passages: what a longer past is worth.",
    )
    first, last = float(groups[0].mean()), float(groups[-1].mean())
    return Outcome(
        [
            f"{bits.mean():.2f} bits per token on average; {bits.max():.1f} for the least likely, {rows[0][0]!r}.",
            f"On held-out text {first:.2f} nats at the beginning of a window and {last:.2f} at its end.",
        ],
        [picture, by_position],
        Table("surprisal-most", "Least likely tokens", ["token", "after", "bits"], rows),
        {"bits": bits.tolist(), "tokens": list(picture.pieces), "nats_by_position": nats.tolist()},
    )


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, HasSurprisal) and kinds.of(schema).has_tokens


probe = Probe(
    "Which tokens of a text the model finds unlikely, and what a longer past is worth.",
    "a model that predicts text token by token",
    _applies,
    examine,
    SurprisalSettings,
)

__all__ = ["SurprisalSettings", "examine", "probe"]
