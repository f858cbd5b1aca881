"""A text for each example: a caption, or what another text becomes."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.data.division import Positions
from chainrule.data.loading.scan import Contents
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.target import Answers, Cells, Target
from chainrule.data.text import captions, pairs

_EMPTY = Schema("text", (0,))


@final
class TextTarget(Target):
    """`y` holds rows of tokens with an end mark; `Schema.target_tokens` is their vocabulary."""

    has_tokens: ClassVar[bool] = True

    def prepared(
        self, contents: Contents, schema: Schema, train: Positions
    ) -> tuple[Contents, Schema, Scaling | None]:
        """Characters become tokens; a tokenizer that is learnt sees the training texts alone."""
        schema, contents = captions.tokenise(contents, schema, train)
        return contents, schema, None

    def describe(self, schema: Schema) -> str:
        """How many different tokens."""
        return f" with captions, {len(schema.target_tokens):,} symbols"

    def details(self, schema: Schema) -> list[tuple[str, Sequence[str]]]:
        """The vocabulary."""
        return [("target tokens", [repr(token)[1:-1] for token in schema.target_tokens])]

    def recognised(self, schema: Schema, values: Sequence[Any] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of tokens of the texts that the run's own tokens can write."""
        y = np.full((len(values), *schema.target_shape), len(schema.target_tokens), np.int32)
        known = np.zeros(len(values), bool)
        for row, value in enumerate(values):
            if isinstance(value, str):
                with contextlib.suppress(ArgumentError):  # tokens that training did not have
                    y[row], known[row] = pairs.encode_target(schema, value, allow_special=True), True
        return y, known

    def said(self, contents: Contents, rows: Positions, schema: Schema) -> Sequence[Any] | np.ndarray:
        """The texts."""
        del schema
        assert contents.y is not None, "there are texts"
        letters = replace(_EMPTY, target_tokens=contents.target_alphabet)
        return [pairs.target_text(letters, row) for row in contents.y[rows]]

    def answers(
        self, schema: Schema, names: Sequence[str], predicted: np.ndarray, half: np.ndarray | None
    ) -> Answers:
        """The text."""
        del names, half
        return {"prediction": np.array(self.captions(schema, predicted), np.str_)}

    def captions(self, schema: Schema, y: np.ndarray) -> list[str]:
        """The texts."""
        return [captions.text(schema, row) for row in y]

    def cells(self, schema: Schema, y: np.ndarray) -> Cells:
        """A column with the text."""
        return Cells(["text"], [[text] for text in self.captions(schema, y)])


target = TextTarget()

__all__ = ["TextTarget", "target"]
