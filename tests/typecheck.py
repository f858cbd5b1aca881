"""The run-time type checker of the test suite: beartype, for code that uses `typing.Self`.

The import hook decorates one function at a time, and beartype refuses `Self` outside a class it has decorated as a
whole. Here `Self` counts as "anything"; the static type checker looks at it more closely. As for that checker, an
`int` will do where a `float` is asked for.
"""

import functools
import operator
import types
from collections.abc import Callable
from typing import Any, Self, TypeVar, get_args, get_origin

import beartype

F = TypeVar("F", bound=Callable[..., Any])
_CONFIGURATION = beartype.BeartypeConf(is_pep484_tower=True)


def enforce(function: F) -> F:
    """Check arguments and results of a function against its annotations."""
    hints = getattr(function, "__annotations__", {})
    loose = {name: without_self(hint) for name, hint in hints.items()}
    if loose != hints:
        function.__annotations__ = loose
    return beartype.beartype(function, conf=_CONFIGURATION)


def without_self(hint: Any) -> Any:
    """The same annotation with `Any` in place of every `Self`.

    >>> without_self(tuple[int, Self])
    tuple[int, typing.Any]
    >>> without_self(dict[str, list[Self]] | None)
    dict[str, list[typing.Any]] | None
    """
    if hint is Self:
        return Any
    if isinstance(hint, list):  # the parameters of a Callable
        return [without_self(part) for part in hint]
    old = get_args(hint)
    new = tuple(without_self(part) for part in old)
    if new == old:
        return hint
    if isinstance(hint, types.UnionType):
        return functools.reduce(operator.or_, new)
    return get_origin(hint)[new]
