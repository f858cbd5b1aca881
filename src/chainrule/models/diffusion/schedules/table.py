"""Noise schedules of a user's own: a table of numbers, from Python or from a file."""

from collections.abc import Callable, Sequence
from pathlib import Path

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.data.loading.options import MAX_BYTES, MAX_RATIO
from chainrule.data.loading.problems import Refused
from chainrule.data.readers import npy
from chainrule.models.diffusion.process import VariancePreserving
from chainrule.models.diffusion.schedules.schedule import (
    TabulatedSchedule,
    from_alpha_bar,
    from_beta,
    from_sigma,
)

_MAKE: dict[str, Callable[..., TabulatedSchedule]] = {
    "alpha_bar": from_alpha_bar,
    "beta": from_beta,
    "sigma": from_sigma,
}


def from_table(values: Sequence[float], of: str = "alpha_bar") -> TabulatedSchedule:
    """The variance preserving chain of a table, cleanest level first, whatever its numbers are.

    >>> from_table([0.1, 1.0, 10.0], "sigma").alpha_bar.round(3).tolist()
    [0.99, 0.5, 0.01]
    """
    check_choice("from_table", "of", of, tuple(_MAKE))
    if len(values) < 2:
        raise ArgumentError(
            f"table: {len(values)} levels", remedy="a schedule has at least two, cleanest first"
        )
    return TabulatedSchedule(_MAKE[of](values).lams, VariancePreserving())


def read_table(path: Path) -> tuple[float, ...]:
    """The numbers of a file: an NPY array, or text with a number on every line or commas between them."""
    where = path.expanduser()
    if not where.is_file():
        raise ArgumentError(
            f"table={path}: there is no such file", remedy="give numbers with commas, or a file"
        )
    if where.suffix.lower() == ".npy":
        try:
            return tuple(npy.read(where, str(path), MAX_BYTES.default, MAX_RATIO.default).ravel().tolist())
        except Refused as refused:
            raise ArgumentError(f"table={path}: {refused.problem.detail}") from None
    words = where.read_text(encoding="utf-8").replace(",", " ").replace(";", " ").split()
    try:
        return tuple(float(word) for word in words)
    except ValueError as error:
        raise ArgumentError(
            f"table={path}: {error}", remedy="a file of numbers alone, without names of columns"
        ) from None


__all__ = ["from_table", "read_table"]
