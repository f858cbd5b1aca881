"""Any function with a reverse pass that stores what a policy of JAX says, and computes the rest again."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, final

import jax
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

from chainrule.core.recomputation.holding import hold
from chainrule.core.recomputation.programs import Function, number, returning, without_constants
from chainrule.core.recomputation.rules import Recomputation, of_moving, run


def recomputed(f: Callable[..., Any], policy: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The same function, of which the reverse pass finds only the arguments stored, and what `policy` says.

    What `jax.checkpoint` does (`policy` is one of `jax.checkpoint_policies`), and kept once compiled for a CPU.

    >>> float(jax.grad(recomputed(lambda x: jax.numpy.sin(jax.numpy.sin(x))))(0.0))
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
            function, moved = of_moving(self.definition, moving, operands)
            _, pull, results = jax.vjp(function, *moved, has_aux=True)
            stored, structure = jax.tree.flatten(pull)
            structures.append(structure)
            return [*results, *stored]

        program = jax.make_jaxpr(forward)(*operands)
        inner, count = program.jaxpr, len(self._program.jaxpr.outvars)
        made = {variable for equation in inner.eqns for variable in equation.outvars}
        # Operands are at hand in the reverse pass: storing them a second time would cost memory in loops.
        positions = {variable: index for index, variable in enumerate(inner.invars)}
        stored = inner.outvars[count:]
        kept = list(dict.fromkeys(atom for atom in stored if not isinstance(atom, Literal) and atom in made))
        fixed = dict(zip(inner.constvars, program.consts, strict=True))
        order = {variable: index for index, variable in enumerate(kept)}

        def backward(*values: Any) -> Sequence[Any]:
            start = len(inner.invars)

            def value(atom: Any) -> Any:
                if isinstance(atom, Literal):
                    return number(atom)
                if atom in positions:
                    return values[positions[atom]]
                return fixed[atom] if atom in fixed else values[start + order[atom]]

            def pull(*values: Any) -> Sequence[Any]:
                found: Sequence[Any] = jax.tree.unflatten(structures[0], values[: len(stored)])(
                    list(values[len(stored) :])
                )
                return found

            seeds = values[start + len(order) :]
            return hold(pull, seeds, *map(value, stored), *seeds)

        return returning(program, [*inner.outvars[:count], *kept]), backward

    def batched(
        self, operands: Sequence[Any], axes: Sequence[int | None]
    ) -> tuple[Recomputation, Sequence[Any], Sequence[int]]:
        program = jax.make_jaxpr(jax.vmap(self.run, tuple(axes)))(*operands)
        rule = _ByPolicy(without_constants(program), self._policy)
        return rule, (*program.consts, *operands), (0,) * len(self._program.jaxpr.outvars)


__all__ = ["recomputed"]
