"""Units of information: bits by default, nats where asked for; every result says which."""

import math

from chainrule.core.errors import check_choice

UNITS = ("bits", "nats")


def scale(unit: str, where: str = "information") -> float:
    """What nats are multiplied by to be in this unit.

    >>> round(scale("bits"), 6), scale("nats")
    (1.442695, 1.0)
    >>> scale("bytes", "entropy")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: entropy(unit="bytes"): unit must be "bits" or "nats" (did you mean 'bits'?)
    """
    check_choice(where, "unit", unit, UNITS)
    return 1 / math.log(2) if unit == "bits" else 1.0


__all__ = ["UNITS", "scale"]
