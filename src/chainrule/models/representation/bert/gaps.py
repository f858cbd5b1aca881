"""Masked positions: how training chooses them, and how they are written in a text."""

import functools
import re
from dataclasses import dataclass
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool
from jaxtyping import Int as Whole

from chainrule.core.types import Array, Float, Int, Key
from chainrule.data.text.tokenizers import Tokenizer

MASK = "[MASK]"
"""How a gap is written in a text, whatever the vocabulary."""
_HIDDEN, _OTHER = 0.8, 0.1
"""Of the tokens to be guessed: shares that are hidden, and replaced by another; the rest stay as they are."""


@final
@dataclass(frozen=True)
class Gaps:
    """Text with gaps to tokens, for one tokenizer.

    >>> from chainrule.data.text.tokenizers import Character
    >>> Gaps(Character(("a", "b"))).encode("ab[MASK]a").tolist()
    [0, 1, 2, 0]
    """

    tokenizer: Tokenizer

    @functools.cached_property
    def mask(self) -> int:
        """The number of a hidden token: one past the vocabulary where that has none."""
        return self.tokenizer.vocab.get(MASK, len(self.tokenizer))

    @functools.cached_property
    def special(self) -> tuple[int, ...]:
        """Tokens that stand for no text and are never to be guessed."""
        return tuple(self.tokenizer.vocab[name] for name in self.tokenizer.special)

    def encode(
        self, text: str, *, whole: bool = False, allow_special: bool = False
    ) -> Whole[np.ndarray, " tokens"]:
        """The tokens of a text; `whole` puts those around it that the vocabulary has for beginning and end.

        With `allow_special`, names of special tokens in the text become these tokens.
        """
        texts = re.split(re.escape(MASK), text)
        parts = [self.tokenizer.encode(part, allow_special=allow_special).tolist() for part in texts]
        ids: list[int] = parts[0]
        for part in parts[1:]:
            ids += [self.mask, *part]
        if whole:
            vocab = self.tokenizer.vocab
            begin, end = ([vocab[name]] if name in vocab else [] for name in ("[CLS]", "[SEP]"))
            ids = [*begin, *ids, *end]
        return np.array(ids, np.int32)


class Chosen(NamedTuple):
    """Positions of each row that are to be guessed, and what becomes of them; the rest stay as they are."""

    positions: Int[Array, "batch positions"]
    hidden: Bool[Array, "batch positions"]
    replaced: Bool[Array, "batch positions"]


def choose(key: Key, preference: Float[Array, "batch time"], share: float) -> Chosen:
    """Choose equally many positions of each row at random, those of larger preference first.

    Of the chosen positions 80 % are hidden, 10 % replaced and 10 % left alone, so that a model cannot rely on seeing
    which ones count (Devlin et al., 2019).
    """
    for_positions, for_fate = jax.random.split(key)
    count = max(1, round(share * preference.shape[1]))
    order = preference + jax.random.uniform(for_positions, preference.shape)
    positions = jax.lax.top_k(order, count)[1]
    fate = jax.random.uniform(for_fate, positions.shape)
    hidden = fate < _HIDDEN
    return Chosen(positions, hidden, ~hidden & (fate < _HIDDEN + _OTHER))


def draw_gaps(
    key: Key,
    x: Int[Array, "batch time"],
    share: float,
    tokens: int,
    mask: int,
    special: tuple[int, ...] = (),
) -> tuple[Int[Array, "batch positions"], Int[Array, "batch time"]]:
    """The positions to be guessed, and the texts in which most of them are hidden or hold any token.

    A row with fewer plain tokens than positions guesses special ones.
    """
    for_choice, for_other = jax.random.split(key)
    preference = jnp.where(jnp.isin(x, jnp.array(special, x.dtype)), -1.0, 0.0)
    positions, hidden, replaced = choose(for_choice, preference, share)
    other = jax.random.randint(for_other, positions.shape, 0, tokens, x.dtype)
    old = jnp.take_along_axis(x, positions, axis=1)
    new = jnp.where(hidden, mask, jnp.where(replaced, other, old)).astype(x.dtype)
    return positions, x.at[jnp.arange(len(x))[:, None], positions].set(new)


__all__ = ["MASK", "Chosen", "Gaps", "choose", "draw_gaps"]
