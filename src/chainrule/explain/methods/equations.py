"""One equation of a program applied to values, for methods that walk through a program in their own way."""

from collections.abc import Sequence
from typing import Any

from jax.extend.core import jaxpr_as_fun

from chainrule.derive.jaxprs.equations import is_literal, program_of


def applied(equation: Any, inputs: Sequence[Any]) -> list[Any]:
    """What an equation gives for these operands, with its derivative rules, whatever kind of operation it is."""
    names = list(dict.fromkeys(atom for atom in equation.invars if not is_literal(atom)))
    known = {atom: value for atom, value in zip(equation.invars, inputs, strict=True) if not is_literal(atom)}
    alone = program_of((), (), names, equation.outvars, [equation])
    return list(jaxpr_as_fun(alone)(*(known[name] for name in names)))


__all__ = ["applied"]
