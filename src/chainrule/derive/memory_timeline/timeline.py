"""Memory timeline of a function and its derivatives: live bytes step by step, and what holds them.

The answer is a model: operations one by one, unfused (the convention is written out in `schedule`). The compiler
fuses operations and often needs less; its own figure stands beside the model's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import jax
import numpy as np

from chainrule.core import notebook
from chainrule.core.errors import ArgumentError, CapabilityError, ChainruleError, check_choice
from chainrule.core.pictures import Lines
from chainrule.derive.jaxprs.branches import at_point
from chainrule.derive.jaxprs.source import SourceLine
from chainrule.derive.jaxprs.tracing import flatten, is_inexact, require_inexact, trace
from chainrule.derive.memory_timeline import drawing
from chainrule.derive.memory_timeline.roles import ROLES, Role
from chainrule.derive.memory_timeline.schedule import BufferValue, ExecutionSchedule, ExecutionStep, flat

MODES = ("evaluate", "forward", "reverse")


def memory(
    f: Callable[..., Any], *args: Any, mode: str = "reverse", argnums: int | Sequence[int] = 0
) -> "Timeline":
    """The bytes alive at every step of evaluating `f`, of one forward product, or of a gradient.

    `mode` is "evaluate" (f alone), "forward" (value and tangent together) or "reverse" (f forward, keeping what the
    reverse pass needs, then adjoints backward; the value itself is given up after the forward pass). Derivatives are
    taken in the arguments `argnums`. Arguments may be `jax.ShapeDtypeStruct`s: nothing is run. Where `f` branches in
    Python on values, it is the branch taken at the arguments, which then must be numbers.

    >>> import jax.numpy as jnp
    >>> def f(x):
    ...     for _ in range(16):
    ...         x = jnp.sin(x)
    ...     return x.sum()
    >>> x = jnp.ones(1000)
    >>> [memory(f, x, mode=mode).peak // x.nbytes for mode in ("evaluate", "forward", "reverse")]
    [2, 4, 18]
    """
    check_choice("memory", "mode", mode, MODES)
    arguments = flatten("memory", f, args, abstract=True)
    shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in arguments.leaves]
    spread = jax.tree.unflatten(arguments.tree, shapes)
    f = at_point("memory", f, jax.tree.unflatten(arguments.tree, arguments.leaves))
    if mode == "evaluate":
        return Timeline(mode, _evaluate(f, spread), lambda: jax.jit(f).lower(*spread))
    chosen = _chosen(args, argnums)
    moving = [index for index, owner in enumerate(_owners(args)) if owner in chosen]
    require_inexact("memory", [arguments.names[i] for i in moving], [shapes[i] for i in moving])
    derivative = _Derivative(f, arguments.tree, shapes, arguments.names, moving)
    try:
        if mode == "forward":
            return Timeline(mode, derivative.forward(), derivative.lower_forward)
        return Timeline(mode, derivative.reverse(), derivative.lower_reverse)
    except ChainruleError:
        raise
    except (NotImplementedError, TypeError, ValueError) as error:
        other = "reverse" if mode == "forward" else "forward"
        raise CapabilityError(
            f'memory(mode="{mode}"): JAX cannot differentiate f in this mode ({str(error).splitlines()[0]})',
            remedy=f'mode="{other}" may work',
        ) from error


def peak_bytes(f: Callable[..., Any], *args: Any) -> int:
    """The most bytes alive at once while `f` runs operation by operation."""
    return memory(f, *args, mode="evaluate").peak


@final
@dataclass(frozen=True)
class Holder:
    """Values of one source line and role that are alive at the peak."""

    source: SourceLine | None
    role: Role
    bytes: int
    values: int
    label: str


@final
class Timeline:
    """Bytes alive at every step, by role, with the peak and what holds it."""

    def __init__(self, mode: str, schedule: ExecutionSchedule, lower: Callable[[], Any]) -> None:
        self.mode = mode
        self.steps: tuple[ExecutionStep, ...] = tuple(schedule.steps)
        self.timeline: np.ndarray = schedule.live_bytes()
        """Bytes alive at each step."""
        self.by_role: dict[str, np.ndarray] = {role: schedule.live_bytes(role) for role in ROLES}
        self._values = tuple(schedule.values)
        self._lower = lower

    @property
    def peak(self) -> int:
        """The most bytes alive at one step."""
        return int(self.timeline.max(initial=0))

    @property
    def peak_step(self) -> int:
        """The first step at which the peak is reached."""
        return int(self.timeline.argmax()) if self.timeline.size else 0

    @property
    def flops(self) -> int:
        """Floating-point operations of all steps."""
        return sum(step.flops for step in self.steps)

    @cached_property
    def peak_holders(self) -> tuple[Holder, ...]:
        """Who holds the memory at the peak, by source line and role, the largest first."""
        found: dict[Any, list[Any]] = {}
        for value in self._values:
            if value.born <= self.peak_step <= value.dies and value.bytes:
                found.setdefault((value.source, value.role), []).append(value)
        holders = [
            Holder(source, role, sum(v.bytes for v in some), len(some), _shared_label(some))
            for (source, role), some in found.items()
        ]
        return tuple(sorted(holders, key=lambda holder: (-holder.bytes, str(holder.source))))

    @cached_property
    def compiled_peak(self) -> int:
        """Bytes of the compiled program's arguments, results and scratch together, by the compiler's own account."""
        analysis = self._lower().compile().memory_analysis()
        if analysis is None:
            raise ArgumentError(
                f"memory: the {jax.default_backend()} compiler does not tell how much memory a program needs"
            )
        total = analysis.argument_size_in_bytes + analysis.output_size_in_bytes + analysis.temp_size_in_bytes
        return int(total - analysis.alias_size_in_bytes)

    def picture(self) -> Lines:
        """The timeline as data: one curve per role, and their sum."""
        steps = np.arange(len(self.timeline))
        curves = {role: (steps, live) for role, live in self.by_role.items() if live.any()}
        return Lines(
            "memory",
            f"live memory, {self.mode}",
            "step",
            "bytes",
            {**curves, "all": (steps, self.timeline)},
            marks=[(float(self.peak_step), "peak")],
        )

    def to_svg(
        self,
        path: str | Path | None = None,
        *,
        compiled: bool = True,
        compare: Mapping[str, "Timeline"] | None = None,
    ) -> str:
        """A stacked area by role. `compiled` compiles the program to mark its own peak; `compare` adds outlines."""
        picture = drawing.svg(
            drawing.Content(
                title=f"live memory: {_TITLES[self.mode]}",
                by_role=self.by_role,
                total=self.timeline,
                peak_step=self.peak_step,
                peak_label=_located_label(self.steps[self.peak_step]) if self.steps else "",
                holders=[
                    f"{holder.role}: {holder.values} × {holder.label} {holder.source or ''}".rstrip()
                    for holder in self.peak_holders[:3]
                ],
                compiled=self.compiled_peak if compiled else None,
                compare={name: other.timeline for name, other in (compare or {}).items()},
            )
        )
        if path is not None:
            Path(path).write_text(picture, encoding="utf-8")
        return picture

    def _repr_html_(self) -> str:
        return notebook.drawing(self.to_svg(compiled=False))


_TITLES = {
    "evaluate": "evaluation",
    "forward": "value and tangent, forward",
    "reverse": "forward pass, then reverse pass",
}


def _located_label(step: ExecutionStep) -> str:
    return f"{step.label}, {step.source}" if step.source else step.label


def _shared_label(values: Sequence[BufferValue]) -> str:
    labels = list(dict.fromkeys(value.label for value in values))
    return labels[0] if len(labels) == 1 else f"{labels[0]} and others"


def _evaluate(f: Callable[..., Any], args: Any) -> ExecutionSchedule:
    traced = trace("memory", f, args, abstract=True)
    schedule = ExecutionSchedule()
    schedule.keep(schedule.append(flat(traced.program), names=traced.inputs))
    return schedule


def _owners(args: Sequence[Any]) -> list[int]:
    return [index for index, arg in enumerate(args) for _ in jax.tree.leaves(arg)]


def _chosen(args: Sequence[Any], argnums: int | Sequence[int]) -> set[int]:
    wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for one in wanted:
        if not -len(args) <= one < len(args):
            raise ArgumentError(f"memory(argnums={argnums}): f is called with {len(args)} arguments")
    return {one % len(args) for one in wanted}


@final
class _Derivative:
    """The programs of a forward product and of a gradient, as functions of flat leaves."""

    def __init__(
        self, f: Callable[..., Any], tree: Any, shapes: list[Any], names: Sequence[str], moving: list[int]
    ) -> None:
        self.f, self.tree, self.shapes, self.names, self.moving = f, tree, shapes, names, moving

    def forward(self) -> ExecutionSchedule:
        """The schedule of a forward product."""
        program = trace("memory", self._push, self._pushed(), abstract=True).program
        schedule = ExecutionSchedule()
        first = len(self.shapes)
        moving = range(first, first + len(self.moving))
        names = [*self.names, *(f"direction of {self.names[i]}" for i in self.moving)]
        schedule.keep(schedule.append(flat(program), moving=moving, names=names))
        schedule.assign_roles("tangent", "primal")
        return schedule

    def reverse(self) -> ExecutionSchedule:
        """The schedule of a forward pass that keeps residuals, then a reverse pass that uses them."""
        there = trace("memory", self._split, [self.shapes], abstract=True)
        shapes = [jax.ShapeDtypeStruct(out.shape, out.dtype) for out in there.program.out_avals]
        outs, pullback = jax.tree.unflatten(there.out_tree, shapes)
        residuals, structure = jax.tree.flatten(pullback)

        def pull(kept: Any, seeds: Any) -> Any:
            return jax.tree.unflatten(structure, kept)(seeds)

        back = flat(trace("memory", pull, [residuals, outs], abstract=True).program)
        schedule = ExecutionSchedule()
        results = schedule.append(flat(there.program), names=self.names)
        known = dict(enumerate(results[len(outs) :]))
        seeds = range(len(residuals), len(residuals) + len(outs))
        schedule.keep(schedule.append(back, known=known, moving=seeds))
        schedule.assign_roles("adjoint", "residual")
        return schedule

    def lower_forward(self) -> Any:
        """The forward product, ready to compile."""
        return jax.jit(self._push).lower(*self._pushed())

    def lower_reverse(self) -> Any:
        """The gradient, ready to compile."""
        outs, _ = jax.eval_shape(self._split, self.shapes)
        return jax.jit(lambda leaves, seeds: self._split(leaves)[1](seeds)).lower(self.shapes, outs)

    def _push(self, leaves: Any, directions: Any) -> Any:
        return jax.jvp(self._of_moving(leaves), [leaves[i] for i in self.moving], list(directions))

    def _pushed(self) -> list[Any]:
        return [self.shapes, [self.shapes[i] for i in self.moving]]

    def _split(self, leaves: Any) -> Any:
        return jax.vjp(self._of_moving(leaves), *(leaves[i] for i in self.moving))

    def _of_moving(self, leaves: Sequence[Any]) -> Callable[..., list[Any]]:
        def function(*moved: Any) -> list[Any]:
            full = list(leaves)
            for index, leaf in zip(self.moving, moved, strict=True):
                full[index] = leaf
            results = jax.tree.leaves(self.f(*jax.tree.unflatten(self.tree, full)))
            return [out for out in map(jax.numpy.asarray, results) if is_inexact(out)]

        return function


__all__ = ["MODES", "Holder", "Timeline", "memory", "peak_bytes"]
