"""User-defined rules for custom operations."""

from collections.abc import Sequence
from typing import Any

from chainrule.core.errors import ArgumentError
from chainrule.derive.sparse.detection.analysis import CUSTOM, Analysis, Reaches, Tracked
from chainrule.derive.sparse.detection.reach import union
from chainrule.derive.sparse.patterns import Pattern


def register(primitive: Any, rule: Any) -> None:
    """Tell detection what the results of an operation depend on.

    `primitive` is a JAX primitive or its name. `rule(operands, params)` gets the shapes and types of the operands and
    the operation's parameters, and returns for every result a list with one entry per operand: the `Pattern` of its
    derivative (elements of the result in rows, elements of the operand in columns, both in flat order), or `None` for
    an operand it does not depend on. A later rule for the same operation replaces an earlier one.

    >>> import jax
    >>> shift = jax.extend.core.Primitive("shift_by_one")
    >>> def rule(operands, params):
    ...     size = operands[0].size
    ...     return [[Pattern(range(1, size), range(size - 1), (size, size))]]
    >>> register(shift, rule)
    """
    name = primitive if isinstance(primitive, str) else getattr(primitive, "name", None)
    if not isinstance(name, str):
        raise ArgumentError(f"register(primitive={primitive!r}): a JAX primitive or its name is needed")
    if not callable(rule):
        raise ArgumentError(f"register({name!r}, rule={rule!r}): the rule must be a function")

    def apply(_: Analysis, equation: Any, operands: Sequence[Tracked]) -> Reaches:
        patterns = rule([atom.aval for atom in equation.invars], equation.params)
        return [
            _united(str(name), variable, entries, operands)
            for variable, entries in zip(equation.outvars, patterns, strict=True)
        ]

    CUSTOM[name] = apply


def _united(name: str, variable: Any, entries: Sequence[Pattern | None], operands: Sequence[Tracked]) -> Any:
    shape = tuple(variable.aval.shape)
    parts = []
    for entry, cell in zip(entries, operands, strict=True):
        if entry is None or cell.reach is None:
            continue
        wanted = (variable.aval.size, cell.value.aval.size)
        if entry.shape != wanted:
            raise ArgumentError(
                f"the rule registered for {name!r} returns a pattern of shape {entry.shape}; it must have {wanted}"
            )
        parts.append(cell.reach.connect(entry.rows, entry.cols, shape))
    return union(shape, parts)


__all__ = ["register"]
