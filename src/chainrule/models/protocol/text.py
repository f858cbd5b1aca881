"""Language models: reading and writing token by token, search, translation, surprisal."""

import abc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, final

import equinox as eqx

from chainrule.core.types import Array, Float, Int, Key
from chainrule.models.protocol.likelihood import HasLogProb
from chainrule.models.protocol.sampling import CanSample


class DecodingState(eqx.Module):
    """What a model remembers of the tokens it has read: arrays whose shapes do not change as it reads on."""

    position: eqx.AbstractVar[Int[Array, ""]]
    """How many tokens were read, the same for the whole batch."""

    @abc.abstractmethod
    def fork(self, rows: Int[Array, " rows"]) -> Self:
        """The state of these rows of the batch, which may come repeatedly and in any order."""

    @abc.abstractmethod
    def rewind(self, position: int | Int[Array, ""]) -> Self:
        """The state as it was after the first `position` tokens; a `CapabilityError` where these are not kept."""


@final
@dataclass(frozen=True)
class StreamedToken:
    """One token of a text that is being written."""

    token: int
    text: str
    """What can be shown by now; empty while a character is incomplete or may turn out to begin a stop string."""
    log_prob: float
    """Log-probability of the token under the model as it is, in nats."""
    alternatives: tuple[tuple[str, float], ...]
    """The tokens the model finds likeliest here, with their probabilities."""
    per_second: float
    """Tokens written per second so far, compilation left out."""


class CanContinue(CanSample):
    """Writes on from a beginning, one token at a time."""

    @abc.abstractmethod
    def start(self, batch: int, room: int) -> DecodingState:
        """The state before the first token, with room for this many tokens.

        More room than the model's context asks for a sliding window: a `CapabilityError` where that makes no sense.
        """

    @abc.abstractmethod
    def advance(
        self, state: DecodingState, tokens: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch time vocabulary"], DecodingState]:
        """Read tokens, one or many: the logits of the token after each of them, and the state after the last."""

    @abc.abstractmethod
    def next_log_probs(
        self, logits: Float[Array, "*batch vocabulary"], **options: Any
    ) -> Float[Array, "*batch vocabulary"]:
        """Log-probabilities from which `sample` draws the next token under its options, minus infinity where cut.

        The options are `temperature`, `top_k`, `top_p` and `min_p`.
        """

    @abc.abstractmethod
    def stream(self, key: Key, prompt: str = "", **options: Any) -> Iterator[StreamedToken]:
        """Write a text token by token; the tokens are those of the first row of `sample` with the same key."""


class Hypothesis(NamedTuple):
    """One of the texts that a search ends with."""

    text: str
    """Without the prompt."""
    log_prob: float
    """Log-probability of its tokens, in nats."""
    rank: float
    """What it was compared by: the higher the better."""


class CanSearch(CanContinue):
    """Keeps several texts at once while it writes, and compares them."""

    @abc.abstractmethod
    def search(self, key: Key, prompt: str = "", *, beams: int = 4, **options: Any) -> Sequence[Hypothesis]:
        """The texts that a search with this many beams ends with, the best first."""


class CanTranslate(CanSample):
    """Turns a text into another: a model of targets given their sources, rows with an end mark as in `data.Pairs`."""

    @abc.abstractmethod
    def log_prob_given(
        self, y: Int[Array, "batch target"], x: Int[Array, "batch source"]
    ) -> Float[Array, " batch"]:
        """Natural logarithm of the probability of each target, its end included, given its source."""

    @abc.abstractmethod
    def translate(self, x: Int[Array, "batch source"], *, beams: int = 1) -> Int[Array, "batch target"]:
        """The target each source most likely becomes: the best that a beam of this width finds, greedily for 1."""


class HasSurprisal(HasLogProb):
    """Knows the probability of every single token given those before it."""

    @abc.abstractmethod
    def surprisal(
        self, x: Int[Array, "batch tokens"], key: Key | None = None
    ) -> Float[Array, "batch predicted"]:
        """Minus the log-probability of each token after the first, in nats; a key switches dropout on."""


class CanPack(HasSurprisal):
    """Reads several documents that share a row, each by itself."""

    @abc.abstractmethod
    def packed_surprisal(
        self, x: Int[Array, "batch tokens"], documents: Int[Array, "batch tokens"], key: Key | None = None
    ) -> Float[Array, "batch predicted"]:
        """The surprisal of each token after the first, given those before it in its own document.

        `documents` numbers the documents of a row, -1 stands for padding. What is said about the first token of a
        document and about padding means nothing; see `data.batches.predicted`.
        """


class CanPad(CanContinue):
    """Goes on from beginnings of different length at once, which end together: padding stands before the shorter."""

    @abc.abstractmethod
    def start_padded(self, padding: Int[Array, " batch"], room: int) -> DecodingState:
        """As `start`, for rows whose first `padding` tokens are masked and count as no positions."""


__all__ = [
    "CanContinue",
    "CanPack",
    "CanPad",
    "CanSearch",
    "CanTranslate",
    "DecodingState",
    "HasSurprisal",
    "Hypothesis",
    "StreamedToken",
]
