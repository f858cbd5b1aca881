"""Functions with a reverse pass that computes values again instead of storing them, also once compiled for a CPU.

`jax.checkpoint` asks the compiler not to merge the second computation of a value with the first. XLA drops that request
for CPUs: outside of loops the two are merged, everything is stored, and nothing is saved. Here a function is four
primitives: itself (`run`), itself with what its reverse pass will need (`keep`), the forward product (`push`) and the
reverse product (`pull`); the last two are each other's transpose. A fifth, `hold`, delays what is computed again: on a
CPU it sits in a branch that is always taken, which the compiler cannot know; elsewhere JAX's barrier does.

Derivatives of the derivatives are those of a definition in plain JAX: all modes and orders work; what second ones
store is up to the compiler.
"""

import abc
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

Function: TypeAlias = Callable[..., Sequence[Any]]
"""From arrays to arrays."""

run_p, keep_p, push_p, pull_p = (Primitive(f"recomputed_{name}") for name in ("run", "keep", "push", "pull"))
hold_p = Primitive("computed_after")


def recomputed(f: Callable[..., Any], policy: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The same function, of which the reverse pass finds only the arguments stored, and what `policy` says.

    What `jax.checkpoint` does (`policy` is one of `jax.checkpoint_policies`), and kept once compiled for a CPU.

    >>> float(jax.grad(recomputed(lambda x: jnp.sin(jnp.sin(x))))(0.0))
    1.0
    """

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree.flatten((args, kwargs))
        out_trees: list[Any] = []

        def flat(*values: Any) -> list[Any]:
            positional, named = jax.tree.unflatten(tree, values)
            results, out_tree = jax.tree.flatten(f(*positional, **named))
            out_trees.append(out_tree)
            return results

        traced = jax.make_jaxpr(flat)(*leaves)
        if traced.effects:  # printing and the like: JAX knows how to keep them in order
            return jax.checkpoint(f, policy=policy)(*args, **kwargs)
        rule = _ByPolicy(without_constants(traced), policy)
        return jax.tree.unflatten(out_trees[0], run(rule, *traced.consts, *leaves))

    return wrapped


def run(rule: "Recomputation", *operands: Any) -> list[Any]:
    """The results of a rule's function."""
    return _bind(run_p, rule.run, map(jnp.asarray, operands), rule=rule)


def hold(function: Function, after: Sequence[Any], *operands: Any) -> list[Any]:
    """The function's results, computed when the arrays `after` are known and not before, and never merged."""
    ties = [one for one in after if one.size]
    if not ties:
        return list(function(*operands))
    program = jax.make_jaxpr(function)(*operands)
    inner = program.jaxpr
    values = dict(zip(inner.invars, operands, strict=True))
    # An operand handed on as it is would be copied.
    made = list(dict.fromkeys(a for a in inner.outvars if not isinstance(a, Literal) and a not in values))
    part = _returning(program, made)
    kinds: list[Any] = []  # of random keys, which travel as numbers

    def numbers(_: Any, *operands: Any) -> list[Any]:
        results = part(*operands)
        kinds[:] = [jax.random.key_impl(one) if _is_key(one) else None for one in results]
        return [jax.random.key_data(one) if _is_key(one) else one for one in results]

    found = _bind(hold_p, numbers, (ties[0].ravel()[0], *operands))
    values |= {
        atom: one if kind is None else jax.random.wrap_key_data(one, impl=kind)
        for atom, kind, one in zip(made, kinds, found, strict=True)
    }
    return [_number(atom) if isinstance(atom, Literal) else values[atom] for atom in inner.outvars]


def _is_key(value: Any) -> bool:
    return bool(jnp.issubdtype(value.dtype, jax.dtypes.prng_key))


def _number(literal: Any) -> Any:
    return jnp.asarray(literal.val, literal.aval.dtype)


def _returning(program: ClosedJaxpr, outvars: Sequence[Any]) -> Function:
    """The program's function with other results."""
    inner = program.jaxpr
    names = inner.debug_info.with_unknown_names()
    other = Jaxpr(inner.constvars, inner.invars, outvars, inner.eqns, inner.effects, names)
    return jaxpr_as_fun(ClosedJaxpr(other, program.consts))


def without_constants(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program with its constants as first operands, so that derivatives by them can be taken, too."""
    inner = program.jaxpr
    names = inner.debug_info.with_unknown_names()
    invars = [*inner.constvars, *inner.invars]
    return ClosedJaxpr(Jaxpr((), invars, inner.outvars, inner.eqns, inner.effects, names), ())


def is_inexact(value: Any) -> bool:
    """Whether derivatives by a value exist: floating-point or complex."""
    return bool(jnp.issubdtype(value.dtype, jnp.inexact))


def chosen(which: Sequence[bool], values: Sequence[Any]) -> list[Any]:
    """Those of the values that are chosen."""
    return [value for yes, value in zip(which, values, strict=True) if yes]


def merged(which: Sequence[bool], some: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """The values, with some in place of those that are chosen."""
    given = iter(some)
    return [next(given) if yes else value for yes, value in zip(which, values, strict=True)]


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


@final
class _ByPolicy(Recomputation):
    """Any program, with a policy of JAX for what is kept."""

    def __init__(self, program: ClosedJaxpr, policy: Callable[..., Any] | None) -> None:
        self._program = program
        self._policy = policy

    def run(self, *operands: Any) -> Sequence[Any]:
        return jaxpr_as_fun(self._program)(*operands)

    def definition(self, *operands: Any) -> Sequence[Any]:
        found: Sequence[Any] = jax.checkpoint(self.run, policy=self._policy)(*operands)
        return found

    def reverse(self, moving: Sequence[bool], operands: Sequence[Any]) -> tuple[Function, Function]:
        structures: list[Any] = []

        def forward(*operands: Any) -> list[Any]:
            function, moved = _of_moving(self.definition, moving, operands)
            _, pull, results = jax.vjp(function, *moved, has_aux=True)
            stored, structure = jax.tree.flatten(pull)
            structures.append(structure)
            return [*results, *stored]

        program = jax.make_jaxpr(forward)(*operands)
        inner, count = program.jaxpr, len(self._program.jaxpr.outvars)
        made = {variable for equation in inner.eqns for variable in equation.outvars}
        # Operands are at hand in the reverse pass: storing them a second time would cost memory in loops.
        places = {variable: index for index, variable in enumerate(inner.invars)}
        stored = inner.outvars[count:]
        kept = list(dict.fromkeys(atom for atom in stored if not isinstance(atom, Literal) and atom in made))
        fixed = dict(zip(inner.constvars, program.consts, strict=True))
        order = {variable: index for index, variable in enumerate(kept)}

        def backward(*values: Any) -> Sequence[Any]:
            start = len(inner.invars)

            def value(atom: Any) -> Any:
                if isinstance(atom, Literal):
                    return _number(atom)
                if atom in places:
                    return values[places[atom]]
                return fixed[atom] if atom in fixed else values[start + order[atom]]

            def pull(*values: Any) -> Sequence[Any]:
                found: Sequence[Any] = jax.tree.unflatten(structures[0], values[: len(stored)])(
                    list(values[len(stored) :])
                )
                return found

            seeds = values[start + len(order) :]
            return hold(pull, seeds, *map(value, stored), *seeds)

        return _returning(program, [*inner.outvars[:count], *kept]), backward

    def batched(
        self, operands: Sequence[Any], axes: Sequence[int | None]
    ) -> tuple[Recomputation, Sequence[Any], Sequence[int]]:
        program = jax.make_jaxpr(jax.vmap(self.run, tuple(axes)))(*operands)
        rule = _ByPolicy(without_constants(program), self._policy)
        return rule, (*program.consts, *operands), (0,) * len(self._program.jaxpr.outvars)


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
        function, moved = _of_moving(rule.definition, moving, values[:count])
        _, tangents, _ = jax.jvp(function, moved, values[count + kept :], has_aux=True)
        return list(tangents)

    def pull_definition(*values: Any) -> Sequence[Any]:
        function, moved = _of_moving(rule.definition, moving, values[:count])
        _, back, _ = jax.vjp(function, *moved, has_aux=True)
        return list(back(list(values[count + kept :])))

    return _Derivative(moving, kept, rule.definition, keep, push, pull, pull_definition)


def _of_moving(
    function: Function, moving: Sequence[bool], operands: Sequence[Any]
) -> tuple[Callable[..., tuple[Any, Any]], Any]:
    """The floating-point results as a function of the moving operands, with all results beside them."""

    def of_moving(*moved: Any) -> tuple[list[Any], list[Any]]:
        results = function(*merged(moving, moved, operands))
        return [one for one in results if is_inexact(one)], list(results)

    return of_moving, tuple(chosen(moving, operands))


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
    results = _bind(keep_p, derivative.keep, primals, derivative=derivative)
    count = len(results) - derivative.kept
    moved = chosen(moving, tangents)
    pushed = _bind(push_p, derivative.push, [*primals, *results[count:], *moved], derivative=derivative)
    return results[:count], _spread(pushed, results[:count])


def _keep_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Any, derivative: _Derivative) -> Any:
    """What is kept has no tangent of its own: `push` and `pull` are differentiated by the operands instead."""
    results = keep_p.bind(*primals, jaxpr=jaxpr, derivative=derivative)
    count = len(results) - derivative.kept
    moving = tuple(not _is_zero(tangent) for tangent in tangents)
    if all(had or not has for had, has in zip(derivative.moving, moving, strict=True)):
        moved = [*map(ad.instantiate_zeros, chosen(derivative.moving, tangents))]
        pushed = _bind(push_p, derivative.push, [*primals, *results[count:], *moved], derivative=derivative)
    else:
        function, values = _of_moving(derivative.definition, moving, primals)
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
        function, values = _of_moving(getattr(derivative, definition), moves, primals)
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
        found = _bind(primitive, transposed, [*operands[:fixed], *given], derivative=derivative)
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
    found = _bind(keep_p, batched.keep, operands, derivative=batched)
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
        found = _bind(primitive, getattr(batched, function), [*operands[:fixed], *linear], derivative=batched)
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


# ---------------------------------------------------------------------- programs


def _bind(primitive: Primitive, function: Function, operands: Any, **params: Any) -> list[Any]:
    operands = tuple(operands)
    # What runs is a parameter, as for every call of JAX: who reads programs finds it there.
    return list(primitive.bind(*operands, jaxpr=jax.make_jaxpr(function)(*operands), **params))


def _evaluate(*operands: Any, jaxpr: ClosedJaxpr, **_: Any) -> Sequence[Any]:
    return jaxpr_as_fun(jaxpr)(*operands)


def _in_a_branch(tie: Any, *operands: Any, jaxpr: ClosedJaxpr) -> Sequence[Any]:
    true = (tie == tie) | (tie != tie)
    found: Sequence[Any] = jax.lax.cond(
        true,
        lambda *values: list(_evaluate(tie, *values, jaxpr=jaxpr)),
        lambda *_: [jnp.empty(aval.shape, aval.dtype) for aval in jaxpr.out_avals],
        *operands,
    )
    return found


def _behind_a_barrier(*operands: Any, jaxpr: ClosedJaxpr) -> Sequence[Any]:
    return _evaluate(*jax.lax.optimization_barrier(operands), jaxpr=jaxpr)


def _hold_batched(operands: Any, axes: Any, *, jaxpr: ClosedJaxpr) -> Any:
    if all(axis is None for axis in axes[1:]):
        found = hold(
            functools.partial(_evaluate, operands[0].ravel()[0], jaxpr=jaxpr), operands[:1], *operands[1:]
        )
        return found, (None,) * len(found)
    function = jax.vmap(functools.partial(_evaluate, operands[0].ravel()[0], jaxpr=jaxpr), tuple(axes[1:]))
    found = hold(function, operands[:1], *operands[1:])
    return found, (0,) * len(found)


def _shapes(*_: Any, jaxpr: ClosedJaxpr, **__: Any) -> Sequence[Any]:
    return jaxpr.out_avals


for _primitive in (run_p, keep_p, push_p, pull_p, hold_p):
    _primitive.multiple_results = True
    _primitive.def_impl(_evaluate)
    _primitive.def_abstract_eval(_shapes)
    _program = _behind_a_barrier if _primitive is hold_p else _evaluate
    mlir.register_lowering(_primitive, mlir.lower_fun(_program, multiple_results=True))
mlir.register_lowering(hold_p, mlir.lower_fun(_in_a_branch, multiple_results=True), platform="cpu")
batching.primitive_batchers[hold_p] = _hold_batched


__all__ = [
    "Function",
    "Recomputation",
    "chosen",
    "hold",
    "is_inexact",
    "merged",
    "recomputed",
    "run",
    "without_constants",
]
