"""A hidden Markov model of text: each state emits tokens with probabilities of its own.

What has been read of a text says how likely each state is to emit the next token (the forward recursion), and that is
all the model remembers. Reading on is a product with the transition matrix, so that likelihoods are exact and texts are
written as by any other language model.
"""

from collections.abc import Sequence
from typing import Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol import CanEncode, DecodingState, HasOwnTraining, HasPictures, Metrics
from chainrule.models.text.hmm import text_pictures
from chainrule.models.text.hmm.config import HMMConfig
from chainrule.models.text.hmm.learning import learned
from chainrule.models.text.language_model import LanguageModel
from chainrule.nn.embedding import check_tokens
from chainrule.probability import HiddenMarkov
from chainrule.probability.markov.starting import best_guess_of_symbols


@final
class StateProbabilities(DecodingState):
    """How likely each state is to emit the next token, given those read so far."""

    position: Int[Array, ""]
    expected: Float[Array, "batch states"]

    def fork(self, rows: Int[Array, " rows"]) -> Self:
        """The state of these rows."""
        return type(self)(self.position, self.expected[rows])

    def rewind(self, position: int | Int[Array, ""]) -> Self:
        """Refused: earlier probabilities are not kept."""
        raise CapabilityError(
            f"rewind({position}): a hidden Markov model does not keep its earlier states",
            remedy="keep the state from before, or read the tokens again",
        )


@final
class TextHMM(LanguageModel, HasOwnTraining, CanEncode, HasPictures):
    """A chain of hidden states; each emits tokens."""

    initial: Float[Array, " states"]
    transition: Float[Array, "states states"]
    emission: Float[Array, "states tokens"]
    done: Bool[Array, ""]
    begun: Bool[Array, ""]
    config: HMMConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)
    context: None = eqx.field(static=True)

    def __init__(self, config: HMMConfig, schema: Schema, key: Key) -> None:
        del key  # training begins from the data
        if not kinds.of(schema).is_corpus(schema):
            raise CapabilityError(
                "hmm learns texts without targets; each of these has one",
                remedy="use data.target=none, or a model that predicts targets of texts, such as bert",
            )
        if config.covariance != "full":
            raise ArgumentError(
                f"covariance={config.covariance}: tokens have none", remedy="leave covariance out"
            )
        states, tokens = config.states, len(schema.tokens)
        self.initial = jnp.full(states, 1 / states)
        self.transition = jnp.full((states, states), 1 / states)
        self.emission = jnp.full((states, tokens), 1 / tokens)
        self.done = self.begun = jnp.zeros((), bool)
        self.config, self.schema, self.context = config, schema, None

    def hidden(self) -> HiddenMarkov:
        """The chain with its emissions: posterior, viterbi, filter and more."""
        return HiddenMarkov(_shares(self.initial), _shares(self.transition), _shares(self.emission))

    def iterate(self, examples: Batch, key: Key) -> tuple["TextHMM", Metrics]:
        """Two iterations of Baum-Welch; the first of all begin at the best of several guesses."""
        y = np.asarray(examples.x)
        model = self.hidden() if bool(self.begun) else self._guess(y, key)
        found, before, converged = learned(model, y, self.config)
        arrays = (found.start, found.transition, np.exp(found.emission.log_probs))  # type: ignore[attr-defined]
        new = eqx.tree_at(
            lambda m: (m.initial, m.transition, m.emission, m.done, m.begun),
            self,
            (
                *(jnp.asarray(one, self.initial.dtype) for one in arrays),
                jnp.asarray(converged),
                jnp.ones((), bool),
            ),
        )
        # The first token of a passage is given, not predicted.
        given = np.log(np.asarray(model.start) @ np.exp(model.emission.log_probs))[y[:, 0]].sum()  # type: ignore[attr-defined]
        return new, {"loss": jnp.asarray((given - before) / (y.size - len(y)))}

    @property
    def converged(self) -> bool:
        """When an iteration gains next to nothing."""
        return bool(self.done)

    def logits(
        self,
        x: Int[Array, "batch time"],
        key: Key | None = None,
    ) -> Float[Array, "batch time vocabulary"]:
        """Log-probabilities of the token after each position; NaN after a number that is that of no token."""
        del key  # nothing is dropped
        return self.advance(self.start(len(x), x.shape[1]), x)[0]

    def surprisal(
        self, x: Int[Array, "batch tokens"], key: Key | None = None
    ) -> Float[Array, "batch predicted"]:
        """Minus the log-probability of each token after the first, in nats, by the forward recursion alone."""
        del key
        likely, _ = self._read(self.start(len(x), x.shape[1]).expected, x)
        return -jnp.log(likely[:, 1:])

    def start(self, batch: int, room: int) -> StateProbabilities:
        """Nothing read yet."""
        del room  # what is remembered does not grow
        first = jnp.broadcast_to(_shares(self.initial)[None], (batch, len(self.initial)))
        return StateProbabilities(jnp.zeros((), jnp.int32), first)

    def advance(
        self, state: DecodingState, tokens: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch time vocabulary"], StateProbabilities]:
        """Read on from a state."""
        assert isinstance(state, StateProbabilities), "the state comes from start"
        _, ahead = self._read(state.expected, tokens)
        last = ahead[:, -1] if tokens.shape[1] else state.expected
        found = jnp.log(ahead @ _shares(self.emission))
        return found, StateProbabilities(state.position + tokens.shape[1], last)

    def encode(self, x: Int[Array, "batch tokens"]) -> Float[Array, "batch tokens states"]:
        """The probability of each state at each token, given the whole passage."""
        return jnp.asarray(self.hidden().posterior(x))

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """States over a held-out passage, what each emits, how they follow each other."""
        del key
        held = data.val if len(data.val) else data.train
        return text_pictures.all_of(self.hidden(), self.tokenizer, np.asarray(held.batch([0]).x[0]))

    def _guess(self, y: Int[np.ndarray, "batch tokens"], key: Key) -> HiddenMarkov:
        states, tokens = self.emission.shape
        return best_guess_of_symbols(key, states, tokens, y, pseudo_count=self.config.pseudo_count)

    def _read(
        self, expected: Float[Array, "batch states"], tokens: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch time"], Float[Array, "batch time states"]]:
        """The probability of each token given those before it, and of each state after it."""
        count = len(self.schema.tokens)
        check_tokens(tokens, count)
        transition = _shares(self.transition)
        known = jnp.where((tokens < 0) | (tokens >= count), count, tokens)
        seen = _shares(self.emission).T.at[known].get(mode="fill", fill_value=jnp.nan)

        def step(expected: Array, emitted: Array) -> tuple[Array, tuple[Array, Array]]:
            joint = expected * emitted
            likely = joint.sum(axis=-1)
            # After a token that cannot come, which costs infinitely much, the chain goes on as if none had been read.
            total = jnp.where(likely == 0, 1.0, likely)[:, None]
            now = jnp.where(likely[:, None] == 0, expected, joint / total)
            ahead = now @ transition
            return ahead, (likely, ahead)

        _, (likely, ahead) = jax.lax.scan(step, expected, jnp.moveaxis(seen, 1, 0))
        return likely.T, jnp.moveaxis(ahead, 0, 1)


def _shares(weights: Float[Array, "*rows outcomes"]) -> Float[Array, "*rows outcomes"]:
    """Rows that add up to one, whatever rounding has done to them."""
    return weights / weights.sum(axis=-1, keepdims=True)


__all__ = ["StateProbabilities", "TextHMM"]
