"""Alignment of a target with its source: which source tokens each target token was read from.

A map is sharp where each row has one large weight. The rank correlation of positions in the target with positions
in the source says in which order the source is read: 1 forwards, -1 backwards.
"""

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.stats
from jaxtyping import Float, Int
from pydantic import Field

from chainrule.core.pictures import AttentionMaps, Picture, Table
from chainrule.core.types import Array
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import pairs
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import CanTranslate, HasAlignment, Model
from chainrule.networks.pictures import tokens
from chainrule.train import Run

_EXAMPLES = 128
_SHOWN = 8


@final
class AlignmentSettings(Settings):
    """Settings of the probe."""

    text: str = Field("", description="a source to look at; a held-out one if none is given")


def examine(run: Run, data: Data, settings: AlignmentSettings) -> Outcome:
    """Measure all maps on held-out pairs, and show those of one text."""
    model, schema = run.model, run.schema
    assert isinstance(model, HasAlignment)
    assert isinstance(model, CanTranslate)
    part, said = data.held_out()
    x, y = part.batch(np.arange(min(len(part), _EXAMPLES)))[:2]
    rows = _measured(model.alignment_names(), _maps(model, x, y), y, len(schema.target_tokens))
    source = pairs.encode(schema, settings.text)[None, :] if settings.text else x[:1]
    target = np.asarray(model.translate(jnp.asarray(source), beams=4))
    sharpest = max(range(len(rows)), key=lambda i: rows[i][1])
    name, sharpness, order = rows[sharpest]
    texts = pairs.source_text(schema, source[0]), pairs.target_text(schema, target[0])
    return Outcome(
        [
            f"{name} is the sharpest of {len(rows)} maps: the largest weight of a row is {sharpness:.2f} on average "
            f"over {len(x)} held-out pairs.",
            f"It reads the source {_word(order)} (rank correlation of positions {order:.2f}).",
            f"{texts[0]!r} becomes {texts[1]!r}.",
            *said,
        ],
        _pictures(model, schema, source, target, [row[0] for row in rows], sharpest),
        Table(
            "alignment-maps",
            "Maps",
            ["map", "largest weight of a row", "rank correlation of positions"],
            rows,
        ),
        {row[0]: {"sharpness": row[1], "order": row[2]} for row in rows},
    )


def _maps(
    model: HasAlignment, x: Int[np.ndarray, "batch source"], y: Int[np.ndarray, "batch target"]
) -> Float[np.ndarray, "batch maps target source"]:
    return np.asarray(_alignment(model, jnp.asarray(x), jnp.asarray(y)))


@eqx.filter_jit
def _alignment(model: HasAlignment, x: Array, y: Array) -> Array:
    return model.alignment(x, y)


def _measured(
    names: Any,
    maps: Float[np.ndarray, "batch maps target source"],
    y: Int[np.ndarray, "batch target"],
    end: int,
) -> list[list[Any]]:
    """For each map its name, the mean of the largest weights, and the rank correlation; the end mark is left out."""
    tokens = y != end
    found = []
    for number, name in enumerate(names):
        weights = maps[:, number]
        orders = [_order(one.argmax(axis=-1)[real]) for one, real in zip(weights, tokens, strict=True)]
        known = [order for order in orders if order is not None]
        sharpness = float(weights.max(axis=-1)[tokens].mean()) if tokens.any() else 0.0
        found.append([name, sharpness, float(np.mean(known)) if known else 0.0])
    return found


def _order(looked: Int[np.ndarray, " tokens"]) -> float | None:
    """The rank correlation of positions with positions looked at; nothing where one of them does not vary."""
    if len(looked) < 2 or np.ptp(looked) == 0:
        return None
    return float(scipy.stats.spearmanr(np.arange(len(looked)), looked).statistic)


def _word(order: float) -> str:
    return "forwards" if order > 0.5 else "backwards" if order < -0.5 else "in no fixed order"


def _pictures(
    model: HasAlignment,
    schema: Schema,
    source: Int[np.ndarray, "1 source"],
    target: Int[np.ndarray, "1 target"],
    names: list[str],
    sharpest: int,
) -> list[Picture]:
    """The sharpest map first, then the others in their order, as many as fit a page."""
    (maps,) = _maps(model, source, target)
    order = [sharpest, *(i for i in range(len(names)) if i != sharpest)][:_SHOWN]
    drawn = [
        tokens.alignment(
            schema,
            maps[i],
            source[0],
            target[0],
            names[i],
            f"alignment-{names[i].replace(',', '').replace(' ', '-')}",
        )
        for i in order
    ]
    if len(names) == 1:
        return [*drawn]
    rows, columns = drawn[0].rows, drawn[0].columns
    together = AttentionMaps(
        "alignment-maps",
        "Where each token was read from, map by map",
        maps[None, :, : len(rows), : len(columns)],
        rows,
        columns,
        (0, sharpest),
        names,
        caption="Row: a token of the target (query), column: one of the source (key).",
    )
    return [together, *drawn]


def _applies(model: Model, schema: Schema) -> bool:
    return (
        isinstance(model, HasAlignment)
        and isinstance(model, CanTranslate)
        and targets.of(schema).has_tokens
        and bool(model.alignment_names())
    )


probe = Probe(
    "Where a model of pairs looks in the source while it writes the target, as a map for each head.",
    "a model of pairs of texts with attention to the source",
    _applies,
    examine,
    AlignmentSettings,
)

__all__ = ["AlignmentSettings", "examine", "probe"]
