"""Units of information: bits by default, nats where asked for; every result says which."""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, TypeVar

from chainrule.core.errors import ArgumentError, check_choice

UNITS = ("bits", "nats")
_UNIT_OF_BASE = {2: "bits", math.e: "nats"}
_Result = TypeVar("_Result")


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


def takes_base(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Let `base=2` or `base=math.e` say the unit, too, as it does for divergences in `cr.probability`.

    >>> heads = takes_base(lambda p, unit="bits": -scale(unit) * math.log(p))
    >>> heads(0.5), round(heads(0.5, base=math.e), 6)
    (1.0, 0.693147)
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def measured(*args: Any, base: float | None = None, **kwargs: Any) -> _Result:
        if base is None:
            return function(*args, **kwargs)
        if base not in _UNIT_OF_BASE:
            raise ArgumentError(
                f"{function.__name__}(base={base}): information is measured in bits (base=2) or nats (base=math.e)",
                remedy='or say unit="bits" or unit="nats"',
            )
        unit = _UNIT_OF_BASE[base]
        given = signature.bind_partial(*args, **kwargs).arguments.get("unit")
        if given is None:
            return function(*args, **{**kwargs, "unit": unit})
        if given != unit:
            raise ArgumentError(
                f'{function.__name__}: base={base:g} and unit="{given}" contradict each other',
                remedy="give one of them",
            )
        return function(*args, **kwargs)

    extra = inspect.Parameter("base", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=float | None)
    known = list(signature.parameters.values())
    rest = [one for one in known if one.kind is inspect.Parameter.VAR_KEYWORD]
    measured.__signature__ = signature.replace(  # type: ignore[attr-defined]  # inspect looks for it there
        parameters=[*(one for one in known if one not in rest), extra, *rest]
    )
    return measured


__all__ = ["UNITS", "scale", "takes_base"]
