"""Shapley values of texts: what each token adds to a prediction about the text.

*Language models*: to the log-probability of the last token; absent tokens are those of other passages at the same
positions, so that a text keeps its length and its kind. *Models that fill gaps*: to the log-probability of a hidden
token; absent tokens are hidden, too. *Classifiers and regressions of texts*: to a class or a value, word by word;
absent words are taken out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.explain.methods import answers
from chainrule.explain.methods.chosen_rows import chosen_rows
from chainrule.explain.methods.prompts import check_length, tokens_of
from chainrule.explain.methods.run_outputs import asked_output, numbers_of
from chainrule.explain.methods.shapley.explaining import shapley
from chainrule.explain.methods.shapley.explanation import Explanation
from chainrule.explain.methods.shapley.maskers.masker import Masker, fingerprint_of
from chainrule.explain.methods.shapley.maskers.replacing import Replacing
from chainrule.explain.methods.shapley.maskers.tokens import masked_tokens, removed_tokens
from chainrule.models.protocol import HasSurprisal, HasTokenStream, Model
from chainrule.train import Run


class TextValues(NamedTuple):
    """Values of the pieces of a text."""

    found: Explanation
    pieces: list[str]
    """Tokens or words; those beyond the values are what is predicted."""
    unit: str
    part: str
    """What a piece is called."""


@final
class LastToken(eqx.Module):
    """The log-probability of the last token of texts, given those before it."""

    model: Any

    def __call__(self, tokens: Int[Array, "batch time"]) -> Float[Array, "batch 1"]:
        """In nats."""
        return -self.model.surprisal(tokens)[:, -1:]


@final
class HiddenToken(eqx.Module):
    """Log-probabilities of all tokens at a hidden position."""

    model: Any
    position: int = eqx.field(static=True)

    def __call__(self, tokens: Int[Array, "batch time"]) -> Float[Array, "batch vocabulary"]:
        """In nats."""
        return jax.nn.log_softmax(self.model.stream_logits(tokens)[:, self.position], axis=-1)


@final
class EndedText(eqx.Module):
    """A function of texts that end in a mark, as one of texts without it."""

    function: Any
    end: int = eqx.field(static=True)

    def __call__(self, tokens: Int[Array, "batch time"]) -> Float[Array, "batch outputs"]:
        """The numbers of the texts with their end."""
        ends = jnp.full((len(tokens), 1), self.end, tokens.dtype)
        found: Array = self.function(jnp.concatenate([tokens, ends], axis=1))
        return found


def reads_tokens(model: Model, schema: Schema) -> bool:
    """Whether a model predicts texts token by token, fills their gaps, or tells a class or value of them."""
    if not kinds.of(schema).has_tokens:
        return False
    return isinstance(model, HasSurprisal | HasTokenStream) or bool(numbers_of(model, schema))


def token_values(
    run: Run,
    data: Data,
    text: str = "",
    *,
    row: str = "",
    out: str = "",
    tokens: int = 16,
    background: int = 8,
    **options: Any,
) -> TextValues:
    """Values of a text of one's own, or of a held-out one, the first unless `row` names another.

    `out` is the number of a classifier that is explained, or the token of a gap; `options` are those of `shapley`.
    """
    given = _Given(run, data, text, row, out, tokens)
    if isinstance(run.model, HasSurprisal):
        return _of_last(given, background, options)
    return _of_gap(given, options) if isinstance(run.model, HasTokenStream) else _of_class(given, options)


class _Given(NamedTuple):
    run: Run
    data: Data
    text: str
    row: str
    out: str
    tokens: int

    def held_out(self) -> Int[np.ndarray, " time"]:
        """The held-out text that is meant, without marks after its end."""
        part, _ = self.data.held_out()
        which = chosen_rows(self.row or "0", len(part))
        if len(which) > 1:
            raise ArgumentError(
                f"rows={self.row}: texts are explained one at a time", remedy=f"choose one: rows={which[0]}"
            )
        found = np.asarray(part.batch(which).x)[0].astype(np.int32)
        return found[found < len(self.run.schema.tokens)]

    def pieces(self, tokens: np.ndarray) -> list[str]:
        """Tokens as text."""
        return list(tokenizers.of(self.run.schema).pieces(tokens))


def _explained(
    f: Any, own: np.ndarray, masker: Masker, output: int, title: str, options: Mapping[str, Any]
) -> Explanation:
    names = [""] * output + [title]
    return shapley(f, own, absent=masker, output=output, output_names=names, **options)


def _of_last(given: _Given, background: int, options: Mapping[str, Any]) -> TextValues:
    schema, train = given.run.schema, given.data.train
    most = schema.shape[0]
    text, tokens = given.text, min(given.tokens, most)
    own = tokens_of(schema, text, most=most) if text else given.held_out()[:tokens]
    passages = np.asarray(train.batch(np.unique(np.linspace(0, len(train) - 1, background).astype(int))).x)
    if passages.shape[1] < len(own):
        raise ArgumentError(
            f"text: {len(own)} tokens, training passages have {passages.shape[1]}", remedy="shorten it"
        )
    others = passages[:, : len(own)].astype(own.dtype)
    pieces = given.pieces(own)
    before = len(own) - 1
    masker = Replacing(
        replacements=jnp.asarray(others),
        weights=jnp.full(len(others), 1 / len(others)),
        owners=jnp.asarray(np.append(np.arange(before), -1)),
        names=tuple(f"{i + 1}: {piece}" for i, piece in enumerate(pieces[:-1])),
        kind=f"tokens of {len(others)} other passages",
        fingerprint=fingerprint_of(others),
    )
    title = f"log-probability of {pieces[-1]!r}"
    return TextValues(
        _explained(LastToken(given.run.model), own, masker, 0, title, options), pieces, "nats", "token"
    )


def _of_gap(given: _Given, options: Mapping[str, Any]) -> TextValues:
    """A hidden token changes nothing when it is absent: its own value is 0."""
    model: Any = given.run.model
    schema = given.run.schema
    posed = model.posed(given.text) if given.text else model.posed(given.held_out()[: given.tokens])
    own, position = np.asarray(posed.inputs[0]), posed.position
    check_length(own, most=schema.shape[0])
    f = HiddenToken(model, position)
    if given.out:
        answer = answers.number_of(schema, given.out, "out")
    elif given.text:
        answer = int(np.asarray(_called(f, jnp.asarray(own)[None]))[0].argmax())
    else:
        answer = int(given.held_out()[position])
    hidden = int(own[position])
    pieces = ["[MASK]" if token == hidden else given.pieces(np.array([token]))[0] for token in own.tolist()]
    masker = masked_tokens(own, hidden, pieces)
    title = f"log-probability of {answers.name_of(schema, answer)!r} in the gap"
    return TextValues(_explained(f, own, masker, answer, title, options), pieces, "nats", "token")


def _of_class(given: _Given, options: Mapping[str, Any]) -> TextValues:
    schema = given.run.schema
    end = len(schema.tokens)
    own = tokens_of(schema, given.text, most=schema.shape[0] - 1) if given.text else given.held_out()
    asked = asked_output(given.run, given.data, given.out, np.append(own, end)[None].astype(np.int32))
    pieces = given.pieces(own)
    words = words_of(pieces)
    shown = ["".join(pieces[i] for i in word) for word in words]
    groups = {
        f"{number + 1} {one.strip()}": word
        for number, (one, word) in enumerate(zip(shown, words, strict=True))
    }
    masker = removed_tokens(own, end, groups=groups)
    f = EndedText(asked.function, end)
    found = _explained(f, own, masker, asked.output, asked.name, options)
    return TextValues(found, shown, asked.function.unit, "word")


@eqx.filter_jit
def _called(f: Any, tokens: Array) -> Array:
    found: Array = f(tokens)
    return found


def words_of(pieces: Sequence[str]) -> list[list[int]]:
    """Tokens that make up each word, with the white space after it, or before it where tokens begin with it.

    >>> words_of(["a", "t", " ", "s", "e", "a"]), words_of(["at", " se", "a"])
    ([[0, 1, 2], [3, 4, 5]], [[0], [1, 2]])
    """
    found: list[list[int]] = []
    for i, piece in enumerate(pieces):
        after_space = i > 0 and pieces[i - 1][-1:].isspace() and not piece.isspace()
        begins = piece[:1].isspace() and bool(piece.strip())
        if not found or after_space or begins:
            found.append([])
        found[-1].append(i)
    return found


__all__ = ["EndedText", "HiddenToken", "LastToken", "TextValues", "reads_tokens", "token_values", "words_of"]
