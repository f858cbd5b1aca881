"""Settings: one schema for Python, the command line and the studio, in which every number is finite and bounded."""

from collections.abc import Iterator
from typing import Any, ClassVar

import annotated_types
import pydantic


class Bounded(pydantic.BaseModel):
    """Base of everything a user can set: numbers are finite, and whole ones no larger than they can be in earnest.

    A field with an upper end of its own (`le`, `lt`) keeps that one.
    """

    model_config = pydantic.ConfigDict(allow_inf_nan=False)
    largest_whole: ClassVar[int] = 2**31 - 1
    """The largest whole number that a setting takes: that of a counter on a device."""

    @pydantic.field_validator("*", mode="after")
    @classmethod
    def _not_too_large(cls, value: Any, info: Any) -> Any:
        field = cls.model_fields[info.field_name]
        if not any(isinstance(bound, annotated_types.Le | annotated_types.Lt) for bound in field.metadata):
            for number in _whole_numbers(value):
                if abs(number) > cls.largest_whole:
                    raise ValueError(f"a whole number here is at most {cls.largest_whole:,}")
        return value


class Config(Bounded):
    """Base of all settings of models and of their parts: frozen, checked, and without unknown names."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", validate_default=True)
    largest_whole: ClassVar[int] = 2**24
    """Sizes beyond this are slips: no single axis of a network is as long."""


def _whole_numbers(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _whole_numbers(one)


__all__ = ["Bounded", "Config"]
