"""Incremental detokenization: no half characters, and never a part of a stop string.

A token may hold some bytes of a character, and a stop string may span several tokens. Text is therefore held back
while it may still change, and given out as soon as it cannot.
"""

from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Int

from chainrule.data.text.tokenizers.tokenizer import Tokenizer
from chainrule.models.protocol.decoding.sampling import END

_INCOMPLETE = "\ufffd"
_KEPT = 64


@final
class Detokenizer:
    """Turns tokens into text piece by piece; the pieces joined are the whole text up to the first stop string.

    >>> from chainrule.data.text.tokenizers import ByteBPE
    >>> smile = ByteBPE.train("", vocab=256)
    >>> reader = Detokenizer(smile, stop=["END"])
    >>> [reader.read(int(i)) for i in smile.encode("ä!ENE")], reader.rest()
    (['', 'ä', '!', '', '', 'EN'], 'E')
    """

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = (), before: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._stop = [word for word in stop if word]
        # Read together with what comes before it, because some tokenizers treat the beginning of a text differently.
        self._ids = list(before)
        self._given = len(tokenizer.decode(self._ids))
        self.stopped = False
        """Whether a stop string has come."""

    def read(self, token: int) -> str:
        """The text that is certain once this token has come."""
        if self.stopped:
            return ""
        self._ids.append(token)
        text = self._text()
        found = [index for word in self._stop if (index := text.find(word)) >= 0]
        if found:
            self.stopped = True
            return self._give(text[: min(found)])
        sure = text.removesuffix(_INCOMPLETE)
        sure = sure[: len(sure) - self._pending(sure)]
        self._give(sure)
        if sure == text and len(self._ids) > _KEPT:  # so that a long text is not read again for every token
            self._ids = self._ids[-_KEPT // 4 :]
            self._given = len(self._tokenizer.decode(self._ids))
        return sure

    def rest(self) -> str:
        """What was held back, once no further token comes."""
        return "" if self.stopped else self._give(self._text())

    def _text(self) -> str:
        return self._tokenizer.decode(self._ids)[self._given :]

    def _give(self, text: str) -> str:
        self._given += len(text)
        return text

    def _pending(self, text: str) -> int:
        """How many characters at the end may be the beginning of a stop string."""
        return max(
            (n for word in self._stop for n in range(1, len(word)) if text.endswith(word[:n])), default=0
        )


def cut(
    tokenizer: Tokenizer,
    begun: Int[np.ndarray, "any begun"],
    tokens: Int[np.ndarray, "rows length"],
    stop: Sequence[str],
) -> Int[np.ndarray, "rows length"]:
    """Rows of tokens that end before the first stop string, filled up with `END`.

    Where a stop string begins inside a token, the text before it is spelled in smaller tokens.
    """
    if not stop:
        return tokens
    out = np.full_like(tokens, END)
    for i, row in enumerate(tokens):
        before = [int(t) for t in begun[min(i, len(begun) - 1)]]
        reader, texts = Detokenizer(tokenizer, stop, before), []
        kept = row[row != END].tolist()
        for token in kept:
            texts.append(reader.read(token))
            if reader.stopped:
                kept = _spelled(tokenizer, kept, "".join(texts))
                break
        out[i, : len(kept)] = kept[: tokens.shape[1]]
    return out


def _spelled(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> list[int]:
    """The longest run of whole tokens from the beginning that makes up text, and the tokens of its rest."""
    whole = max(n for n in range(len(ids) + 1) if text.startswith(tokenizer.decode(ids[:n])))
    return [*ids[:whole], *tokenizer.encode(text[len(tokenizer.decode(ids[:whole])) :]).tolist()]


__all__ = ["Detokenizer", "cut"]
