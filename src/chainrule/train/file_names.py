"""Names of files that answers to inputs are written to: those of the inputs, safe, and no two the same."""

from pathlib import Path


def plain(name: str) -> str:
    """A name that is safe in that of a file.

    >>> plain("left/right")
    'left-right'
    """
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name)


def free(name: str, taken: set[str], otherwise: str) -> str:
    """The name of an input without its ending, safe as that of a file, that no earlier one has.

    >>> taken: set[str] = set()
    >>> free("a/b.wav", taken, "sound"), free("a-b.flac", taken, "sound"), free("../.wav", taken, "sound")
    ('a-b', 'a-b-2', '-.wav')
    """
    stem = Path(name).with_suffix("").as_posix().replace("/", "-")
    safe = "".join(letter if letter.isalnum() or letter in "-_. " else "-" for letter in stem)
    stem = safe.strip(". ") or otherwise
    found, number = stem, 2
    while found in taken:
        found, number = f"{stem}-{number}", number + 1
    taken.add(found)
    return found


__all__ = ["free", "plain"]
