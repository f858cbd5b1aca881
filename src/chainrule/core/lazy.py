"""Public names of a package that are loaded the first time they are used."""

import importlib
from collections.abc import Iterable, Mapping
from typing import Any, final


@final
class LazyNames:
    """Names by the module that defines them, for the `__getattr__` of a package.

    >>> LazyNames("chainrule.core", {"errors": ("ArgumentError",)}).load("ArgumentError").__name__
    'ArgumentError'
    """

    def __init__(
        self, package: str, homes: Mapping[str, Iterable[str]], subpackages: Iterable[str] = ()
    ) -> None:
        self._package = package
        self._home = {name: home for home, names in homes.items() for name in names}
        self._subpackages = frozenset(subpackages)

    @property
    def names(self) -> list[str]:
        """All of them, for `__all__` and `__dir__`."""
        return sorted([*self._home, *self._subpackages])

    def load(self, name: str) -> Any:
        """The object, or the error of an attribute that a module does not have."""
        if name in self._subpackages:
            return importlib.import_module(f"{self._package}.{name}")
        if name in self._home:
            return getattr(importlib.import_module(f"{self._package}.{self._home[name]}"), name)
        raise AttributeError(f"module {self._package!r} has no attribute {name!r}")


__all__ = ["LazyNames"]
