"""The tree of a beam search: the beams kept at every step, those dropped, and their scores."""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from pydantic import Field

from chainrule.core.pictures import Scatter, Table
from chainrule.core.types import Array
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import CanContinue, DecodingState, Model
from chainrule.networks.pictures import tokens as token_pictures
from chainrule.train import Run

_PROMPT = 16
"""Tokens of the held-out text that the search goes on from."""
_GAP = 0.22
"""Room for a token at either end of an arrow, in steps."""


@final
class BeamsSettings(Settings):
    """The text so far, and how far and how widely to search."""

    text: str = Field("", description="what comes before; the beginning of the held-out text if not given")
    beams: int = Field(4, ge=1, le=20, description="beginnings that are kept at every step")
    length: int = Field(10, ge=1, le=100, description="tokens that are written")


class BeamNode(NamedTuple):
    """One beginning, at one step of the search."""

    step: int
    rank: int
    """From the best of its step down."""
    parent: int | None
    """Which of the nodes it extends."""
    token: int
    score: float
    """Log-probability of all tokens written so far, in nats."""
    kept: bool


def examine(run: Run, data: Data, settings: BeamsSettings) -> Outcome:
    """Search step by step and keep what happened."""
    model, tokenizer = run.model, tokenizers.of(data.schema)
    assert isinstance(model, CanContinue)
    window = data.schema.shape[0] - 1
    room = max(1, window - settings.length)
    given = (
        tokenizer.encode(settings.text)
        if settings.text
        else np.asarray(data.val.arrays["tokens"][: min(room, _PROMPT)])
    )
    begun = given[-room:].astype(np.int32)
    nodes = search(model, begun, settings.beams, settings.length)
    last = [i for i, node in enumerate(nodes) if node.step == settings.length and node.kept]
    texts = [tokenizer.decode([nodes[i].token for i in path(nodes, end)]) for end in last]
    greedy = search(model, begun, 1, settings.length)
    alone = next(node.score for node in greedy if node.step == settings.length and node.kept)
    rows: list[list[Any]] = [[repr(t), nodes[i].score] for t, i in zip(texts, last, strict=True)]
    best = nodes[last[0]].score
    before = tokenizer.decode(begun)[-40:]
    return Outcome(
        [
            f"After {before!r} the best of {settings.beams} beams is {texts[0]!r} with {best:.3f} nats.",
            f"Always taking the likeliest token ends with {alone:.3f} nats: "
            + (
                "the search finds a likelier text."
                if best > alone + 1e-4
                else "the search finds no likelier text."
            ),
        ],
        [
            _picture(
                nodes,
                path(nodes, last[0]),
                token_pictures.names(tokenizer, np.array([n.token for n in nodes])),
                before,
            )
        ],
        Table("beams-table", "What the search ends with", ["text", "log-probability"], rows),
        {
            "texts": texts,
            "log_probs": [nodes[i].score for i in last],
            "greedy": alone,
            "tree": [node._asdict() for node in nodes],
        },
    )


def search(model: CanContinue, begun: np.ndarray, beams: int, length: int) -> list[BeamNode]:
    """The nodes of a beam search, step by step: those kept, and as many that fell out by the least."""
    state, said = _begin(model, jnp.asarray(begun)[None, :], len(begun) + length, beams)
    nodes: list[BeamNode] = []
    scores, parents = np.zeros(1), list[int | None]([None])
    table = np.asarray(said, np.float64)[:1]
    for step in range(1, length + 1):
        total = (scores[:, None] + table).ravel()
        order = np.argsort(-total, kind="stable")[: 2 * beams]
        first = len(nodes)
        for rank, flat in enumerate(order):
            row, token = divmod(int(flat), table.shape[1])
            nodes.append(BeamNode(step, rank, parents[row], token, float(total[flat]), rank < beams))
        kept = order[:beams]
        rows, tokens = np.divmod(kept, table.shape[1])
        scores, parents = total[kept], list(range(first, first + len(kept)))
        if step < length:
            state, said = _read(model, state, jnp.asarray(rows), jnp.asarray(tokens, jnp.int32))
            table = np.asarray(said, np.float64)
    return nodes


def path(nodes: list[BeamNode], end: int) -> list[int]:
    """The nodes from the first step to one of the last, in order."""
    found, at = [], end
    while True:
        found.append(at)
        before = nodes[at].parent
        if before is None:
            return found[::-1]
        at = before


@eqx.filter_jit
def _begin(
    model: CanContinue, tokens: Array, room: int, beams: int
) -> tuple[DecodingState, Float[Array, "beams vocabulary"]]:
    logits, state = model.advance(model.start(1, room), tokens)
    rows = jnp.zeros(beams, jnp.int32)
    return state.fork(rows), jax.nn.log_softmax(logits[rows, -1])


@eqx.filter_jit
def _read(
    model: CanContinue, state: DecodingState, rows: Array, tokens: Array
) -> tuple[DecodingState, Float[Array, "beams vocabulary"]]:
    logits, state = model.advance(state.fork(rows), tokens[:, None])
    return state, jax.nn.log_softmax(logits[:, -1])


def _picture(nodes: list[BeamNode], best: list[int], words: list[str], before: str) -> Scatter:
    """Steps from left to right, the best of each step on top."""
    spots = np.array([[node.step, -node.rank] for node in nodes], float)
    rest = [i for i, node in enumerate(nodes) if node.kept and i not in best]
    groups = {"best": best, "kept": rest, "fell out": [i for i, node in enumerate(nodes) if not node.kept]}
    edges = [(node.parent, i) for i, node in enumerate(nodes) if node.parent is not None and node.kept]
    starts = spots[[a for a, _ in edges]].reshape(-1, 2)
    steps = spots[[b for _, b in edges]].reshape(-1, 2) - starts
    return Scatter(
        "beams",
        "The tree of the search",
        "tokens written",
        "rank in its step, the best on top",
        {name: spots[chosen] for name, chosen in groups.items() if chosen},
        arrows=(starts + _GAP * steps, (1 - 2 * _GAP) * steps),
        words={name: [words[i] for i in chosen] for name, chosen in groups.items() if chosen},
        caption=f"After {before!r}: every token extends the beginning its arrow comes from.",
    )


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, CanContinue) and kinds.of(schema).is_corpus(schema)


probe = Probe(
    "The tree of a beam search, step by step, with what was kept and what fell out.",
    "a model that writes on from a text",
    _applies,
    examine,
    BeamsSettings,
    toy={"beams": 2, "length": 3},
)

__all__ = ["BeamNode", "BeamsSettings", "examine", "path", "probe", "search"]
