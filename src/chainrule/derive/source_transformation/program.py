"""The derivative of a function as a new program."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from chainrule.core.errors import ArgumentError, CapabilityError, ChainruleError
from chainrule.derive.jaxprs import cost
from chainrule.derive.jaxprs import equations as eqs
from chainrule.derive.jaxprs.tracing import flatten, require_inexact, require_some_inexact, trace
from chainrule.derive.source_transformation.printing import pseudo_code
from chainrule.derive.source_transformation.simplifying import simplify

_NO_RULE = (NotImplementedError, TypeError, ValueError)


def program(f: Callable[..., Any], *args: Any, order: int = 1, argnums: int = 0) -> "Program":
    """The derivative of `f` in one argument, as a program with the same arguments.

    Of a scalar function the first derivative is the gradient (one reverse sweep), of anything else the Jacobian
    (forward columns; axes of the argument come last). `order` repeats: 2 is the Hessian of a scalar function,
    forward over reverse; 0 is the function itself. Where JAX has no rule for that mode, the other one is taken. The
    result is a JAX function: call it, compile it, or give it to `program` again (its own arguments are the default).
    Arguments may be `jax.ShapeDtypeStruct`s: nothing is run.

    >>> p = program(lambda x: x**3 + x, 2.0).simplify()
    >>> float(p(2.0)), float(program(p)(2.0))
    (13.0, 12.0)
    >>> p.count().operations
    3
    """
    if isinstance(f, Program) and not args:
        args = f.arguments
    if order < 0:
        raise ArgumentError(f"program(order={order}): order must be 0 or more")
    arguments = flatten("program", f, args, abstract=True)
    if not -len(args) <= argnums < len(args):
        raise ArgumentError(f"program(argnums={argnums}): f is called with {len(args)} arguments")
    if order:
        owners = [index for index, arg in enumerate(args) for _ in jax.tree.leaves(arg)]
        moving = [i for i, owner in enumerate(owners) if owner == argnums % len(args)]
        names, leaves = [arguments.names[i] for i in moving], [arguments.leaves[i] for i in moving]
        require_some_inexact("program", names, leaves)
        require_inexact("program", names, leaves)
    shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in arguments.leaves]
    spread = jax.tree.unflatten(arguments.tree, shapes)
    if order:
        trace("program", f, spread, abstract=True)  # what is wrong with f itself is said of f
    derivative = f
    for _ in range(order):
        derivative = _differentiate(derivative, spread, argnums)
    traced = trace("program", derivative, spread, abstract=True)
    name = f.title if isinstance(f, Program) else getattr(f, "__name__", "f").strip("<>")
    title = name + ("'" * order if order < 4 else f"^({order})")
    return Program(traced.program, spread, arguments.names, arguments.tree, traced.out_tree, title)


@final
@dataclass(frozen=True)
class OperationCount:
    """The size of a program: operations as written, loops counted once, and floating-point operations as run."""

    operations: int
    flops: int
    by_operation: dict[str, int] = field(repr=False)


@final
class Program:
    """A function that is known down to its operations."""

    def __init__(
        self,
        jaxpr: ClosedJaxpr,
        arguments: tuple[Any, ...],
        inputs: Sequence[str],
        in_tree: Any,
        out_tree: Any,
        title: str,
    ) -> None:
        self.jaxpr = jaxpr
        self.arguments = arguments
        """The arguments it takes, as shapes and types."""
        self.title = title
        self._inputs, self._in_tree, self._out_tree = tuple(inputs), in_tree, out_tree

    def __call__(self, *args: Any) -> Any:
        leaves, tree = jax.tree.flatten(args)
        if tree != self._in_tree:
            raise ArgumentError(f"{self.title}: the arguments have structure {tree}, not {self._in_tree}")
        expected = jax.tree.leaves(self.arguments)
        checked = [
            self._check(name, leaf, like)
            for name, leaf, like in zip(self._inputs, leaves, expected, strict=True)
        ]
        return jax.tree.unflatten(self._out_tree, jaxpr_as_fun(self.jaxpr)(*checked))

    def __str__(self) -> str:
        return pseudo_code(self.jaxpr, self._inputs, self.title)

    def print(self) -> None:
        """Write the program out as pseudo-code."""
        print(self)

    def count(self) -> OperationCount:
        """How many operations it has, and what they cost."""
        names = Counter(_operations(self.jaxpr))
        return OperationCount(names.total(), cost.program_flops(self.jaxpr), dict(names.most_common()))

    def simplify(self) -> "Program":
        """The same function in fewer operations; see `simplifying` for what is rewritten."""
        return Program(
            simplify(self.jaxpr), self.arguments, self._inputs, self._in_tree, self._out_tree, self.title
        )

    def export(self, path: str | Path | None = None) -> str:
        """The program in StableHLO, the text other compilers and runtimes read."""
        text = str(jax.jit(self).lower(*self.arguments).as_text("stablehlo"))
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def _check(self, name: str, leaf: Any, like: Any) -> Any:
        array = (
            jnp.asarray(leaf, like.dtype)
            if isinstance(leaf, (bool, int, float, complex))
            else jnp.asarray(leaf)
        )
        if array.shape != like.shape or array.dtype != like.dtype:
            raise ArgumentError(
                f"{self.title}: {name} is {array.dtype}{list(array.shape)}, "
                f"the program is for {like.dtype}{list(like.shape)}",
                remedy="make a program for these arguments",
            )
        return array


def _differentiate(f: Callable[..., Any], args: tuple[Any, ...], argnums: int) -> Callable[..., Any]:
    results = jax.tree.leaves(jax.eval_shape(f, *args))
    scalar = len(results) == 1 and results[0].shape == ()
    modes = (jax.grad, jax.jacfwd) if scalar else (jax.jacfwd, jax.jacrev)
    errors = []
    for mode in modes:
        derivative: Callable[..., Any] = mode(f, argnums=argnums)
        try:
            jax.eval_shape(derivative, *args)
        except ChainruleError:
            raise
        except _NO_RULE as error:
            errors.append(error)
        else:
            return derivative
    first, second = (str(error).splitlines()[0] for error in errors)
    raise CapabilityError(
        f"program: {modes[0].__name__}: {first}\n{modes[1].__name__}: {second}",
        remedy="give the operation a rule with jax.custom_jvp; graph(f, x) and tape(f, x) work at one point",
    ) from errors[0]


def _operations(program: ClosedJaxpr) -> list[str]:
    found = []
    for equation in program.eqns:
        inside = [name for inner in eqs.inner_programs(equation) for name in _operations(inner)]
        found += inside if eqs.body(equation) is not None else [str(equation.primitive.name), *inside]
    return found


__all__ = ["OperationCount", "Program", "program"]
