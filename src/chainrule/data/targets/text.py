"""A text for each example: a caption, or what another text becomes."""

from collections.abc import Sequence
from typing import ClassVar, final

import numpy as np

from chainrule.data.division import Positions
from chainrule.data.loading.scan import Contents
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.target import Cells, Target
from chainrule.data.text import captions


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

    def captions(self, schema: Schema, y: np.ndarray) -> list[str]:
        """The texts."""
        return [captions.text(schema, row) for row in y]

    def cells(self, schema: Schema, y: np.ndarray) -> Cells:
        """A column with the text."""
        return Cells(["text"], [[text] for text in self.captions(schema, y)])


target = TextTarget()

__all__ = ["TextTarget", "target"]
