"""Gradient tape: operator-overloading reverse mode that records every operation and is read backwards.

The function really runs, operation by operation, so Python may branch on values; the tape holds only the branch
taken. What comes out are numbers, not a program: a tape cannot be differentiated again (`program` can). Every operation
has JAX's own derivative, at kinks too (docs/kinks.md), so that a tape explains what `gradient` returns.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Trace
from jax.extend.core import jaxpr_as_fun, set_current_trace, take_current_trace

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Table
from chainrule.derive.computation_graph.export import text
from chainrule.derive.computation_graph.summaries import brief
from chainrule.derive.jaxprs.branches import Valued
from chainrule.derive.jaxprs.formula import literal, render
from chainrule.derive.jaxprs.local import Operation
from chainrule.derive.jaxprs.source import SourceLine, of_caller
from chainrule.derive.jaxprs.tracing import directions, dotted, flatten, is_inexact, require_some_inexact


def tape(f: Callable[..., Any], *args: Any, order: int = 1) -> "Tape":
    """Run `f` on numbers and record every operation that depends on the arguments.

    >>> t = tape(lambda x: x**2 if x > 0 else -x, 3.0)
    >>> float(t.value), float(t.gradient())
    (9.0, 6.0)
    >>> t.steps[-1].operation
    'integer_pow'
    """
    if order != 1:
        raise CapabilityError(
            f"tape(order={order}): a tape holds numbers, not a program, and only for the branch taken",
            remedy=f"program(f, x, order={order}) is the derivative as a program, which can be differentiated again",
        )
    if isinstance(f, jax.stages.Wrapped):  # look inside jax.jit(f), where Python may then branch, too
        f = inspect.unwrap(f)
    arguments = flatten("tape", f, args)
    require_some_inexact("tape", arguments.names, arguments.leaves)
    with take_current_trace() as parent:
        recorder = _Recorder(parent)
        inputs = [recorder.wrap(leaf, i, 0) for i, leaf in enumerate(arguments.leaves)]
        recorder.entries = [_Entry(name, None, (), None) for name in arguments.names]
        recorder.values = [(leaf,) for leaf in arguments.leaves]
        with set_current_trace(recorder):
            result = f(*jax.tree.unflatten(arguments.tree, inputs))
        recorder.invalidate()
    paths, out_tree = jax.tree_util.tree_flatten_with_path(result)
    outputs = [(dotted("output", path), leaf) for path, leaf in paths]
    return Tape(recorder, len(args), arguments.tree, outputs, out_tree)


@final
@dataclass(frozen=True)
class TapeStep:
    """One recorded operation; an operation with several results has tuples of values."""

    operation: str
    formula: str
    source: SourceLine | None
    value: Any = field(repr=False)


@final
class Tape:
    """The operations that ran, in order, and the reverse sweep over them."""

    def __init__(
        self, recorder: "_Recorder", count: int, tree: Any, outputs: Sequence[tuple[str, Any]], out_tree: Any
    ) -> None:
        self._entries, self._values = recorder.entries, recorder.values
        self._count, self._tree = count, tree
        self._inputs = tree.num_leaves
        self._outputs, self._out_tree = outputs, out_tree

    @property
    def value(self) -> Any:
        """What the function returned, as numbers."""
        leaves = [np.asarray(_number(leaf)) for _, leaf in self._outputs]
        return jax.tree.unflatten(self._out_tree, leaves)

    @property
    def steps(self) -> tuple[TapeStep, ...]:
        """What was recorded, in the order it ran."""
        return tuple(
            TapeStep(entry.name, entry.formula, entry.source, values[0] if len(values) == 1 else values)
            for entry, values in zip(self._entries[self._inputs :], self._values[self._inputs :], strict=True)
        )

    def gradient(self, cotangent: Any = None) -> Any:
        """One gradient per argument (a single one for a single argument), as NumPy arrays.

        A result that is not one number needs `cotangent`, weights with the structure of the result. Integer
        arguments have no gradient: `None`.
        """
        adjoints = self._sweep(cotangent)
        leaves = [None if own[0] is None else np.asarray(own[0]) for own in adjoints[: self._inputs]]
        per_argument = self._tree.unflatten(leaves)
        return per_argument[0] if self._count == 1 else per_argument

    def table(self, cotangent: Any = None) -> Table:
        """Inputs and steps with their values and adjoints."""
        adjoints = self._sweep(cotangent)
        rows: list[list[str | float | int]] = [
            [
                index,
                entry.name,
                entry.formula,
                brief(values[0] if len(values) == 1 else values),
                brief(own[0] if len(own) == 1 else tuple(own)),
                str(entry.source or ""),
            ]
            for index, (entry, values, own) in enumerate(
                zip(self._entries, self._values, adjoints, strict=True)
            )
        ]
        columns = ("step", "operation", "formula", "value", "adjoint", "line")
        return Table("tape", f"tape of {len(self._entries) - self._inputs} operations", columns, rows)

    def __str__(self) -> str:
        return text(self.table(jax.tree.map(np.ones_like, self.value)))

    def _sweep(self, cotangent: Any) -> list[list[Any]]:
        adjoints = [
            [jnp.zeros_like(value) if is_inexact(value) else None for value in values]
            for values in self._values
        ]

        def arrive(leaf: Any, share: Any) -> None:
            if isinstance(leaf, Valued) and share is not None:
                entry, output = leaf.origin
                own = adjoints[entry]
                if own[output] is not None:
                    own[output] = own[output] + share

        for (_, leaf), seed in zip(self._outputs, self._seeds(cotangent), strict=True):
            arrive(leaf, seed)
        for index in range(len(self._entries) - 1, self._inputs - 1, -1):
            entry = self._entries[index]
            assert entry.operation is not None
            operands = [jnp.asarray(_number(operand)) for operand in entry.operands]
            for operand, share in zip(
                entry.operands, entry.operation.pull(operands, adjoints[index]), strict=True
            ):
                arrive(operand, share)
        return adjoints

    def _seeds(self, cotangent: Any) -> list[Any]:
        values = [jnp.asarray(_number(leaf)) for _, leaf in self._outputs]
        if cotangent is None:
            if len(values) == 1 and values[0].shape == () and is_inexact(values[0]):
                return [jnp.ones_like(values[0])]
            shown = ", ".join(f"{value.dtype}{list(value.shape)}" for value in values)
            raise ArgumentError(
                f"tape.gradient(): the function returns {shown}, not one number",
                remedy="pass cotangent=, weights with the structure of the result, or use jacobian(f)(x)",
            )
        names = [name for name, _ in self._outputs]
        return directions(
            "tape.gradient(cotangent=...)", "the result", cotangent, self._out_tree, names, values
        )


@final
@dataclass(frozen=True)
class _Entry:
    """A line of the tape: an input, or an operation with its operands."""

    name: str
    operation: Operation | None
    operands: tuple[Any, ...]
    source: SourceLine | None
    formula: str = ""


@final
class _Recorder(Trace):
    """Runs every operation at once and writes down those that touch a recorded value."""

    def __init__(self, parent: Any) -> None:
        super().__init__()
        self.where, self.parent = "tape", parent
        self.entries: list[_Entry] = []
        self.values: list[tuple[Any, ...]] = []

    def wrap(self, value: Any, entry: int, output: int) -> Valued:
        """A value that remembers where on the tape it was made."""
        return Valued(self, value, (entry, output))

    def process_primitive(self, primitive: Any, tracers: Any, params: Any, /) -> Any:
        inner = params.get("jaxpr") if primitive.name in ("jit", "pjit") else None
        if inner is not None and _is_one_operation(inner):
            with set_current_trace(self):
                return jaxpr_as_fun(inner)(*tracers)

        def apply(*values: Any) -> list[Any]:
            results = primitive.bind(*values, **params)
            return list(results) if primitive.multiple_results else [results]

        label = str(params.get("name") or primitive.name).strip("_<>")
        results = self._record(str(primitive.name), label, apply, tracers, params)
        return results if primitive.multiple_results else results[0]

    def stage_value(self, val: Any, /) -> Any:
        if self._is_mine(val):
            return val
        with set_current_trace(self.parent):
            return jnp.asarray(val)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, /, **params: Any
    ) -> Any:
        def run(*values: Any) -> Any:
            with take_current_trace() as trace:
                return trace.process_custom_jvp_call(primitive, fun, jvp, values, **params)

        return self._custom(run, fun, tracers)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, /, **params: Any
    ) -> Any:
        def run(*values: Any) -> Any:
            with take_current_trace() as trace:
                return trace.process_custom_vjp_call(primitive, fun, fwd, bwd, values, **params)

        return self._custom(run, fun, tracers)

    def _custom(self, run: Callable[..., Any], fun: Any, tracers: Any) -> Any:
        # The rule may be run only once, so it is turned into a program that can be run and reversed at will.
        values = [_number(tracer) if self._is_mine(tracer) else tracer for tracer in tracers]
        with set_current_trace(self.parent):
            program = jax.make_jaxpr(run)(*values)
        name = fun.debug_info.func_src_info.split(" ")[0].strip("_<>") or "custom rule"
        return self._record("custom rule", name, jaxpr_as_fun(program), tracers, {})

    def _record(
        self, name: str, label: str, apply: Callable[..., Sequence[Any]], tracers: Any, params: Any
    ) -> list[Any]:
        values = [_number(tracer) if self._is_mine(tracer) else tracer for tracer in tracers]
        operation = Operation(label, apply)
        with set_current_trace(self.parent):
            results = operation.evaluate(values)
        if not any(self._is_mine(tracer) for tracer in tracers):
            return results
        index = len(self.entries)
        names = [self._name(tracer) if self._is_mine(tracer) else _literal_of(tracer) for tracer in tracers]
        rank = np.ndim(values[0])
        formula = render(name, label, params, names, rank)
        self.entries.append(_Entry(label, operation, tuple(tracers), of_caller(), formula))
        self.values.append(tuple(results))
        return [self.wrap(result, index, output) for output, result in enumerate(results)]

    def _name(self, recorded: Valued) -> str:
        index, _ = recorded.origin
        entry = self.entries[index]
        return entry.name if entry.operation is None else f"#{index}"

    def _is_mine(self, value: Any) -> bool:
        return isinstance(value, Valued) and value._trace is self


def _is_one_operation(program: Any) -> bool:
    """Most functions of jax.numpy are a call of one operation, perhaps after casts."""
    return sum(equation.primitive.name != "convert_element_type" for equation in program.eqns) <= 1


def _literal_of(value: Any) -> str:
    return literal(value) if _is_plain(value) else str(jax.typeof(value))


def _is_plain(value: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(value), jnp.number) or jnp.result_type(value) == jnp.bool_)


def _number(leaf: Any) -> Any:
    return leaf.value if isinstance(leaf, Valued) else leaf


__all__ = ["Tape", "TapeStep", "tape"]
