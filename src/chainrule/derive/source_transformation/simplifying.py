"""Simplification of programs: inlining, constant folding, identities, common subexpressions, dead code.

Only rewrites that hold for every value, infinities and NaN included, are made: x·1, x/1, x+0, x-0, -(-x), casts and
reshapes to the same type, operations on numbers known beforehand, operations done twice, and dead code.
x·0 stays (it is NaN at infinity). The sign of a zero is the one thing that may change: -0.0 + 0.0 is 0.0.
"""

from collections.abc import Callable, Hashable
from typing import Any, final

import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from chainrule.derive.jaxprs import equations as eqs
from chainrule.derive.jaxprs.local import function_of

_SMALL = 64
_NEVER_FOLDED = ("random", "rng", "threefry", "custom", "device_put", "shard")


def simplify(program: ClosedJaxpr) -> ClosedJaxpr:
    """Rewrite until nothing changes."""
    program = eqs.without_dead_code(eqs.inline(program, eqs.is_plain_call))
    while True:
        shorter = eqs.without_dead_code(_Rewriter(program).run())
        if len(shorter.eqns) >= len(program.eqns):
            return shorter
        program = shorter


@final
class _Rewriter:
    """One pass over the equations, with what each variable is known to be."""

    def __init__(self, program: ClosedJaxpr) -> None:
        self.program = program
        self.renamed: dict[Any, Any] = {}
        self.filled: dict[Any, Any] = {}
        """Variables that hold one number everywhere."""
        self.negated: dict[Any, Any] = {}
        """Variables that are the negative of another."""
        self.seen: dict[Hashable, list[Any]] = {}
        self.constants: dict[Any, Any] = {}
        for variable, value in zip(program.jaxpr.constvars, program.consts, strict=True):
            if np.size(value) <= _SMALL and np.asarray(value).dtype.kind in "biufc":
                self.constants[variable] = np.asarray(value)
        self.equations: list[Any] = []
        self.constvars = list(program.jaxpr.constvars)
        self.consts = list(program.consts)

    def run(self) -> ClosedJaxpr:
        """The rewritten program."""
        for equation in self.program.eqns:
            self._visit(_simplify_inside(equation.replace(invars=[self._read(a) for a in equation.invars])))
        inner = self.program.jaxpr
        outvars = [self._read(atom) for atom in inner.outvars]
        return eqs.program_of(self.constvars, self.consts, inner.invars, outvars, self.equations)

    def _read(self, atom: Any) -> Any:
        return atom if eqs.is_literal(atom) else self.renamed.get(atom, atom)

    def _visit(self, equation: Any) -> None:
        same = self._identity(equation)
        if same is not None:
            self.renamed[equation.outvars[0]] = same
            return
        if equation.effects:
            self.equations.append(equation)
            return
        key = _key(equation)
        if key is not None and key in self.seen:
            self.renamed.update(zip(equation.outvars, self.seen[key], strict=True))
            return
        if key is not None:
            self.seen[key] = list(equation.outvars)
        if self._fold(equation):
            return
        self._remember(equation)
        self.equations.append(equation)

    def _remember(self, equation: Any) -> None:
        name = equation.primitive.name
        if name in ("broadcast_in_dim", "reshape", "convert_element_type"):
            value = self._number(equation.invars[0])
            if value is not None:
                self.filled[equation.outvars[0]] = value
        if name == "neg":
            self.negated[equation.outvars[0]] = equation.invars[0]

    def _number(self, atom: Any) -> Any:
        """The one number an operand holds everywhere, if known."""
        if not eqs.is_literal(atom) and atom in self.filled:
            return self.filled[atom]
        value = np.asarray(atom.val) if eqs.is_literal(atom) else self.constants.get(atom)
        return None if value is None else uniform(value)

    def _identity(self, equation: Any) -> Any:
        """The operand an equation returns unchanged, if it does."""
        name, operands = equation.primitive.name, equation.invars
        if name in _NEUTRAL and len(operands) == 2:
            left, right = _NEUTRAL[name]
            if right is not None and self._is(operands[1], right) and _same_type(operands[0], equation):
                return operands[0]
            if left is not None and self._is(operands[0], left) and _same_type(operands[1], equation):
                return operands[1]
        if name == "neg" and not eqs.is_literal(operands[0]) and operands[0] in self.negated:
            return self.negated[operands[0]]
        if name in _TRIVIAL and _same_type(operands[0], equation) and _TRIVIAL[name](equation):
            return operands[0]
        return None

    def _is(self, atom: Any, number: int) -> bool:
        value = self._number(atom)
        return value is not None and bool(value == number)

    def _fold(self, equation: Any) -> bool:
        """Compute an equation whose operands are all known and small; its results become constants."""
        name = equation.primitive.name
        if name.startswith(_NEVER_FOLDED) or eqs.kind(equation) != "operation" or not equation.invars:
            return False
        if any(np.prod(v.aval.shape) > _SMALL for v in equation.outvars):
            return False
        values = [
            np.asarray(atom.val, atom.aval.dtype) if eqs.is_literal(atom) else self.constants.get(atom)
            for atom in equation.invars
        ]
        if any(value is None for value in values):
            return False
        for variable, result in zip(equation.outvars, function_of(equation)(*values), strict=True):
            value = np.asarray(result)
            if value.ndim == 0:
                self.renamed[variable] = Literal(value[()], variable.aval)
            else:
                self.constants[variable] = value
                self.constvars.append(variable)
                self.consts.append(value)
        return True


# (number on the left, number on the right) that an operation ignores.
_NEUTRAL: dict[str, tuple[int | None, int | None]] = {
    "mul": (1, 1),
    "add": (0, 0),
    "add_any": (0, 0),
    "sub": (None, 0),
    "div": (None, 1),
    "pow": (None, 1),
}
_TRIVIAL: dict[str, Callable[[Any], bool]] = {
    "integer_pow": lambda equation: equation.params["y"] == 1,
    "convert_element_type": lambda equation: True,
    "reshape": lambda equation: True,
    "broadcast_in_dim": lambda equation: True,
    "transpose": lambda equation: (
        tuple(equation.params["permutation"]) == tuple(range(len(equation.params["permutation"])))
    ),
    "squeeze": lambda equation: not equation.params["dimensions"],
    "copy": lambda equation: True,
    "reduce_sum": lambda equation: not equation.params["axes"],
}


def uniform(value: Any) -> Any:
    """The number an array holds in every entry, if it does.

    >>> int(uniform(np.ones((2, 3)))), uniform(np.arange(3))
    (1, None)
    """
    entries = np.asarray(value).ravel()
    return entries[0] if entries.size and np.all(entries == entries[0]) else None


def _same_type(atom: Any, equation: Any) -> bool:
    result = equation.outvars[0].aval
    return atom.aval.shape == result.shape and atom.aval.dtype == result.dtype


def _simplify_inside(equation: Any) -> Any:
    """The same equation with simpler loops and branches inside."""
    keys = {"scan": ("jaxpr",), "while": ("cond_jaxpr", "body_jaxpr"), "cond": ("branches",)}
    params = dict(equation.params)
    for key in keys.get(equation.primitive.name, ()):
        if isinstance(params[key], tuple):
            params[key] = tuple(_closed_inside(one) for one in params[key])
        else:
            params[key] = _closed_inside(params[key])
    return equation.replace(params=params) if equation.primitive.name in keys else equation


def _closed_inside(program: Any) -> ClosedJaxpr:
    simpler = simplify(eqs.closed(program))
    # The body of a loop has no place for arrays of its own; one that folding made is left unfolded.
    return eqs.closed(program) if simpler.consts else simpler


def _key(equation: Any) -> Hashable:
    operands = tuple(
        (np.asarray(a.val).tobytes(), str(a.aval)) if eqs.is_literal(a) else a for a in equation.invars
    )
    key = (equation.primitive, operands, tuple(sorted(equation.params.items(), key=lambda item: item[0])))
    try:
        hash(key)
    except TypeError:  # parameters that cannot be compared are never shared
        return None
    return key


__all__ = ["simplify", "uniform"]
