"""The walk through a traced program: which layer each operation belongs to, what it costs and what it depends on.

An operation belongs to the layer whose arrays it uses. Operations without arrays of their own (pooling, products of
queries and keys) get a row of their own where they cost something or look at several entries.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from jax.extend.core import ClosedJaxpr, Literal

from chainrule.core.scans import scan_parts
from chainrule.nn.summary.dependence import Intervals, everything, merged
from chainrule.nn.summary.rules import dependence, multiply_adds

SCOPES = {
    "max_pool": "max pool",
    "average_pool": "average pool",
    "global_average_pool": "global average pool",
    "global_max_pool": "global max pool",
    "adaptive_average_pool": "average pool",
    "adaptive_max_pool": "max pool",
    "blur_pool": "blur pool",
}
"""Functions that get a row, by the scope their operations are traced in."""
LAYERS = ("Linear", "Embedding")
"""Layers that give their results another shape at the end, by the same."""
_WINDOWS = {"reduce_window_max": "max pool", "reduce_window_sum": "sum pool", "reduce_window_min": "min pool"}
_PRODUCT = "matrix product"
_CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_STATISTICS = "standardised"
"""The function whose means and variances are no part of a receptive field, by convention."""


@final
@dataclass(eq=False)
class RowInProgress:
    """A row of the table while it is being filled."""

    path: str
    kind: str
    shape: tuple[int, ...] = ()
    multiply_adds: int = 0
    spans: Intervals | None = None


@final
class Value(NamedTuple):
    """What is known of an intermediate array."""

    owner: str | None
    """The layer of a weight, and of what is made of it alone."""
    depends: bool
    """Whether it depends on an input of the network."""
    spans: Intervals | None
    row: RowInProgress | None = None
    """The row of the operation that made it."""


NOTHING = Value(None, False, None)


@final
class Walk:
    """Rows in the order in which the program comes to them."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self.kinds = kinds
        self.rows: list[RowInProgress] = []
        self.uncounted: set[str] = set()
        self._scope = self._around = ""

    def program(self, closed: Any, given: Sequence[Value], times: int = 1) -> list[Value]:
        """Walk through a program; what is known of its results."""
        known = dict(zip(closed.jaxpr.invars, given, strict=True))

        def of(variable: Any) -> Value:
            return NOTHING if isinstance(variable, Literal) else known.get(variable, NOTHING)

        for equation in closed.jaxpr.eqns:
            found = self._equation(equation, [of(v) for v in equation.invars], times)
            known.update(zip(equation.outvars, found, strict=True))
        return [of(v) for v in closed.jaxpr.outvars]

    def _equation(self, equation: Any, given: list[Value], times: int) -> list[Value]:
        name, params = equation.primitive.name, equation.params
        if name == "scan":
            return self._loop(equation, given, times * params["length"])
        if "ffi" in name or "attention" in name:
            self.uncounted.add(f"the program of {name}")
        if name == "while":
            self.uncounted.add("a loop whose length is not known")
            return self._opaque(equation, given)
        if name == "cond":
            return self.program(params["branches"][-1], given[1:], times)
        inner = next((params[key] for key in _CALLS if key in params), None)
        if inner is not None:
            closed = inner if isinstance(inner, ClosedJaxpr) else _closed(inner)
            around, self._around = self._around, _scope(equation) or self._around
            out = self.program(closed, given, times)
            self._around = around
            if closed.jaxpr.debug_info.func_name == _STATISTICS:
                out[0] = out[0]._replace(spans=given[0].spans)
            return out
        return self._simple(equation, given, times)

    def _simple(self, equation: Any, given: list[Value], times: int) -> list[Value]:
        depends = any(v.depends for v in given)
        owners = [v.owner for v in given if v.owner is not None and not v.depends]
        if not depends:
            return [Value(_common(owners), False, None)] * len(equation.outvars)
        spans = dependence(equation, [v.spans for v in given])
        cost = multiply_adds(equation) * times
        row = self._row(equation, owners, cost)
        if row is None and _is_last_touch(equation, given[0]):
            row = given[0].row
        if row is not None:
            row.shape, row.spans = equation.outvars[0].aval.shape, spans
            row.multiply_adds += cost
        return [Value(None, True, spans, row)] * len(equation.outvars)

    def _row(self, equation: Any, owners: list[str], cost: int) -> RowInProgress | None:
        scope = _scope(equation) or self._around
        same, self._scope = bool(scope) and scope == self._scope, scope
        if scope:
            return self.rows[-1] if same else self._new("", SCOPES[scope])
        if owners:
            path = _common(owners) or ""
            return next(
                (r for r in self.rows if r.path == path and r.kind == self.kinds.get(path)), None
            ) or (self._new(path, self.kinds.get(path, "")))
        name = equation.primitive.name
        if name in _WINDOWS:
            return self._new("", _WINDOWS[name])
        if not cost:
            return None
        last = self.rows[-1] if self.rows else RowInProgress("", _PRODUCT)
        return self._new(last.path if last.kind == _PRODUCT else last.path.rpartition(".")[0], _PRODUCT)

    def _new(self, path: str, kind: str) -> RowInProgress:
        self.rows.append(RowInProgress(path, kind))
        return self.rows[-1]

    def _loop(self, equation: Any, given: list[Value], times: int) -> list[Value]:
        parts = scan_parts(equation)
        state = range(parts.constants, parts.constants + parts.carried)
        together: Intervals | None = None
        for value in given:
            together = merged(together, everything(value.spans))
        inside = [Value(None, True, together) if n in state or v.depends else v for n, v in enumerate(given)]
        out = self.program(equation.params["jaxpr"], inside, times)
        return [v._replace(spans=everything(v.spans)) for v in out]

    def _opaque(self, equation: Any, given: Iterable[Value]) -> list[Value]:
        together: Intervals | None = None
        for value in given:
            together = merged(together, everything(value.spans))
        return [Value(None, True, together)] * len(equation.outvars)


def _scope(equation: Any, known: Container[str] = SCOPES) -> str:
    """The function with a row of its own that an operation was traced in."""
    return next((s for s in str(equation.source_info.name_stack).split("/") if s in known), "")


def _is_last_touch(equation: Any, value: Value) -> bool:
    """Whether a layer gives its own result another shape."""
    ranks = [len(v.aval.shape) for v in (equation.invars[0], equation.outvars[0])]
    return value.row is not None and _scope(equation, LAYERS) == value.row.kind and ranks[0] <= ranks[1]


def _closed(inner: Any) -> Any:
    return ClosedJaxpr(inner, ())


def _common(owners: Sequence[str]) -> str | None:
    """The innermost layer that holds all of them."""
    if not owners:
        return None
    parts = [owner.split(".") for owner in owners]
    shared = []
    for pieces in zip(*parts, strict=False):
        if len(set(pieces)) > 1:
            break
        shared.append(pieces[0])
    return ".".join(shared)


__all__ = ["NOTHING", "RowInProgress", "Value", "Walk"]
