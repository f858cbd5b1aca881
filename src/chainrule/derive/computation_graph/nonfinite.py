"""Origin of NaN and infinity: the first operation whose value, tangent or adjoint is not finite.

Three sweeps are searched one by one. Values and tangents in the order of the program: the first bad one belongs to
the operation that made it out of good ones. Adjoints backwards: the culprit is the operation that was handed good
adjoints and passed on a bad one. Calls, loops and branches are opened until a single operation remains.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

import numpy as np

from chainrule.derive.computation_graph import Graph, Node, graph
from chainrule.derive.computation_graph.summaries import brief, is_numeric, to_host
from chainrule.derive.jaxprs.source import SourceLine

What: TypeAlias = Literal["value", "tangent", "adjoint"]

_REMEDIES = {
    "sqrt": "sqrt has an infinite slope at 0: keep its argument positive, e.g. jnp.sqrt(x + eps)",
    "rsqrt": "1/sqrt is infinite at 0: keep its argument positive, e.g. jax.lax.rsqrt(x + eps)",
    "log": "log is infinite at 0: use jnp.log1p, jax.nn.log_softmax, jax.scipy.special.xlogy or jnp.maximum(x, eps)",
    "div": "a denominator is 0: keep it away from 0, or mask it as well as the quotient",
    "exp": "exp overflows: subtract the maximum first, as jax.nn.logsumexp and jax.nn.softmax do",
    "pow": "a power of 0 or of a negative number: keep the base positive, or use an integer exponent",
    "atan2": "atan2 has no slope at the origin: keep its arguments away from it",
}
_MASKED = (
    "jnp.where differentiates both sides and 0 times infinity is NaN: mask the argument too,\n"
    "e.g. jnp.where(ok, {name}(jnp.where(ok, x, 1.0)), 0.0)"
)
_SLOPED = (
    "sqrt",
    "rsqrt",
    "log",
    "div",
    "pow",
    "integer_pow",
    "atan2",
    "acos",
    "asin",
    "acosh",
    "atanh",
    "cbrt",
)


def nan_trace(f: Callable[..., Any], *args: Any, tangent: Any = None, cotangent: Any = None) -> "NanTrace":
    """Name the first operation whose value, tangent or adjoint is not finite; directions as in `graph`.

    >>> import jax.numpy as jnp
    >>> found = nan_trace(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0), 0.0)
    >>> found.value is None, found.adjoint.operation
    (True, 'sqrt')
    """
    whole = graph(f, *args, tangent=tangent, cotangent=cotangent)
    return NanTrace(_forward(whole, "value"), _forward(whole, "tangent"), _backward(whole))


@final
@dataclass(frozen=True)
class Finding:
    """The operation at which one of the three sweeps went wrong."""

    what: What
    operation: str
    formula: str
    source: SourceLine | None
    inside: tuple[str, ...]
    """The calls, loop steps and branches the operation is in, outermost first."""
    shown: str
    """The bad numbers."""
    remedy: str

    def __str__(self) -> str:
        location = f" at {self.source}" if self.source else ""
        within = f" inside {' > '.join(self.inside)}" if self.inside else ""
        does = (
            "passes back an adjoint that is not finite"
            if self.what == "adjoint"
            else f"{self.what} is not finite"
        )
        first = f"{self.what}: {self.formula}{location}{within}: {does} ({self.shown})"
        code = self.source.text if self.source else ""
        return "\n".join(
            part for part in (first, f"    {code}" if code else "", _indented(self.remedy)) if part
        )


@final
@dataclass(frozen=True)
class NanTrace:
    """What each sweep found; nothing where all its numbers are finite."""

    value: Finding | None
    tangent: Finding | None
    adjoint: Finding | None

    @property
    def first(self) -> Finding | None:
        """The earliest finding: values are computed first, then tangents, then adjoints."""
        return self.value or self.tangent or self.adjoint

    def __bool__(self) -> bool:
        return self.first is not None

    def __str__(self) -> str:
        if self.value is not None:  # what follows from a bad value says nothing new
            return str(self.value)
        found = [str(one) for one in (self.tangent, self.adjoint) if one is not None]
        return "\n".join(found) or "every value, tangent and adjoint is finite"


def _forward(whole: Graph, what: What) -> Finding | None:
    for node in whole.nodes:
        parts = node.values if what == "value" else node.tangents
        if _is_bad(parts):
            return _finding(whole, node, what, brief(parts[0] if len(parts) == 1 else parts))
    return None


def _backward(whole: Graph) -> Finding | None:
    for edge in whole.edges:
        if edge.target is None and _is_bad((edge.adjoint,)):
            return _finding(whole, whole.nodes[edge.source], "adjoint", f"given: {brief(edge.adjoint)}")
    for node in reversed(whole.nodes):
        shares = tuple(edge.adjoint for edge in whole.edges_to(node))
        if _is_bad(shares):
            bad = next(share for share in shares if _is_bad((share,)))
            return _finding(whole, node, "adjoint", brief(bad))
        if _is_bad(node.adjoints):  # every contribution is finite, their sum is not
            return _finding(whole, node, "adjoint", f"the sum of its uses: {brief(node.adjoint)}")
    return None


def _finding(whole: Graph, node: Node, what: What, shown: str) -> Finding:
    for location, inner in _insides(whole, node, what):
        deeper = _backward(inner) if what == "adjoint" else _forward(inner, what)
        if deeper is not None:
            return Finding(
                deeper.what,
                deeper.operation,
                deeper.formula,
                deeper.source or node.source,
                (location, *deeper.inside),
                deeper.shown,
                _remedy(whole, node, deeper.operation, what),
            )
    remedy = _remedy(whole, node, node.operation, what)
    return Finding(what, node.operation, node.formula or node.name, node.source, (), shown, remedy)


def _insides(whole: Graph, node: Node, what: What) -> Iterator[tuple[str, Graph]]:
    """The graphs inside a node in the order the sweep passes them, the likeliest step of a loop first."""
    if not node.folded or node.custom:
        return
    steps = list(range(1 if node.steps is None else node.steps))
    if what == "adjoint":
        steps.reverse()
    if node.kind == "loop":
        likely = whole.suspicious_step(node, what)
        steps = [*([] if likely is None else [likely]), *(step for step in steps if step != likely)]
    for step in steps:
        inner = whole.open(node, step)
        yield inner.title, inner


def _remedy(whole: Graph, node: Node, operation: str, what: What) -> str:
    if node.kind == "input":
        return "the argument itself is not finite"
    if what != "value" and operation in _SLOPED and _is_masked(whole, node):
        return _MASKED.format(name=operation)
    return _REMEDIES.get(operation, "")


def _is_masked(whole: Graph, node: Node) -> bool:
    """Whether a select follows, or surrounds, the operation."""
    reached = {node.id}
    for one in whole.nodes[node.id :]:
        if one.id in reached:
            if "select" in one.operation or "where" in one.name:
                return True
            reached |= {edge.target for edge in whole.edges_from(one) if edge.target is not None}
    return False


def _is_bad(parts: tuple[Any, ...]) -> bool:
    return any(
        not np.isfinite(to_host(part)).all() for part in parts if part is not None and is_numeric(part)
    )


def _indented(remedy: str) -> str:
    return "\n".join(f"    {line}" for line in remedy.splitlines())


__all__ = ["Finding", "NanTrace", "nan_trace"]
