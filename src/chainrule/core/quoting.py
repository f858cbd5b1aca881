"""Text from outside, such as names of files, classes, columns and runs, made safe to show and to copy.

A name may hold escapes that a terminal obeys, line breaks that forge a line of output, marks that turn the direction of
text around, and `$(...)` that a shell would run. What is shown goes through `plain` (one line) or `printable` (several
lines), what is to be copied into a shell through `shell_word`. HTML is escaped on top of that by the report.
"""

import shlex
import unicodedata


def plain(text: object, limit: int | None = None) -> str:
    """Text on one line, as any terminal and any XML file may hold it: control characters become visible.

    A text longer than `limit` is cut.

    >>> plain("a\\nb\\x00"), plain("\\x1b[31mred"), plain("gpj.\\u202eexe")
    ('a↵b\\\\x00', '\\\\x1b[31mred', 'gpj.\\\\u202eexe')
    >>> plain("a long story", limit=7)
    'a long…'
    """
    shown = str(text)
    if not shown.isprintable():  # most texts need no work
        shown = "".join(_visible(character) for character in shown)
    return shown if limit is None or len(shown) <= limit else shown[: limit - 1] + "…"


def printable(text: object) -> str:
    """The same for text of several lines: line breaks and tabs stay."""
    shown = str(text)
    return shown if shown.isprintable() else "".join(c if c in "\n\t" else _visible(c) for c in shown)


def shell_word(text: object) -> str:
    """Text as one word of a command, which a shell reads as exactly this text and a person can see.

    >>> shell_word("moons-mlp-001"), shell_word("data=$(reboot).csv"), shell_word("a\\x1b[2Jb")
    ('moons-mlp-001', "'data=$(reboot).csv'", "$'a\\\\x1b[2Jb'")
    """
    word = str(text)
    if plain(word) == word:
        return shlex.quote(word)
    raw = b"".join(_bytes(character) for character in word)
    letters = {0x27: "\\'", 0x5C: "\\\\", 0x0A: "\\n", 0x09: "\\t"}
    kept = "".join(letters.get(c, chr(c) if 0x20 <= c < 0x7F else f"\\x{c:02x}") for c in raw)
    return f"$'{kept}'"  # bash, zsh, ksh: the only quotes in which a line break can be written visibly


def is_plain(text: str) -> bool:
    """Whether a text is shown as it is."""
    return plain(text) == text


def _bytes(character: str) -> bytes:
    """A character as the bytes of a file name; what stands for a single byte becomes that byte again."""
    alone = 0xDC80 <= ord(character) <= 0xDCFF
    return character.encode("utf-8", "surrogateescape" if alone else "surrogatepass")


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return {"\n": "↵", "\t": "⇥"}.get(character, f"\\x{code:02x}")
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    # Other controls, halves of surrogate pairs and the codes reserved for nothing may not stand in an XML file; marks
    # that turn the direction of the text around would let a name rewrite its neighbourhood.
    if (
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or code & 0xFFFE == 0xFFFE
        or code in _TURNS
    ):
        return f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}"
    return character


_TURNS = frozenset([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])


__all__ = ["is_plain", "plain", "printable", "shell_word"]
