"""Options of `sample` as schemas: typed, with defaults, ranges and descriptions, in groups that belong together.

Python, the command line and anything with forms read the same groups. A model that takes a few options can leave them
in the signature of `sample`, from which `from_signature` makes a group; one that takes many gives each of its parts
(a sampler, a way of steering, a rule of decoding) a schema of its own, and reads what it is given with `read_options`:

>>> class Decoding(SampleOptions):
...     temperature: float = pydantic.Field(1.0, ge=0, description="0 takes the likeliest token")
>>> groups = [OptionGroup("decoding", "How tokens are drawn.", Decoding)]
>>> read_options(groups, {"temperature": 2})["decoding"].temperature
2.0
>>> read_options(groups, {"temprature": 2})
Traceback (most recent call last):
chainrule.core.errors.ArgumentError: unknown option 'temprature' (did you mean 'temperature'?)
       options: temperature
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, final

import numpy as np
import pydantic
from pydantic.fields import FieldInfo

from chainrule.core.errors import ArgumentError, spell, suggest
from chainrule.core.settings import FiniteSettings


class SampleOptions(FiniteSettings):
    """Options that belong together; every field has a default and a description."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


@final
@dataclass(frozen=True)
class OptionGroup:
    """Options of `sample` that belong together, under a name."""

    name: str
    summary: str
    """One line."""
    schema: type[SampleOptions]
    when: tuple[str, str] | None = None
    """An option of another group and the value it must have for these to count: `("sampler", "ddim")`."""

    @property
    def is_open(self) -> bool:
        """Whether names that are not in the schema are passed on too."""
        return self.schema.model_config.get("extra") == "allow"


def option_fields(groups: Sequence[OptionGroup]) -> dict[str, FieldInfo]:
    """Every option by its name; where two groups have the same name, that of the first."""
    found: dict[str, FieldInfo] = {}
    for group in groups:
        found |= {name: field for name, field in group.schema.model_fields.items() if name not in found}
    return found


def read_options(groups: Sequence[OptionGroup], given: Mapping[str, Any]) -> dict[str, SampleOptions]:
    """The options of every group that counts, by its name: what is given checked, and defaults for the rest.

    A name goes to the first group that has it. One that no group has is an error with the closest that there is, and
    so is one that only counts under another choice. An option that is `None` counts as not given.
    """
    fields = option_fields(groups)
    given = {name: value for name, value in given.items() if value is not None or name not in fields}
    active = [group for group in groups if _counts(group, fields, given)]
    mine = option_fields(active)
    is_open = any(group.is_open for group in active)
    for name in given:
        if name not in fields and not is_open:
            raise ArgumentError(
                f"unknown option {name!r}{suggest(name, fields)}", remedy=f"options: {', '.join(mine)}"
            )
        if name not in mine and not is_open:
            raise _out_of_place(name, groups, fields, given)
    left = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
    found: dict[str, SampleOptions] = {}
    for group in active:
        taken = {name: left.pop(name) for name in group.schema.model_fields if name in left}
        found[group.name] = check_options(group.schema, {**taken, **left} if group.is_open else taken)
    return found


def check_options(schema: type[SampleOptions], values: Mapping[str, Any]) -> SampleOptions:
    """The options of one schema; a value that does not fit is an error that says what would.

    >>> class Walk(SampleOptions):
    ...     steps: int = pydantic.Field(50, ge=1, description="evaluations of the network")
    >>> check_options(Walk, {"steps": 0})
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: steps=0: steps must be at least 1
           steps: evaluations of the network
    """
    try:
        return schema(**values)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        if first["type"] == "value_error":  # raised by a validator of the schema, in words of its own
            raise ArgumentError(str(first["ctx"]["error"])) from None
        meaning = schema.model_fields[name].description
        raise ArgumentError(
            f"{name}={values[name]}: {name} must be {_wanted(first, schema.model_fields[name])}",
            remedy=f"{name}: {meaning}" if meaning else "",
        ) from None


def from_signature(sample: Callable[..., Any]) -> list[OptionGroup]:
    """The keyword-only parameters of a `sample` method as a group, if any; `Annotated[..., Field(...)]` describes them.

    >>> def sample(key, n, *, length: int = 3): ...
    >>> option_fields(from_signature(sample))["length"].default
    3
    """
    group = OptionGroup("options", "Options of this model.", _schema_of(sample))
    return [group] if group.is_open or group.schema.model_fields else []


@functools.cache
def _schema_of(sample: Callable[..., Any]) -> type[SampleOptions]:
    parameters = inspect.signature(sample).parameters.values()
    fields: dict[str, Any] = {
        p.name: (p.annotation, p.default) for p in parameters if p.kind == p.KEYWORD_ONLY
    }
    free = any(p.kind == p.VAR_KEYWORD for p in parameters)
    base = _Open if free else SampleOptions
    return pydantic.create_model("Options", __base__=base, **fields)


class _Open(SampleOptions):
    """Options with names that are not known beforehand."""

    model_config = pydantic.ConfigDict(extra="allow")


def _counts(group: OptionGroup, fields: Mapping[str, FieldInfo], given: Mapping[str, Any]) -> bool:
    if group.when is None:
        return True
    name, value = group.when
    return bool(given.get(name, fields[name].default) == value)


def _out_of_place(
    name: str, groups: Sequence[OptionGroup], fields: Mapping[str, FieldInfo], given: Mapping[str, Any]
) -> ArgumentError:
    """The error for an option that counts under another choice than the one that was made."""
    owners = [group for group in groups if name in group.schema.model_fields]
    under = [f"{group.when[0]}={group.when[1]}" for group in owners if group.when is not None]
    choice = owners[0].when[0] if owners[0].when is not None else ""
    value = given.get(choice, fields[choice].default)
    own = [n for g in groups if g.when == (choice, value) for n in g.schema.model_fields]
    return ArgumentError(
        f"{choice} {value!r} does not take {name}; it is an option of {' and '.join(under)}",
        remedy=f"{value} takes: {', '.join(own) or 'nothing'}",
    )


_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def _wanted(error: Any, field: FieldInfo) -> str:
    """What a value has to be, in words."""
    kind = error["type"]
    if kind.startswith(("greater_than", "less_than")):
        parts = [
            *field.metadata,
            SimpleNamespace(**error["ctx"]),
        ]  # all bounds, or at least the one that is broken
        bounds = {
            name: value
            for part in parts
            for name in _BOUNDS
            if (value := getattr(part, name, None)) is not None
        }
        return " and ".join(f"{_BOUNDS[name]} {value:g}" for name, value in bounds.items())
    if kind == "literal_error":
        choices = [c.strip("'") for part in error["ctx"]["expected"].split(", ") for c in part.split(" or ")]
        return spell(choices) + suggest(str(error["input"]), choices)
    if kind.startswith("int_"):
        return "a whole number"
    if kind.startswith("float_"):
        return "a number"
    if kind.startswith("bool_"):
        return "true or false"
    if kind == "string_type":
        return "text"
    return str(error["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")


__all__ = ["OptionGroup", "SampleOptions", "check_options", "from_signature", "option_fields", "read_options"]
