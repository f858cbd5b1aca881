"""Entries of environments: what is known about one before it is made, and how its settings are checked.

The settings of an environment are the numbers of its world (the fields of its `params`, a NamedTuple) and the static
fields that shapes depend on. Both carry their ranges in their annotations, so that Python and the command line check
them by one schema.
"""

import dataclasses
import functools
import typing
from collections.abc import Mapping
from typing import Any, final

import annotated_types
import pydantic
from pydantic_core import PydanticUndefined

from chainrule.agents.envs.base import Environment
from chainrule.core.errors import ArgumentError
from chainrule.core.settings import Config
from chainrule.models import explain

_SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


@final
@dataclasses.dataclass(frozen=True)
class EnvironmentEntry:
    """What the rest of the project knows about an environment before making it."""

    environment: type[Environment[Any]]
    summary: str
    """One line."""
    citation: str
    random_return: float | None = None
    """Mean return of uniformly random actions at the defaults: computed, or measured to a few percent."""
    optimal_return: float | None = None
    """Mean return of the best policy there is, at the defaults, where it is known."""
    threshold: float | None = None
    """Mean return from which on the problem counts as solved."""


@final
@dataclasses.dataclass(frozen=True)
class EnvironmentSetting:
    """One setting of an environment."""

    name: str
    default: Any
    range: str
    """Bounds, empty where there are none."""
    description: str


@functools.cache
def settings_schema(environment: type[Environment[Any]]) -> type[Config]:
    """The settings of an environment as a schema."""
    params, static = _fields(environment)
    schema: type[Config] = pydantic.create_model(
        f"{environment.__name__}Settings", __base__=Config, **{**static, **params}
    )
    return schema


def made(entry: EnvironmentEntry, settings: Mapping[str, Any], remedy: str) -> Environment[Any]:
    """The environment with these settings, which are checked."""
    schema = settings_schema(entry.environment)
    try:
        checked = schema(**settings)
    except pydantic.ValidationError as error:
        raise explain(error, schema, remedy) from None
    params, static = _fields(entry.environment)
    numbers = _params_type(entry.environment)(**{name: getattr(checked, name) for name in params})
    return entry.environment(params=numbers, **{name: getattr(checked, name) for name in static})


def settings_of(environment: type[Environment[Any]]) -> tuple[EnvironmentSetting, ...]:
    """The settings of an environment, with defaults and ranges."""
    return tuple(
        EnvironmentSetting(name, field.default, _range(field.metadata), field.description or "")
        for name, field in settings_schema(environment).model_fields.items()
    )


def _params_type(environment: type[Environment[Any]]) -> Any:
    return typing.get_type_hints(environment)["params"]


def _fields(environment: type[Environment[Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Numbers of the world and static fields, each as (annotation, default) by name."""
    numbers = _params_type(environment)
    if not (isinstance(numbers, type) and issubclass(numbers, tuple)):
        raise ArgumentError(f"{environment.__name__}.params: annotate it with a NamedTuple of numbers")
    hints = typing.get_type_hints(numbers, include_extras=True)
    defaults: dict[str, Any] = vars(numbers)["_field_defaults"]
    params = {name: (hints[name], default) for name, default in defaults.items()}
    hints = typing.get_type_hints(environment, include_extras=True)
    static = {
        field.name: (hints[field.name], field.default)
        for field in dataclasses.fields(environment)
        if field.name != "params"
    }
    return params, static


def _range(metadata: list[Any]) -> str:
    ends = []
    for bound in metadata:
        for name, sign in _SIGNS.items():
            if isinstance(bound, annotated_types.BaseMetadata) and (
                (end := getattr(bound, name, PydanticUndefined)) is not PydanticUndefined
            ):
                ends.append(f"{sign} {end:g}")
    return ", ".join(ends)


__all__ = ["EnvironmentEntry", "EnvironmentSetting", "made", "settings_of", "settings_schema"]
