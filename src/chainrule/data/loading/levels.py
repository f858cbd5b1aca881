"""Numbers that count levels: whole numbers from 0 on, kept as they are instead of being standardised."""

import numpy as np
from jaxtyping import Integer, Shaped

from chainrule.data.loading.moments import chunks
from chainrule.data.loading.problems import Refused


def counted(
    x: Shaped[np.ndarray, "rows *axes"], rows: np.ndarray | None, levels: int, where: str
) -> Integer[np.ndarray, "rows *axes"] | np.memmap:
    """The numbers in the smallest type that holds all levels; `rows` are those that are examples.

    >>> counted(np.array([[0.0, 1.0], [1.0, 1.0]]), None, 2, "a table").dtype
    dtype('uint8')
    """
    if any(bool(np.isnan(piece).any()) for piece in chunks(x, rows) if piece.dtype.kind == "f"):
        raise Refused(
            "unknown levels",
            where,
            f"levels={levels}: some cells are missing",
            "leave their rows out: data.missing=drop",
        )
    low = min(float(piece.min()) for piece in chunks(x, rows))
    high = max(float(piece.max()) for piece in chunks(x, rows))
    whole = x.dtype.kind != "f" or all(bool((piece == np.rint(piece)).all()) for piece in chunks(x, rows))
    if low < 0 or high >= levels or not whole:
        span = f"values from {low:g} to {high:g}{'' if whole else ', not all whole'}"
        fits = f"use data.levels={int(high) + 1}" if whole and 0 <= low <= high < 2**16 else ""
        raise Refused(
            "unknown levels",
            where,
            f"levels={levels} means whole numbers up to {levels - 1}; found {span}",
            fits,
        )
    return x if isinstance(x, np.memmap) else x.astype(np.min_scalar_type(levels - 1), copy=False)


__all__ = ["counted"]
