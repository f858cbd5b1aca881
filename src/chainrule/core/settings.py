"""Settings: one schema for Python, the command line and the studio, in which every number is finite and bounded."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, TypeAlias

import annotated_types
import pydantic

LARGEST_COUNT = 2**31 - 1
"""The largest whole number that a setting takes: that of a counter on a device."""
LARGEST_SIZE = 2**24
"""The largest one that a setting of a model takes: no axis of a network is longer in earnest."""


class FiniteSettings(pydantic.BaseModel):
    """Base of everything a user can set: numbers are finite, and whole ones no larger than they can be in earnest.

    A field with an upper end of its own (`le`, `lt`) keeps that one.
    """

    model_config = pydantic.ConfigDict(allow_inf_nan=False)

    @pydantic.field_validator("*", mode="after")
    @classmethod
    def _not_too_large(cls, value: Any, info: Any) -> Any:
        field = cls.model_fields[info.field_name]
        largest = LARGEST_SIZE if issubclass(cls, Config) else LARGEST_COUNT
        if not any(isinstance(bound, annotated_types.Le | annotated_types.Lt) for bound in field.metadata):
            for number in _whole_numbers(value):
                if abs(number) > largest:
                    raise ValueError(f"a whole number here is at most {largest:,}")
        return value


class Config(FiniteSettings):
    """Base of all settings of models and of their parts: frozen, checked, and without unknown names."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", validate_default=True)


def quotient(value: Any) -> Any:
    """A number that is written as a fraction, such as 8/255; anything else as it is.

    >>> quotient("8/255") == 8 / 255, quotient("0.5"), quotient("8/0")
    (True, '0.5', '8/0')
    """
    if not isinstance(value, str):
        return value
    number = r"\s*(-?\d+(?:\.\d*)?)\s*"
    found = re.fullmatch(f"{number}/{number}", value)
    return float(found[1]) / float(found[2]) if found and float(found[2]) else value


Quotient: TypeAlias = Annotated[float, pydantic.BeforeValidator(quotient)]
"""A number that may be written as a fraction."""


def _whole_numbers(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _whole_numbers(one)


__all__ = ["LARGEST_COUNT", "LARGEST_SIZE", "Config", "FiniteSettings", "Quotient", "quotient"]
