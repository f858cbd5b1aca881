"""Activation patching: which layers, positions and heads carry the answer from one text into another."""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Heatmap
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.explain.methods.patching import Patching, patch_activations
from chainrule.explain.methods.prompts import check_length, tokens_of
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasTokenStream, Model
from chainrule.networks.pictures import tokens as token_pictures
from chainrule.train import Run

_LENGTH = 24
"""Tokens of the held-out text that are taken where no text is given."""
_HIDDEN = "[MASK]"
_WHAT = {
    "resid_pre": "The residual stream before each layer",
    "attn_out": "What attention adds",
    "mlp_out": "What the MLP adds",
}


@final
class PatchingSettings(Settings):
    """Two texts with as many tokens, and what is asked about what follows."""

    text: str = Field(
        "",
        description="the clean text, of a masked model with a [MASK]; the beginning of the held-out text if not given",
    )
    corrupted: str = Field(
        "",
        description="the other text, with as many tokens; if not given, the one change of a token that matters most",
    )
    answer: str = Field("", description="a token; if not given, the likeliest of the clean text")
    against: str = Field("", description="a token; if not given, the likeliest of the corrupted text")


class _Question(NamedTuple):
    clean: Int[np.ndarray, " tokens"]
    corrupted: Int[np.ndarray, " tokens"]
    answer: int
    against: int
    position: int
    """Where the answer is read: after the last token, or at the one that is hidden."""


def examine(run: Run, data: Data, settings: PatchingSettings) -> Outcome:
    """Patch the streams of every layer position by position, and the heads one by one."""
    model: Any = eqx.nn.inference_mode(run.model)  # has a residual stream, see `_applies`
    asked = _question(model, data, settings)
    tokenizer = tokenizers.of(data.schema)

    def metric(logits: Any) -> Any:
        there = logits[0, asked.position]
        return there[asked.answer] - there[asked.against]

    pair = jnp.asarray(asked.clean)[None, :], jnp.asarray(asked.corrupted)[None, :]
    streams = {at: patch_activations(model.logits, *pair, metric, at=at) for at in _WHAT}
    heads = patch_activations(model.logits, *pair, metric, at="attention.z")
    answer, against = (repr(text)[1:-1].replace(" ", "␣") for text in tokenizer.pieces(np.array(asked[2:4])))
    stream, by_head = streams["resid_pre"].restored, heads.restored
    i, j = np.unravel_index(by_head.argmax(), by_head.shape)
    texts = tuple(_text(tokenizer, one) for one in asked[:2])
    follows = asked.position == len(asked.clean) - 1
    shown = [repr(text[-60:] if follows else text) for text in texts]
    differ = np.flatnonzero(asked.clean != asked.corrupted)
    labels = _labels(tokenizer, asked)
    return Outcome(
        [
            f"{'After' if follows else 'In'} {shown[0]} the logit of {answer!r} is {heads.clean:+.3g} above that of "
            f"{against!r}, {'after' if follows else 'in'} {shown[1]} {heads.corrupted:+.3g}.",
            f"One head brings back most of the difference: layer {i + 1}, head {j + 1}, {by_head[i, j]:.0%}.",
            _moved(stream, differ, asked.position),
        ],
        [
            *(_map(at, found, labels) for at, found in streams.items()),
            Heatmap(
                "patching-heads",
                "What each head brings back",
                "head",
                "layer",
                by_head,
                [str(n + 1) for n in range(by_head.shape[0])],
                [str(n + 1) for n in range(by_head.shape[1])],
                numbers=True,
                diverging=True,
                caption="The output of one head, at all positions, taken from the clean text.",
            ),
        ],
        None,
        {
            "clean": texts[0],
            "corrupted": texts[1],
            "answer": answer,
            "against": against,
            "clean_difference": heads.clean,
            "corrupted_difference": heads.corrupted,
            **{at: found.restored.tolist() for at, found in streams.items()},
            "heads": by_head.tolist(),
        },
    )


def _question(model: HasTokenStream, data: Data, settings: PatchingSettings) -> _Question:
    """The two texts and the two tokens, as given or as found."""
    schema = data.schema
    most = schema.shape[0] - 1 if model.context is None else model.context
    begun = np.asarray(data.val.batch(np.arange(1)).x[0], np.int32)[: min(_LENGTH, most)]
    clean, position = model.posed(settings.text or begun)
    check_length(clean, most=most)
    if settings.corrupted:
        corrupted, other = model.posed(settings.corrupted)
        check_length(corrupted, most=most, what="corrupted")
        if len(corrupted) != len(clean):
            raise ArgumentError(
                f"corrupted: {len(corrupted)} tokens, the clean text has {len(clean)}",
                remedy="change tokens, and add or leave out none",
            )
        if other != position:
            raise ArgumentError(
                f"corrupted: asks about token {other + 1}, the clean text about token {position + 1}",
                remedy="put [MASK] at the same position of both",
            )
        if (corrupted == clean).all():
            raise ArgumentError("corrupted: the same text as the clean one", remedy="change a token")
    else:
        corrupted = _most_changed(model, clean, position, len(schema.tokens))
    logits = np.array(_logits_at(model, jnp.asarray(np.stack([clean, corrupted])), position))
    answer = _token(schema, settings.answer, "answer") if settings.answer else int(logits[0].argmax())
    logits[1, answer] = -np.inf  # the likeliest of the others, where both texts have the same
    against = _token(schema, settings.against, "against") if settings.against else int(logits[1].argmax())
    if answer == against:
        raise ArgumentError(
            f"answer and against are both {settings.against!r}", remedy="take two different tokens"
        )
    return _Question(clean, corrupted, answer, against, position)


def _most_changed(
    model: HasTokenStream, clean: Int[np.ndarray, " tokens"], position: int, vocabulary: int
) -> Int[np.ndarray, " tokens"]:
    """The text with one token replaced, not that of the answer: the one that costs the likeliest answer most."""
    others = np.delete(np.arange(len(clean)), position)
    changed = np.repeat(clean[None, :], len(others), axis=0)
    changed[np.arange(len(others)), others] = (clean[others] + vocabulary // 2) % vocabulary
    rows = jnp.asarray(np.concatenate([clean[None, :], changed]))
    logits = np.asarray(_logits_at(model, rows, position))
    answer = int(logits[0].argmax())
    scores = np.asarray(jax.nn.log_softmax(logits, axis=-1))[1:, answer]
    return changed[int(scores.argmin())]


@eqx.filter_jit
def _logits_at(model: Any, x: Any, position: int) -> Any:
    return model.logits(x)[:, position]


def _token(schema: Schema, text: str, what: str) -> int:
    found = tokens_of(schema, text, least=1, most=10**6, what=what)
    if len(found) > 1:
        raise ArgumentError(
            f"{what}: {text!r} is {len(found)} tokens for this model",
            remedy="take one that is a single token",
        )
    return int(found[0])


def _text(tokenizer: Any, tokens: Int[np.ndarray, " tokens"]) -> str:
    """The text of tokens; the number of a hidden one may lie behind the vocabulary."""
    parts = np.split(tokens, np.flatnonzero(tokens >= len(tokenizer)))
    return _HIDDEN.join(tokenizer.decode(part[part < len(tokenizer)]) for part in parts)


def _labels(tokenizer: Any, asked: _Question) -> list[str]:
    """The tokens of the clean text; where the other differs, both."""
    sides = []
    for tokens in asked[:2]:
        known = tokens < len(tokenizer)
        names = iter(token_pictures.names(tokenizer, tokens[known]))
        sides.append([next(names) if there else _HIDDEN for there in known])
    return [a if a == b else f"{a} ({b})" for a, b in zip(*sides, strict=True)]


def _moved(stream: np.ndarray, differ: np.ndarray, position: int) -> str:
    """From which layer on the position of the answer holds more of it than the tokens that differ."""
    where = "last" if position == stream.shape[1] - 1 else "hidden"
    if position in differ:
        return f"The texts differ in their {where} token, from which the answer is read."
    arrived = np.flatnonzero(stream[:, position] > stream[:, differ].sum(axis=1))
    if not len(arrived):
        return (
            f"Before no layer does the {where} position hold more of the answer than the tokens that differ."
        )
    return f"From layer {arrived[0] + 1} on the {where} position holds more of the answer than the tokens that differ."


def _map(at: str, found: Patching, labels: list[str]) -> Heatmap:
    return Heatmap(
        f"patching-{at.replace('_', '-')}",
        _WHAT[at],
        "position",
        "layer",
        found.restored,
        [str(n + 1) for n in range(len(found.restored))],
        labels,
        diverging=True,
        caption="The share of the clean answer that comes back when this activation is taken from the clean text: 1 is "
        "all of it. In brackets: the token of the corrupted text.",
    )


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, HasTokenStream) and kinds.of(schema).has_tokens and schema.shape[0] > 3


probe = Probe(
    "Which layers, positions and heads carry an answer: activations of one text put into another.",
    "a language model, plain or masked, whose layers add to a residual stream",
    _applies,
    examine,
    PatchingSettings,
)

__all__ = ["PatchingSettings", "examine", "probe"]
