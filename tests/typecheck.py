"""The run-time type checker of the test suite: beartype, for code that uses `typing.Self`.

The import hook decorates one function at a time, and beartype refuses `Self` outside a class it has decorated as a
whole. Here `Self` counts as "anything"; the static type checker looks at it more closely. As for that checker, an
`int` will do where a `float` is asked for, and a NumPy scalar where a NumPy array is: operations on arrays without axes
return scalars.
"""

import functools
import operator
import types
from collections.abc import Callable
from typing import Any, Self, TypeVar, get_args, get_origin

import beartype
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
_CONFIGURATION = beartype.BeartypeConf(is_pep484_tower=True)


def enforce(function: F) -> F:
    """Check arguments and results of a function against its annotations."""
    hints = getattr(function, "__annotations__", {})
    loose = {name: loosened(hint) for name, hint in hints.items()}
    if loose != hints:
        function.__annotations__ = loose
    return beartype.beartype(function, conf=_CONFIGURATION)


def loosened(hint: Any) -> Any:
    """The same annotation with `Any` in place of every `Self`, and scalars allowed where there are NumPy arrays.

    >>> loosened(tuple[int, Self])
    tuple[int, typing.Any]
    >>> loosened(dict[str, list[Self]] | None)
    dict[str, list[typing.Any]] | None
    """
    if hint is Self:
        return Any
    if hint is np.ndarray:
        return np.ndarray | np.generic
    if isinstance(hint, list):  # the parameters of a Callable
        return [loosened(part) for part in hint]
    old = get_args(hint)
    new = tuple(loosened(part) for part in old)
    if new == old:
        return hint
    if get_origin(hint) is np.ndarray:
        return hint
    if isinstance(hint, types.UnionType):
        return functools.reduce(operator.or_, new)
    return get_origin(hint)[new]
