"""Tables as a person writes them on a command line: entries with commas, rows with semicolons, fractions as 1/3."""

import numpy as np

from chainrule.core.errors import ArgumentError


def written_matrix(name: str, text: str) -> np.ndarray:
    """A matrix from text.

    >>> written_matrix("transition", "0.9, 0.1; 1/2, 1/2").tolist()
    [[0.9, 0.1], [0.5, 0.5]]
    >>> written_matrix("transition", "0.9, x; 1, 0")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: transition: 'x' is no number
           for example transition='0.9,0.1; 1/2,1/2'
    """
    rows = [[_number(name, cell) for cell in row.split(",")] for row in text.strip(" ;").split(";")]
    if len({len(row) for row in rows}) > 1:
        lengths = ", ".join(str(len(row)) for row in rows)
        raise ArgumentError(
            f"{name}: needs rows of equal length, these have {lengths} entries",
            remedy=f"for example {name}='0.9,0.1; 1/2,1/2'",
        )
    return np.array(rows)


def _number(name: str, cell: str) -> float:
    above, slash, below = cell.partition("/")
    try:
        return float(above) / float(below) if slash else float(above)
    except (ValueError, ZeroDivisionError):
        raise ArgumentError(
            f"{name}: {cell.strip()!r} is no number", remedy=f"for example {name}='0.9,0.1; 1/2,1/2'"
        ) from None


__all__ = ["written_matrix"]
