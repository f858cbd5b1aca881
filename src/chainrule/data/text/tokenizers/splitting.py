"""Rules that cut a text into chunks before anything is merged.

A merge never crosses the border of a chunk; without borders a token could swallow a whole phrase. The rules are those
of the `tokenizers` package, written for the standard library: its classes of characters (letters, numbers, white
space, word characters) are spelled out from the Unicode table, because those of `re` differ (`re` counts the
separators 0x1C to 0x1F as white space, and no combining mark as part of a word). The chunks are the same for every
character that the running Python's Unicode table knows; later characters count as symbols.
"""

import functools
import itertools
import re
import sys
import unicodedata
from collections.abc import Callable

from chainrule.core.errors import check_choice

WORDS_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""The splitting of GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019)."""

RULES = ("none", "words", "whitespace", "spaces")
LOSSY = ("whitespace", "spaces")
"""Rules that drop white space, so that a text does not come back."""

_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# Letters in circles and squares are alphabetic although their category is "other symbol".
_ENCLOSED = "\u24b6-\u24e9\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189"
_JOINERS = "\u200c\u200d"


def split(text: str, rule: str) -> list[str]:
    r"""The chunks of a text, in order.

    - "words": contractions, and letters, digits or other characters with the space in front of them; nothing is lost;
    - "whitespace": words and what stands between them, without white space;
    - "spaces": whatever white space separates;
    - "none": the text as one chunk.

    >>> split("I'll  pay 12$ now\n", "words")
    ['I', "'ll", ' ', ' pay', ' 12', '$', ' now', '\n']
    >>> split("Don't panic!", "whitespace"), split("Don't panic!", "spaces")
    (['Don', "'", 't', 'panic', '!'], ["Don't", 'panic!'])
    """
    check_choice("split", "rule", rule, RULES)
    if rule == "none":
        return [text] if text else []
    return _pattern(rule).findall(text)


@functools.cache
def _pattern(rule: str) -> re.Pattern[str]:
    space = _SPACE
    if rule == "spaces":
        return re.compile(f"[^{space}]+")
    if rule == "whitespace":
        word = _ranges(lambda name: name[0] in "LM" or name in ("Nd", "Nl", "Pc")) + _ENCLOSED + _JOINERS
        return re.compile(f"[{word}]+|[^{word}{space}]+")
    letter, number = _ranges(lambda name: name[0] == "L"), _ranges(lambda name: name[0] == "N")
    return re.compile(
        f"'(?:s|t|re|ve|m|ll|d)| ?[{letter}]+| ?[{number}]+| ?[^{space}{letter}{number}]+"
        f"|[{space}]+(?![^{space}])|[{space}]+"
    )


@functools.cache
def _runs() -> tuple[tuple[str, int, int], ...]:
    """The Unicode table as runs of one category: name, first and last code point."""
    runs, first = [], 0
    for name, run in itertools.groupby(map(unicodedata.category, map(chr, range(sys.maxunicode + 1)))):
        last = first + sum(1 for _ in run) - 1
        runs.append((name, first, last))
        first = last + 1
    return tuple(runs)


def _ranges(wanted: Callable[[str], bool]) -> str:
    """All characters of the wanted categories, as the inside of a character class."""
    chosen = [(first, last) for name, first, last in _runs() if wanted(name)]
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in chosen)


__all__ = ["LOSSY", "RULES", "WORDS_PATTERN", "split"]
