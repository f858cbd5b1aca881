"""Text that any XML file may hold: control characters made visible, long texts cut."""

import unicodedata


def plain(text: object, limit: int | None = None) -> str:
    """Text that any XML file may hold, on one line: control characters become visible, a long text is cut.

    >>> plain("a\\nb\\x00")
    'a↵b\\\\x00'
    >>> plain("a long story", limit=7)
    'a long…'
    """
    shown = "".join(_visible(character) for character in str(text))
    return shown if limit is None or len(shown) <= limit else shown[: limit - 1] + "…"


def printable(text: object) -> str:
    """The same for text of several lines: line breaks and tabs stay."""
    return "".join(c if c in "\n\t" else _visible(c) for c in str(text))


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return {"\n": "↵", "\t": "⇥"}.get(character, f"\\x{code:02x}")
    # Other controls, halves of surrogate pairs and the codes reserved for nothing may not stand in an XML file; marks
    # that turn the direction of the text around would let a name rewrite its neighbourhood.
    if unicodedata.category(character) in ("Cc", "Cs") or code & 0xFFFE == 0xFFFE or code in _TURNS:
        return "\N{REPLACEMENT CHARACTER}"
    return character


_TURNS = frozenset([0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])


__all__ = ["plain", "printable"]
