"""What classes of music are made of: one name, or several with slashes between them, such as composer/form.

A model is told each name by a one beside every event, so that it can be told all of them, some or none, also together
where no piece had them together.
"""

from collections.abc import Sequence
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.types import Array, Float, Int, Key

_HIDDEN = 0.5
"""How often each of several names is not said of an excerpt of which any may be."""
_SHOWN = 12


@final
class ClassParts(NamedTuple):
    """The names that classes are made of, each with its place between the slashes."""

    names: tuple[tuple[int, str], ...]
    table: Float[np.ndarray, "classes parts"]
    """A one for each name of each class."""

    def ones(self, classes: Int[Array, " batch"]) -> Float[Array, "batch parts"]:
        """Ones for the names of each class; zeros for the class -1, of which nothing is said."""
        return jax.nn.one_hot(classes, len(self.table)) @ jnp.asarray(self.table, jnp.float32)

    def hidden(
        self, key: Key, ones: Float[Array, "batch parts"], share: float
    ) -> Float[Array, "batch parts"]:
        """All names of this share of the excerpts unsaid; of several, each in every second of the others."""
        for_all, for_each = key, jax.random.fold_in(key, 1)
        unsaid = jax.random.bernoulli(for_all, share, (len(ones),))[:, None]
        levels = np.array([level for level, _ in self.names])
        if levels.any():
            single = jax.random.bernoulli(for_each, _HIDDEN, (len(ones), int(levels.max()) + 1))
            unsaid = unsaid | single[:, levels]
        return jnp.where(unsaid, 0.0, ones)

    def of(self, words: str) -> Float[np.ndarray, " parts"]:
        """Ones for the names that a user says, with commas between them."""
        known = [name for _, name in self.names]
        found = np.zeros(len(known), np.float32)
        for word in (one.strip() for one in words.split(",")):
            if word not in known:
                named = (
                    f"it knows: {', '.join(known[:_SHOWN])}"
                    if known
                    else "the music of training had no classes"
                )
                raise ArgumentError(
                    f"of={words}: the model knows no {word!r}{suggest(word, known)}", remedy=named
                )
            found[[at for at, name in enumerate(known) if name == word]] = 1
        levels = [level for (level, _), one in zip(self.names, found, strict=True) if one]
        if len(set(levels)) < len(levels):
            raise ArgumentError(
                f"of={words}: a piece has one name for each folder it lies in", remedy="leave one of them out"
            )
        return found


def parts_of(classes: Sequence[str]) -> ClassParts:
    """The names that these classes are made of, those before the first slash first.

    >>> found = parts_of(["bach/fugue", "bach/suite", "ravel/suite"])
    >>> [name for _, name in found.names], found.table.astype(int).tolist()
    (['bach', 'ravel', 'fugue', 'suite'], [[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1]])
    """
    split = [name.split("/") for name in classes]
    deepest = max(map(len, split), default=0)
    every = [(level, words[level]) for level in range(deepest) for words in split if level < len(words)]
    names = tuple(dict.fromkeys(every))
    table = np.zeros((len(split), len(names)))
    for row, words in zip(table, split, strict=True):
        row[[names.index(one) for one in enumerate(words)]] = 1
    return ClassParts(names, table)


__all__ = ["ClassParts", "parts_of"]
