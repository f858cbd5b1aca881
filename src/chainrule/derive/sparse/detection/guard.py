"""Guards of local patterns: the conditions and indices they rely on, checked again at other points."""

from collections.abc import Sequence
from typing import Any, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ChainruleError
from chainrule.core.types import Array, Tree
from chainrule.derive.jaxprs.local import function_of
from chainrule.derive.sparse.detection.values import TrackedValue
from chainrule.derive.sparse.signature import Signature

_Result = TypeVar("_Result")
_SENTENCE = "the local pattern does not hold here: a branch, selection or index differs from the point it was found at"


class LocalPatternError(ChainruleError):
    """A pattern found at one point is used at another where a branch, selection or index is different."""


@final
class Guard:
    """Says whether a local pattern holds at another point: all selections it relies on come out as they did."""

    def __init__(
        self, sources: Sequence[TrackedValue], selectors: Sequence[TrackedValue], signature: Signature
    ) -> None:
        self._sources = list(sources)
        self._selectors = list(selectors)
        self._expected = [np.asarray(value.number()) for value in selectors]
        self._signature = signature
        self._compiled = jax.jit(self._holds)

    @property
    def count(self) -> int:
        """Number of conditions and indices the pattern relies on."""
        return len(self._selectors)

    def holds(self, x: Tree, *args: Any) -> Array:
        """Whether the pattern holds at `x`, as one truth value; works under `jax.jit` and `jax.vmap`."""
        point, held = self._signature.admit((x, *args))
        result: Array = self._compiled([*jax.tree.leaves(point), *held])
        return result

    @property
    def numbers(self) -> list[Any]:
        """Where the pattern was found: the leaves of the point, then those of what is held."""
        return [value.number() for value in self._sources]

    def check(self, x: Tree, *args: Any) -> None:
        """Raise `LocalPatternError` unless the pattern holds at `x`."""
        _raise_unless(self.holds(x, *args))

    def require(self, arguments: tuple[Any, ...], result: _Result) -> _Result:
        """`result`, provided that the pattern holds at `arguments`; otherwise an error, under `jax.jit` at run time."""
        holds = self.holds(*arguments)
        if not isinstance(holds, jax.core.Tracer):
            _raise_unless(holds)
            return result
        if not any(leaf.size for leaf in jax.tree.leaves(result)):
            # Nothing depends on an empty result, so the check needs an effect of its own.
            jax.debug.callback(_raise_unless, holds)
            return result
        return eqx.error_if(result, ~holds, _SENTENCE)

    def _holds(self, leaves: Sequence[Any]) -> Array:
        numbers = {id(value): leaf for value, leaf in zip(self._sources, leaves, strict=True)}
        agree = jnp.asarray(True)
        for value, expected in zip(self._selectors, self._expected, strict=True):
            agree = agree & jnp.all(_evaluate(value, numbers) == expected)
        return agree


def _raise_unless(holds: Any) -> None:
    if not np.all(holds):
        raise LocalPatternError(
            _SENTENCE, remedy="detect it again at this point, or use the global pattern (local=False)"
        )


def _evaluate(value: TrackedValue, numbers: dict[int, Any]) -> Any:
    """The numbers of a value from those of the inputs, each operation once."""
    stack = [value]
    while stack:
        top = stack[-1]
        if id(top) in numbers:
            stack.pop()
            continue
        if top.equation is None or not top.varies:
            numbers[id(top)] = top.number()
            continue
        waiting = [operand for operand in top.operands if id(operand) not in numbers]
        if waiting:
            stack.extend(waiting)
            continue
        found = function_of(top.equation)(*[numbers[id(operand)] for operand in top.operands])
        numbers.update((id(sibling), number) for sibling, number in zip(top.siblings, found, strict=True))
    return numbers[id(value)]


__all__ = ["Guard", "LocalPatternError"]
