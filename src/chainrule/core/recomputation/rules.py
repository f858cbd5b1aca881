"""A function with a reverse pass of its own as four primitives, for all modes, orders and batches of derivatives.

They are the function itself (`run`), itself with what its reverse pass will need (`keep`), the forward product (`push`)
and the reverse product (`pull`); the last two are each other's transpose. Derivatives of derivatives are those of a
definition in plain JAX: what they store is up to the compiler.
"""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from chainrule.core.recomputation.programs import (
    Function,
    bind,
    chosen,
    evaluate,
    is_inexact,
    merged,
    shapes,
)

run_p, keep_p, push_p, pull_p = (Primitive(f"recomputed_{name}") for name in ("run", "keep", "push", "pull"))


def run(rule: "Recomputation", *operands: Any) -> list[Any]:
    """The results of a rule's function."""
    return bind(run_p, rule.run, map(jnp.asarray, operands), rule=rule)


class Recomputation(abc.ABC):
    """A function of arrays, and what its reverse pass stores and computes again."""

    @abc.abstractmethod
    def run(self, *operands: Any) -> Sequence[Any]:
        """The results."""

    @abc.abstractmethod
    def definition(self, *operands: Any) -> Sequence[Any]:
        """The results, by operations that JAX differentiates to any order."""

    @abc.abstractmethod
    def reverse(self, moving: Sequence[bool], operands: Sequence[Any]) -> tuple[Function, Function]:
        """For derivatives by some operands: what runs forward and what runs backward.

        The first goes from the operands to the results followed by what is kept, the second from operands, what is
        kept and the cotangents of the floating-point results to the cotangents of the moving operands.
        """

    @abc.abstractmethod
    def batched(
        self, operands: Sequence[Any], axes: Sequence[int | None]
    ) -> tuple["Recomputation", Sequence[Any], Sequence[int]]:
        """The rule for a batch, the operands it takes, and the batch axis of every result."""


# ---------------------------------------------------------------------- derivatives


@final
@dataclass(frozen=True, eq=False)
class _Derivative:
    """The derivative of a function by some of its operands."""

    moving: tuple[bool, ...]
    kept: int
    definition: Function
    keep: Function
    """Operands to results and what is kept."""
    push: Function
    """Operands, what is kept and tangents of the moving operands to tangents of the floating-point results."""
    pull: Function
    """Operands, what is kept and cotangents of the floating-point results to those of the moving operands."""
    pull_definition: Function
    """The same by operations that JAX differentiates to any order."""

    @property
    def fixed(self) -> int:
        """How many operands `push` and `pull` have that they are not linear in."""
        return len(self.moving) + self.kept


def _derivative(rule: Recomputation, moving: tuple[bool, ...], operands: Sequence[Any]) -> _Derivative:
    keep, pull = rule.reverse(moving, operands)
    everything = jax.eval_shape(keep, *operands)
    count, kept = len(operands), len(everything) - len(jax.eval_shape(rule.run, *operands))

    def push(*values: Any) -> Sequence[Any]:
        function, moved = of_moving(rule.definition, moving, values[:count])
        _, tangents, _ = jax.jvp(function, moved, values[count + kept :], has_aux=True)
        return list(tangents)

    def pull_definition(*values: Any) -> Sequence[Any]:
        function, moved = of_moving(rule.definition, moving, values[:count])
        _, back, _ = jax.vjp(function, *moved, has_aux=True)
        return list(back(list(values[count + kept :])))

    return _Derivative(moving, kept, rule.definition, keep, push, pull, pull_definition)


def of_moving(
    function: Function, moving: Sequence[bool], operands: Sequence[Any]
) -> tuple[Callable[..., tuple[Any, Any]], Any]:
    """The floating-point results as a function of the moving operands, with all results beside them."""

    def moving_only(*moved: Any) -> tuple[list[Any], list[Any]]:
        results = function(*merged(moving, moved, operands))
        return [one for one in results if is_inexact(one)], list(results)

    return moving_only, tuple(chosen(moving, operands))


def _is_zero(tangent: Any) -> bool:
    return isinstance(tangent, ad.Zero) or tangent.dtype == jax.dtypes.float0


def _zero(value: Any) -> Any:
    return ad.Zero(jax.typeof(value).to_tangent_aval())


def _spread(tangents: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """Tangents of the floating-point results among those that have none."""
    given = iter(tangents)
    return [next(given) if is_inexact(one) else _zero(one) for one in results]


def _run_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Any, rule: Recomputation) -> Any:
    moving = tuple(not _is_zero(tangent) for tangent in tangents)
    if not any(moving):
        results = run_p.bind(*primals, jaxpr=jaxpr, rule=rule)
        return results, [_zero(one) for one in results]
    derivative = _derivative(rule, moving, primals)
    results = bind(keep_p, derivative.keep, primals, derivative=derivative)
    count = len(results) - derivative.kept
    moved = chosen(moving, tangents)
    pushed = bind(push_p, derivative.push, [*primals, *results[count:], *moved], derivative=derivative)
    return results[:count], _spread(pushed, results[:count])


def _keep_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Any, derivative: _Derivative) -> Any:
    """What is kept has no tangent of its own: `push` and `pull` are differentiated by the operands instead."""
    results = keep_p.bind(*primals, jaxpr=jaxpr, derivative=derivative)
    count = len(results) - derivative.kept
    moving = tuple(not _is_zero(tangent) for tangent in tangents)
    if all(had or not has for had, has in zip(derivative.moving, moving, strict=True)):
        moved = [*map(ad.instantiate_zeros, chosen(derivative.moving, tangents))]
        pushed = bind(push_p, derivative.push, [*primals, *results[count:], *moved], derivative=derivative)
    else:
        function, values = of_moving(derivative.definition, moving, primals)
        _, pushed, _ = jax.jvp(function, values, tuple(chosen(moving, tangents)), has_aux=True)
    without = [_zero(one) for one in results[count:]]
    return results, [*_spread(pushed, results[:count]), *without]


def _linear_jvp(primitive: Primitive, definition: str) -> Callable[..., Any]:
    def rule(primals: Any, tangents: Any, *, jaxpr: Any, derivative: _Derivative) -> Any:
        fixed, operands = derivative.fixed, len(derivative.moving)
        results = primitive.bind(*primals, jaxpr=jaxpr, derivative=derivative)
        if all(map(_is_zero, tangents[:operands])):
            moved = map(ad.instantiate_zeros, tangents[fixed:])
            return results, primitive.bind(*primals[:fixed], *moved, jaxpr=jaxpr, derivative=derivative)
        moves = [not _is_zero(tangent) for tangent in tangents]
        moves[operands:fixed] = [False] * derivative.kept
        function, values = of_moving(getattr(derivative, definition), moves, primals)
        _, pushed, _ = jax.jvp(function, values, tuple(chosen(moves, tangents)), has_aux=True)
        return results, pushed

    return rule


def _transpose(primitive: Primitive, function: str) -> Callable[..., Any]:
    """The rule of what `primitive` is the transpose of."""

    def rule(cotangents: Any, *operands: Any, jaxpr: Any, derivative: _Derivative) -> Any:
        del jaxpr
        fixed = derivative.fixed
        given = map(ad.instantiate_zeros, cotangents)
        transposed = getattr(derivative, function)
        found = bind(primitive, transposed, [*operands[:fixed], *given], derivative=derivative)
        return [None] * fixed + list(found)

    return rule


ad.primitive_jvps[run_p] = _run_jvp
ad.primitive_jvps[keep_p] = _keep_jvp
ad.primitive_jvps[push_p] = _linear_jvp(push_p, "push")
ad.primitive_jvps[pull_p] = _linear_jvp(pull_p, "pull_definition")
ad.primitive_transposes[push_p] = _transpose(pull_p, "pull")
ad.primitive_transposes[pull_p] = _transpose(push_p, "push")


# ---------------------------------------------------------------------- batching


def _run_batched(operands: Any, axes: Any, *, jaxpr: Any, rule: Recomputation) -> Any:
    del jaxpr
    batched, values, out_axes = rule.batched(operands, axes)
    return run(batched, *values), out_axes


def _keep_batched(operands: Any, axes: Any, *, jaxpr: Any, derivative: _Derivative) -> Any:
    del jaxpr
    batched = _over_batch(derivative, [*axes, *[0] * derivative.kept])
    found = bind(keep_p, batched.keep, operands, derivative=batched)
    return found, (0,) * len(found)


def _linear_batched(primitive: Primitive, function: str) -> Callable[..., Any]:
    def rule(operands: Any, axes: Any, *, jaxpr: Any, derivative: _Derivative) -> Any:
        del jaxpr
        fixed = derivative.fixed
        (size,) = {x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None}
        # All that the function is linear in is batched, so that its transpose has nothing to sum over.
        linear = [
            jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
            for x, axis in zip(operands[fixed:], axes[fixed:], strict=True)
        ]
        batched = _over_batch(derivative, axes[:fixed])
        found = bind(primitive, getattr(batched, function), [*operands[:fixed], *linear], derivative=batched)
        return found, (0,) * len(found)

    return rule


def _over_batch(derivative: _Derivative, axes: Sequence[int | None]) -> _Derivative:
    def over_batch(function: Function, fixed: Sequence[int | None]) -> Function:
        def mapped(*values: Any) -> Sequence[Any]:
            whole = (*fixed, *[0] * (len(values) - len(fixed)))
            found: Sequence[Any] = jax.vmap(function, whole)(*values)
            return found

        return mapped

    of_operands = axes[: len(derivative.moving)]
    return _Derivative(
        derivative.moving,
        derivative.kept,
        over_batch(derivative.definition, of_operands),
        over_batch(derivative.keep, of_operands),
        *(over_batch(one, axes) for one in (derivative.push, derivative.pull, derivative.pull_definition)),
    )


batching.primitive_batchers[run_p] = _run_batched
batching.primitive_batchers[keep_p] = _keep_batched
batching.primitive_batchers[push_p] = _linear_batched(push_p, "push")
batching.primitive_batchers[pull_p] = _linear_batched(pull_p, "pull")


for _primitive in (run_p, keep_p, push_p, pull_p):
    _primitive.multiple_results = True
    _primitive.def_impl(evaluate)
    _primitive.def_abstract_eval(shapes)
    mlir.register_lowering(_primitive, mlir.lower_fun(evaluate, multiple_results=True))


__all__ = ["Recomputation", "of_moving", "run"]
