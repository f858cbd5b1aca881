"""Some examples at once: what models, losses and scores are given."""

from typing import Any, NamedTuple


class Documents(NamedTuple):
    """Beside rows of text that several documents share: whose each symbol is."""

    numbers: Any
    """The number within its row of the document each symbol belongs to, -1 for padding."""


class Beginnings(NamedTuple):
    """Beside passages of a text that is read in streams."""

    places: Any
    """Where in the text each passage begins."""


class Batch(NamedTuple):
    """Examples `x` with a leading batch axis and what belongs to them: targets `y`, or what is known of texts."""

    x: Any
    y: Any = None

    @property
    def documents(self) -> Any:
        """Text: the number of each symbol's document; `None` where a row is one text."""
        return self.y.numbers if isinstance(self.y, Documents) else None

    @property
    def begins(self) -> Any:
        """Text read in streams: where each passage begins; `None` otherwise."""
        return self.y.places if isinstance(self.y, Beginnings) else None

    @property
    def weight(self) -> int:
        """What the mean over this batch is a mean of: examples, or symbols that are predicted."""
        if self.documents is None:
            return len(self.x)
        return int(predicted(self.documents).sum())


def predicted(documents: Any) -> Any:
    """Whether each symbol after the first of a row follows another of its own document, and so is predicted.

    >>> import numpy as np
    >>> predicted(np.array([[0, 0, 1, 1, -1, -1]])).astype(int).tolist()
    [[1, 0, 1, 0, 0]]
    """
    return (documents[:, 1:] == documents[:, :-1]) & (documents[:, 1:] >= 0)


__all__ = ["Batch", "Beginnings", "Documents", "predicted"]
