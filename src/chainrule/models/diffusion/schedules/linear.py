"""The linear schedule: the variance added per step grows linearly (Ho et al., 2020)."""

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.models.diffusion.schedules.schedule import TabulatedSchedule, from_beta


def linear(count: int = 1000) -> TabulatedSchedule:
    """1 - alpha from 1e-4 to 0.02 over 1,000 steps; for other counts both ends are scaled by 1000/count.

    >>> round(float(linear().alpha_bar[499]), 7)
    0.0785872
    """
    scale = 1000 / count
    if scale * 0.02 > 0.999:
        raise ArgumentError(
            f"linear(count={count}): the last step would add variance {scale * 0.02:.3g}",
            remedy="use at least 21 levels, or the cosine schedule",
        )
    return from_beta(np.linspace(scale * 1e-4, scale * 0.02, count))


__all__ = ["linear"]
