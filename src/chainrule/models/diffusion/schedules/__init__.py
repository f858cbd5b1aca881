"""Noise schedules by name, and the grids on which samplers walk through them."""

from collections.abc import Callable
from typing import Any

from chainrule.core.errors import ArgumentError
from chainrule.core.registry import Registry
from chainrule.models.diffusion.schedules.continuous import (
    Karras,
    LogLinear,
    LogSNRLinear,
    RectifiedSchedule,
    VPLinear,
)
from chainrule.models.diffusion.schedules.cosine import cosine
from chainrule.models.diffusion.schedules.linear import linear
from chainrule.models.diffusion.schedules.schedule import (
    Rates,
    Schedule,
    TabulatedSchedule,
    from_alpha_bar,
    from_beta,
    from_sigma,
)
from chainrule.models.diffusion.schedules.spacing import SPACINGS, enough_noise, grid
from chainrule.models.diffusion.schedules.table import from_table, read_table
from chainrule.models.diffusion.schedules.times import drawn_times

schedules: Registry[Callable[..., Schedule]] = Registry("schedule")
schedules.add("linear", linear)
schedules.add("cosine", cosine)
schedules.add("vp-linear", VPLinear)
schedules.add("log-linear", LogLinear)
schedules.add("karras", Karras)
schedules.add("logsnr-linear", LogSNRLinear)
schedules.add("rectified", RectifiedSchedule)


def schedule(name: str, **options: Any) -> Schedule:
    """A schedule by its name; a table of the user's own comes from `from_alpha_bar`, `from_beta` or `from_sigma`.

    >>> schedule("linear", count=50).count
    50
    """
    make = schedules[name]
    try:
        return make(**options)
    except TypeError as error:
        raise ArgumentError(f"schedule {name!r}: {error}") from None


__all__ = [
    "SPACINGS",
    "Karras",
    "LogLinear",
    "LogSNRLinear",
    "Rates",
    "RectifiedSchedule",
    "Schedule",
    "TabulatedSchedule",
    "VPLinear",
    "cosine",
    "drawn_times",
    "enough_noise",
    "from_alpha_bar",
    "from_beta",
    "from_sigma",
    "from_table",
    "grid",
    "linear",
    "read_table",
    "schedule",
    "schedules",
]
