"""Names and layouts that other libraries give to the same weights."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias, final

from chainrule.data.text.tokenizers import Tokenizer
from chainrule.models.protocol.model import Model


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


class FileFormat(NamedTuple):
    """How to read the files of a program that has a format of its own."""

    weights: Callable[[Path, Tokenizer], Model]
    tokenizer: Callable[[Path], Tokenizer]


__all__ = ["FileFormat", "Flattened", "InOut", "Joined", "Name", "NameTable"]
