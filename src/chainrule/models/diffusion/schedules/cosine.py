"""The cosine schedule: alpha_bar falls like a squared cosine (Nichol and Dhariwal, 2021)."""

import numpy as np

from chainrule.models.diffusion.schedules.schedule import TabulatedSchedule, from_beta


def cosine(count: int = 1000) -> TabulatedSchedule:
    """alpha_bar = f(t)/f(0), f = cos²((t + 0.008)/1.008 pi/2), steps clipped to 1 - alpha <= 0.999.

    >>> round(float(cosine().alpha_bar[499]), 7)
    0.4938436
    """
    t = np.linspace(0, 1, count + 1)
    f = np.square(np.cos((t + 0.008) / 1.008 * np.pi / 2))
    return from_beta(np.minimum(1 - f[1:] / f[:-1], 0.999))


__all__ = ["cosine"]
