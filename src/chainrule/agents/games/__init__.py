"""Games of two players, one file each: `make("connect-four")`.

A file of this folder that holds a `GAME` registers it, under its own name with hyphens.
"""

import dataclasses
import functools
import importlib
import typing
from pathlib import Path
from typing import Any

import pydantic

from chainrule.agents.games import pgx_bridge
from chainrule.agents.games.base import Game
from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.settings import Config
from chainrule.models import explain

_NOT_GAMES = {"base", "boards", "pgx_bridge"}


def names() -> tuple[str, ...]:
    """Games that come with this package."""
    files = Path(__file__).parent.glob("[a-z]*.py")
    return tuple(sorted(file.stem.replace("_", "-") for file in files if file.stem not in _NOT_GAMES))


def make(name: str, /, **settings: Any) -> Game[Any]:
    """A game by name, those of pgx as `pgx:othello`; settings are the fields of its class.

    >>> make("tic-tac-toe").actions
    9
    >>> make("go", size=30)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: size=30: input should be less than or equal to 19
           settings of go: size, komi, superko, limit
    """
    if name.startswith(pgx_bridge.PREFIX):
        if settings:
            raise ArgumentError(f"{name} has no settings", remedy=f"leave {', '.join(settings)} out")
        return pgx_bridge.PgxGame(name)
    schema = settings_schema(name)
    known = ", ".join(schema.model_fields)
    try:
        checked = schema(**settings)
    except pydantic.ValidationError as error:
        raise explain(
            error, schema, f"settings of {name}: {known}" if known else f"{name} has no settings"
        ) from None
    return _class(name)(**{field: getattr(checked, field) for field in schema.model_fields})


@functools.cache
def settings_schema(name: str) -> type[Config]:
    """The settings of a game as a schema."""
    game = _class(name)
    hints = typing.get_type_hints(game, include_extras=True)
    fields: dict[str, Any] = {
        field.name: (hints[field.name], field.default) for field in dataclasses.fields(game)
    }
    schema: type[Config] = pydantic.create_model(f"{game.__name__}Settings", __base__=Config, **fields)
    return schema


def _class(name: str) -> type[Game[Any]]:
    if name not in names():
        raise ArgumentError(
            f"unknown game {name!r}{suggest(name, names())}", remedy="games: " + ", ".join(names())
        )
    found: type[Game[Any]] = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").GAME
    return found


__all__ = ["make", "names", "settings_schema"]
