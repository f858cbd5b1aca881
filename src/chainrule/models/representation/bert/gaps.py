"""Gaps: how training makes them, and how they are written in a text."""

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
from chainrule.data.text.tokenizers import Tokenizer, WordPiece

MASK = "[MASK]"
"""How a gap is written in a text, whatever the vocabulary."""
_HIDDEN, _OTHER = 0.8, 0.1
"""Of the tokens to be guessed: shares that are hidden, and replaced by another; the rest stay as they are."""


@final
@dataclass(frozen=True)
class Gaps:
    """Text with gaps to symbols, for one tokenizer.

    >>> from chainrule.data.text.tokenizers import Character
    >>> Gaps(Character(("a", "b"))).encode("ab[MASK]a").tolist()
    [0, 1, 2, 0]
    """

    tokenizer: Tokenizer

    @functools.cached_property
    def mask(self) -> int:
        """The number of a hidden symbol: one past the vocabulary where that has none."""
        return self.tokenizer.vocab.get(MASK, len(self.tokenizer))

    @functools.cached_property
    def special(self) -> tuple[int, ...]:
        """Symbols that stand for no text and are never to be guessed."""
        names = self.tokenizer.special if isinstance(self.tokenizer, WordPiece) else ()
        return tuple(self.tokenizer.vocab[name] for name in names)

    def encode(self, text: str, *, whole: bool = False) -> Whole[np.ndarray, " symbols"]:
        """The symbols of a text; `whole` puts those around it that the vocabulary has for beginning and end."""
        parts = [self.tokenizer.encode(part).tolist() for part in re.split(re.escape(MASK), text)]
        ids: list[int] = parts[0]
        for part in parts[1:]:
            ids += [self.mask, *part]
        if whole:
            vocab = self.tokenizer.vocab
            begin, end = ([vocab[name]] if name in vocab else [] for name in ("[CLS]", "[SEP]"))
            ids = [*begin, *ids, *end]
        return np.array(ids, np.int32)


class Chosen(NamedTuple):
    """Places of each row that are to be guessed, and what becomes of them; the rest stay as they are."""

    places: Int[Array, "batch places"]
    hidden: Bool[Array, "batch places"]
    replaced: Bool[Array, "batch places"]


def choose(key: Key, preference: Float[Array, "batch time"], share: float) -> Chosen:
    """Choose equally many places of each row at random, those of larger preference first.

    Of the chosen places 80 % are hidden, 10 % replaced and 10 % left alone, so that a model cannot rely on seeing
    which ones count (Devlin et al., 2019).
    """
    for_places, for_fate = jax.random.split(key)
    count = max(1, round(share * preference.shape[1]))
    order = preference + jax.random.uniform(for_places, preference.shape)
    places = jax.lax.top_k(order, count)[1]
    fate = jax.random.uniform(for_fate, places.shape)
    hidden = fate < _HIDDEN
    return Chosen(places, hidden, ~hidden & (fate < _HIDDEN + _OTHER))


def draw_gaps(
    key: Key,
    x: Int[Array, "batch time"],
    share: float,
    symbols: int,
    mask: int,
    special: tuple[int, ...] = (),
) -> tuple[Int[Array, "batch places"], Int[Array, "batch time"]]:
    """The places to be guessed, and the texts in which most of them are hidden or hold any symbol.

    A row with fewer plain symbols than places guesses special ones.
    """
    for_choice, for_other = jax.random.split(key)
    preference = jnp.zeros(x.shape)
    for number in special:
        preference = jnp.where(x == number, -1.0, preference)
    places, hidden, replaced = choose(for_choice, preference, share)
    other = jax.random.randint(for_other, places.shape, 0, symbols, x.dtype)
    old = jnp.take_along_axis(x, places, axis=1)
    new = jnp.where(hidden, mask, jnp.where(replaced, other, old)).astype(x.dtype)
    return places, x.at[jnp.arange(len(x))[:, None], places].set(new)


__all__ = ["MASK", "Chosen", "Gaps", "choose", "draw_gaps"]
