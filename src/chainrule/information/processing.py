"""Data processing: what a chain of maps keeps of its input and of the answer, which can only become less.

For Y - X - h1 - h2 - ..., I(h; Y) and I(X; h) never rise from one stage to the next, exactly so for tables. Of
estimates `check_processing` says where they rise by more than their errors.

Reference: Cover and Thomas, Elements of Information Theory, 2nd edition, 2006, section 2.8.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.information.entropies import shared, total
from chainrule.information.tables import rows, table
from chainrule.information.units import scale, takes_base

_ROUNDING = 1e-9


@final
@dataclass(frozen=True, eq=False)
class DataProcessing:
    """What each stage of a chain keeps; the first stage is X itself."""

    unit: str
    about_input: np.ndarray
    """I(X; stage): of X itself, H(X)."""
    about_answer: np.ndarray
    """I(stage; Y)."""

    @property
    def holds(self) -> bool:
        """Whether information never rises by more than rounding; it cannot."""
        rises = np.diff(self.about_input), np.diff(self.about_answer)
        return all((one <= _ROUNDING).all() for one in rises)


@takes_base
def data_processing(joint: Any, stages: Sequence[Any], unit: str = "bits") -> DataProcessing:
    """I(X; h) and I(h; Y) along a chain X - h1 - h2 - ... that starts from a joint table p(x, y).

    A stage is a matrix p(next given value before), one row for each value before, or a vector of whole numbers: the
    value that each value before becomes.

    >>> found = data_processing(np.eye(4) / 4, [[0, 0, 1, 1], [0, 0]])
    >>> found.about_answer.round(6).tolist(), found.holds
    ([2.0, 1.0, 0.0], True)
    """
    where = "data_processing"
    factor = scale(unit, where)
    values = table(where, "joint", joint, 2)
    of_x = values.sum(axis=1)
    encoder = np.eye(len(values))
    about_input, about_answer = [total(of_x)], [shared(values)]
    for number, stage in enumerate(stages, start=1):
        encoder = encoder @ _stage(where, number, stage, encoder.shape[1])
        about_input.append(shared(of_x[:, None] * encoder))
        about_answer.append(shared(encoder.T @ values))
    return DataProcessing(unit, np.array(about_input) * factor, np.array(about_answer) * factor)


def _stage(where: str, number: int, given: Any, before: int) -> np.ndarray:
    values = np.asarray(given)
    if values.ndim == 1:
        if len(values) != before or not np.issubdtype(values.dtype, np.integer) or values.min() < 0:
            raise ArgumentError(
                f"{where}(stages): stage {number} needs a whole number of at least 0 for each of {before} values, or a "
                f"matrix; not {values.dtype} of shape {values.shape}"
            )
        return np.asarray(np.eye(int(values.max()) + 1)[values])
    matrix = rows(where, f"stages[{number - 1}]", values)
    if len(matrix) != before:
        raise ArgumentError(
            f"{where}(stages): stage {number} has {len(matrix)} rows, the stage before {before} values"
        )
    return matrix


__all__ = ["DataProcessing", "data_processing"]
