"""The sources that a mixture is the sum of."""

from collections.abc import Sequence
from typing import Any, ClassVar, final

import numpy as np

from chainrule.data.schema import Schema
from chainrule.data.target import Target


@final
class SourcesTarget(Target):
    """`y` holds a signal for each source, of the shape of the mixture; `Schema.classes` are their names."""

    has_sources: ClassVar[bool] = True

    def output_names(self, schema: Schema, columns: Sequence[str] = ()) -> tuple[str, ...]:
        """The names of the sources."""
        del columns
        return schema.classes

    def describe(self, schema: Schema) -> str:
        """The names of the sources."""
        return f", mixed of {', '.join(schema.classes)}"

    def details(self, schema: Schema) -> list[tuple[str, Sequence[str]]]:
        """The same, as a list."""
        return [("sources", schema.classes)]

    def recognised(self, schema: Schema, values: Sequence[Any] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The signals, where there is one for each source."""
        y = np.zeros((len(values), *schema.target_shape), np.float32)
        known = np.zeros(len(values), bool)
        for row, value in enumerate(values):
            if value is not None and np.shape(value) == y.shape[1:]:
                y[row], known[row] = value, True
        return y, known


target = SourcesTarget()

__all__ = ["SourcesTarget", "target"]
