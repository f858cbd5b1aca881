"""Names and layouts that other libraries give to the same weights."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from chainrule.core.errors import DataError
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


class Patches(NamedTuple):
    """The name of a convolution whose kernels tile an image; here a dense layer on square patches of that side."""

    name: str
    side: int


@final
@dataclass(frozen=True)
class Spelled:
    """The names of a layer's arrays in full, where a file does not call them `name.weight` and `name.bias`."""

    arrays: Mapping[str, str]
    """From the array here to its name there: `{"weight": "in_proj_weight"}`."""
    before: int = 0
    after: int = 0
    """Axes of length one that the file has before and after those that mean something."""
    adapt: Callable[[np.ndarray, tuple[int, ...]], np.ndarray | None] | None = None
    """Makes an array of another shape out of the one in the file, such as positions for images of another size."""


Name: TypeAlias = str | Flattened | InOut | Joined | Patches | Spelled


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
    bare: tuple[str, ...] = ()
    """Beginnings of names that never have the prefix."""
    zeros: tuple[str, ...] = ()
    """Endings of names that a file may have beyond those of the model, if they are zero altogether."""

    def prefixed(self, name: str) -> str:
        """The name with the prefix, as files of the library itself have it.

        >>> table = NameTable({}, "model.", bare=("lm_head.",))
        >>> table.prefixed("norm.weight"), table.prefixed("lm_head.weight")
        ('model.norm.weight', 'lm_head.weight')
        """
        return name if name.startswith(self.bare) else self.prefix + name


def matrix_shape(shapes: Mapping[str, tuple[int, ...]], name: str) -> tuple[int, int]:
    """Rows and columns of an array of a file, which must be a matrix with something in it."""
    shape = shapes[name]
    if len(shape) != 2 or 0 in shape:
        raise DataError(f"{name} has the shape {shape}; a matrix of weights is expected")
    rows, columns = shape
    return rows, columns


def numbered(shapes: Mapping[str, object], pattern: str, arrays: int = 1) -> int:
    """How many layers of a file are numbered 0, 1, ... in names of this pattern; never more than it has arrays for.

    `arrays` is what a layer has at least.

    >>> numbered({"h.0.w": (), "h.1.w": (), "h.3.w": ()}, "h.{}.w")
    2
    """
    most = len(shapes) // arrays
    return next(n for n in range(most + 1) if n == most or pattern.format(n) not in shapes)


class FileFormat(NamedTuple):
    """How to read the files of a program that has a format of its own."""

    weights: Callable[[Path, Tokenizer], Model]
    tokenizer: Callable[[Path], Tokenizer]


class HuggingFace(NamedTuple):
    """What a folder of Hugging Face's transformers says of a model, in its `config.json`, and how to write one."""

    settings: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    """From `config.json` to settings and `tokens`, the size of the vocabulary; refuses what has no setting."""
    config: Callable[[Any], Mapping[str, Any]]
    """From a model to its `config.json`; refuses a mixture that the library has not."""
    untold: Callable[[Any], tuple[str, ...]]
    """Settings of a model that the shapes of its arrays do not tell: where nothing else says them, they are assumed."""
    copies: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Arrays that may repeat another one, which has one of these names."""
    more: Callable[[Any], Mapping[str, np.ndarray]] = lambda model: {}
    """Arrays that the library has and the model has not, such as biases that are zero."""
    extra: Callable[[Any], tuple[str, ...]] = lambda model: ()
    """Tokens that a model has beside those of its tokenizer."""
    opens: str = "AutoModelForCausalLM"
    """The class of the library that opens such a folder."""
    prefixed: bool = True
    """Whether names in a folder have the prefix of the table, as those of a body with its head do."""


__all__ = [
    "FileFormat",
    "Flattened",
    "HuggingFace",
    "InOut",
    "Joined",
    "Name",
    "NameTable",
    "Patches",
    "Spelled",
    "matrix_shape",
    "numbered",
]
