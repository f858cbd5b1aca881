"""Sources of experience: environments and games by name, and files of the user's own."""

import inspect
from typing import Any

from chainrule.agents import envs, games
from chainrule.agents.envs import own
from chainrule.agents.envs.entry import settings_schema
from chainrule.agents.envs.spaces import Discrete, MultiDiscrete, Space
from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.formatting import number
from chainrule.core.settings import Config

_FOREIGN = ("gym:", "pgx:")


def names() -> list[str]:
    """Every environment and game.

    >>> {"cartpole", "tic-tac-toe"} <= set(names())
    True
    """
    return sorted([*envs.names(), *games.names()])


def make(name: str, /, **settings: Any) -> Any:
    """An environment or a game: by name, from a file of the user's own (which is run), or from another library.

    >>> make("cartpoel")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown environment 'cartpoel' (did you mean 'cartpole'?)
           list them: chainrule data ls
    """
    if name in games.names() or name.startswith("pgx:"):
        return games.make(name, **settings)
    if name.endswith(".py"):
        return own.from_file(name, settings)
    if name not in envs.names() and not name.startswith(_FOREIGN):
        raise ArgumentError(
            f"unknown environment {name!r}{suggest(name, names())}", remedy="list them: chainrule data ls"
        )
    return envs.make(name, **settings)


def summary(name: str) -> str:
    """One line about an environment or a game.

    >>> summary("tic-tac-toe")
    'Tic-tac-toe: three in a row on a board of three by three. With best play nobody wins.'
    """
    if name in games.names():
        return (inspect.getdoc(inspect.getmodule(type(games.make(name)))) or "").partition("\n")[0]
    return envs.entry(name).summary


def schema(name: str) -> type[Config]:
    """The numbers of a world, or the settings of a game, as a schema."""
    if name in games.names():
        return games.settings_schema(name)
    return settings_schema(envs.entry(name).environment)


def facts(name: str) -> dict[str, str]:
    """What is seen, what can be done, and which returns are known, in words."""
    if name in games.names():
        game = games.make(name)
        return {"moves": str(game.actions), "seen": f"planes of {game.observation_shape}"}
    found = envs.describe(name)
    known = {
        "random": found.random_return,
        "best": found.optimal_return,
        "solved": found.threshold,
    }
    returns = {what: f"return {number(value)}" for what, value in known.items() if value is not None}
    return {"seen": _space(found.observations), "actions": _space(found.actions), **returns}


def _space(space: Space) -> str:
    if isinstance(space, Discrete):
        return f"one of {space.n}"
    if isinstance(space, MultiDiscrete):
        return "one of " + ", ".join(str(n) for n in space.ns)
    return "numbers of shape " + "×".join(str(n) for n in space.shape)


__all__ = ["facts", "make", "names", "schema", "summary"]
