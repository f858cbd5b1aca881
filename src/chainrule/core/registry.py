"""Registries: closed tables of named things, such as optimisers, schedules, activations, data sources.

Names from files and command lines are only ever looked up in such a table; nothing is imported or evaluated
because a name says so.
"""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar, final

from chainrule.core.errors import ArgumentError, suggest

T = TypeVar("T")


@final
class Registry(Generic[T]):
    """Names to things, with a helpful error for a name that is not there.

    >>> shapes = Registry[int]("shape")
    >>> shapes.add("triangle", 3)
    3
    >>> shapes["triangle"]
    3
    >>> shapes["tirangle"]
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown shape 'tirangle' (did you mean 'triangle'?)
           known: triangle
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._things: dict[str, T] = {}

    def add(self, name: str, thing: T) -> T:
        """Register `thing`; a name is given once."""
        if name in self._things:
            raise ArgumentError(f"{self.kind} {name!r} is registered already")
        self._things[name] = thing
        return thing

    def register(self, name: str) -> Callable[[T], T]:
        """The same as a decorator."""
        return lambda thing: self.add(name, thing)

    def __getitem__(self, name: str) -> T:
        if name not in self._things:
            hint = suggest(name, self._things)
            raise ArgumentError(
                f"unknown {self.kind} {name!r}{hint}", remedy=f"known: {', '.join(self._things)}"
            )
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)
