"""What files of other libraries call the layers of a model, and how they hold them.

A table maps the place of a layer in our model (`blocks.0.attention.inward`) to its name in the file, or to one of the
records below where the file holds it in another way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, final


class Flattened(NamedTuple):
    """The name of a dense layer that acts on a flattened feature map of this grid.

    The order of its inputs depends on the library: channels last here, channels first in PyTorch.
    """

    name: str
    grid: tuple[int, ...]


class InOut(NamedTuple):
    """The name of a dense layer whose matrix is stored as (inputs, outputs), as GPT-2 has it.

    Some programs write the same names with (outputs, inputs). Which of the two a file holds is read from its matrices
    that are not square, all of which must agree.
    """

    name: str


class Joined(NamedTuple):
    """The names of several dense layers that are one here, side by side: queries, keys and values."""

    names: tuple[str, ...]
    widths: tuple[int, ...]
    """The outputs of each, in the same order."""


Name: TypeAlias = str | Flattened | InOut | Joined


@final
@dataclass(frozen=True)
class NameTable:
    """Names of layers, and what else is particular about the files of a library."""

    layers: Mapping[str, Name]
    prefix: str = ""
    """What may stand before every name."""
    ignored: tuple[str, ...] = ()
    """Endings of names that hold no weights, such as masks."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Names that repeat another array, where they are there at all: `{"lm_head.weight": "wte.weight"}`."""


__all__ = ["Flattened", "InOut", "Joined", "Name", "NameTable"]
