"""The table of closed forms: which pairs of families have one."""

from collections.abc import Callable
from typing import Any, TypeVar

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array
from chainrule.probability.distributions.base import Distribution

ClosedForm = Callable[[Any, Any], Array]
F = TypeVar("F", bound=ClosedForm)

_forms: dict[tuple[type[Distribution], type[Distribution]], ClosedForm] = {}


def register(p: type[Distribution], q: type[Distribution]) -> Callable[[F], F]:
    """Use the decorated function for KL(p || q) of these two families; it returns nats, `[*batch]`."""

    def add(function: F) -> F:
        if (p, q) in _forms:
            raise ArgumentError(f"register: KL({p.__name__} || {q.__name__}) is registered already")
        _forms[p, q] = function
        return function

    return add


def closed_form(p: Distribution, q: Distribution) -> ClosedForm | None:
    """The closed form for the families of these two, if there is one."""
    return _forms.get((type(p), type(q)))


__all__ = ["ClosedForm", "closed_form", "register"]
