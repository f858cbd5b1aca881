"""The run-time type checker of the test suite: beartype, for code that uses `typing.Self`.

The import hook decorates one function at a time, and beartype refuses `Self` outside a class it has decorated as a
whole. Here `Self` counts as "anything"; the static type checker looks at it more closely. As for that checker, an
`int` will do where a `float` is asked for, and a NumPy scalar where a NumPy array is: operations on arrays without axes
return scalars.

Test modules that lie beside the code are left alone: a decorated fixture is no longer a generator function, and pytest
would pass the generator on without ever running it.
"""

import functools
import operator
import sys
import types
from collections.abc import Callable
from typing import Any, Self, TypeVar, get_args, get_origin

import beartype
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
_CONFIGURATION = beartype.BeartypeConf(is_pep484_tower=True)


def enforce(function: F) -> F:
    """Check arguments and results of a function against its annotations; the check is made when it is first needed."""

    @functools.cache
    def checked() -> F:
        hints = getattr(function, "__annotations__", {})
        loose = {name: loosened(hint) for name, hint in hints.items()}
        if loose != hints:
            function.__annotations__ = loose
        return beartype.beartype(function, conf=_CONFIGURATION)

    @functools.wraps(function)
    def checking(*args: Any, **kwargs: Any) -> Any:
        return checked()(*args, **kwargs)

    return checking  # type: ignore[return-value]


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


def spare_tests() -> None:
    """Tell the import hook to leave test modules as they are."""
    for finder in sys.meta_path:
        if type(finder).__module__ == "jaxtyping._import_hook":
            finder.should_instrument = functools.partial(_is_code, finder.should_instrument)  # type: ignore[attr-defined]


def _is_code(instrumented: Callable[[str], bool], name: str) -> bool:
    return instrumented(name) and not name.rpartition(".")[2].startswith("test_")


spare_tests()
