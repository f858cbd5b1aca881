"""Element-wise formulas of recurrent cells, computed by JAX and written into native programs."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeAlias, final

Values: TypeAlias = tuple[Any, ...]
"""Arrays, or values in a program that is being written (`chainrule.nn.native.builder`)."""


@final
class Functions(NamedTuple):
    """The functions of one argument that formulas may use besides sums, differences and products."""

    sigmoid: Callable[[Any], Any]
    tanh: Callable[[Any], Any]


class UnitByUnit(abc.ABC):
    """One step of a cell after the product with the recurrent weights, and its derivative turned around."""

    gates: ClassVar[tuple[str, ...]]
    states: ClassVar[tuple[str, ...]]
    slopes: ClassVar[tuple[str, ...]]
    """Names of the derivatives that `units` finds and `adjoint` needs."""

    @abc.abstractmethod
    def units(
        self, functions: Functions, inward: Values, feedback: Values, states: Values
    ) -> tuple[Values, Values]:
        """The states after the step and the slopes, from the input's and the states' part of every gate."""

    @abc.abstractmethod
    def adjoint(self, slopes: Values, after: Values) -> tuple[Values, Values, Values]:
        """Cotangents of the input's and the states' part of every gate, and of the states before on their own way."""


__all__ = ["Functions", "UnitByUnit", "Values"]
