"""Errors of programs without a solution, or of solutions without a derivative.

Both checks end in one number, 1 where all is well, that results (or their derivatives) are multiplied by. With known
values a failure is raised at once; in a compiled program it is raised when the program runs; by choice it becomes NaN.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array

from chainrule.core.errors import ArgumentError, ChainruleError, ImplicitFunctionError
from chainrule.core.types import Scalar, Tree
from chainrule.derive.implicit import host_callback
from chainrule.derive.implicit.optimization.convex_solver import ConvexOutcome
from chainrule.derive.implicit.optimization.results import Ray, Status

POLICIES = ("raise", "nan")
SINGULAR_POLICIES = ("raise", "lstsq")


class InfeasibleError(ArgumentError):
    """No point satisfies all constraints; `ray` is the proof (see `Ray`)."""

    def __init__(self, message: str, *, ray: Ray, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.ray = ray


class UnboundedError(ArgumentError):
    """The objective has no lower bound; `ray` is a direction in which it falls for ever (see `Ray`)."""

    def __init__(self, message: str, *, ray: Ray, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.ray = ray


def gate(where: str, outcome: ConvexOutcome, on_failure: str) -> Scalar:
    """One for a solved program; otherwise an error, now or when the compiled program runs, or NaN."""
    stats = outcome.stats
    errors = (stats.primal_error, stats.dual_error, stats.gap)
    numbers = (stats.status, stats.steps, *stats.ray, outcome.row, outcome.eigenvalue, *errors)
    return _gate(partial(_verdict, where), numbers, on_failure, stats.gap.dtype)


class Doubt(NamedTuple):
    """Why a solution may have no derivatives: a code (0: no reason) and the numbers that explain it."""

    code: Array
    which: Array
    """The inequality or variable concerned."""
    found: Array
    """Positive variables of a linear program; constraints that hold with equality of another."""
    wanted: Array
    """How many there should be, or at most can be."""
    slack: Scalar
    """Of the inequality `which`."""
    multiplier: Scalar


def guard(where: str, data: Tree, doubt: Doubt, on_failure: str) -> Tree:
    """The data unchanged; differentiating in them meets the doubt first."""
    leaves, structure = jax.tree.flatten(data)
    moving = [index for index, leaf in enumerate(leaves) if _has_derivatives(leaf)]
    passed = _guarded((where, on_failure), [leaves[index] for index in moving], doubt)
    for index, leaf in zip(moving, passed, strict=True):
        leaves[index] = leaf
    return jax.tree.unflatten(structure, leaves)


def _has_derivatives(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray) and bool(jnp.issubdtype(leaf.dtype, jnp.inexact))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _guarded(_task: tuple[str, str], leaves: list[Array], _doubt: Doubt) -> list[Array]:
    return leaves


@partial(_guarded.defjvp, symbolic_zeros=True)
def _guarded_derivative(
    task: tuple[str, str], primals: Any, tangents: Any
) -> tuple[list[Array], list[Array]]:
    where, on_failure = task
    leaves, doubt = primals
    held = jax.tree.map(jax.lax.stop_gradient, doubt)
    valid = _gate(partial(_explain, where), tuple(held), on_failure, doubt.slack.dtype)
    changes = [
        jnp.zeros_like(leaf) if isinstance(change, SymbolicZero) else change * valid
        for leaf, change in zip(leaves, tangents[0], strict=True)
    ]
    # The values pass the gate as well: nothing that is computed for the derivative starts before the check has ended.
    return [leaf * valid for leaf in leaves], changes


def _gate(
    check: Callable[..., ChainruleError], numbers: tuple[Any, ...], on_failure: str, dtype: Any
) -> Scalar:
    code = numbers[0]
    if on_failure == "nan":
        return jnp.where(code == 0, 1.0, jnp.nan).astype(dtype)
    run = partial(_first_failure, check, dtype)
    if not any(isinstance(number, jax.core.Tracer) for number in numbers):
        return jnp.asarray(run(*numbers))
    return host_callback.call(
        run, jax.ShapeDtypeStruct((), dtype), *(jnp.asarray(number) for number in numbers)
    )


def _first_failure(check: Callable[..., ChainruleError], dtype: Any, *numbers: Any) -> np.ndarray:
    """On the host, with any leading axes: an error for the first case that fails, ones if there is none."""
    code = np.asarray(numbers[0])
    failed = np.argwhere(code)
    if len(failed):
        lead, index = code.ndim, tuple(failed[0])
        # Numbers that do not differ between the cases have axes of length one.
        one = [
            a[tuple(min(i, n - 1) for i, n in zip(index, a.shape[:lead], strict=True))]
            for a in map(np.asarray, numbers)
        ]
        raise check(*one)
    return np.ones(code.shape, dtype)


def _verdict(
    where: str,
    status: np.ndarray,
    steps: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    z: np.ndarray,
    row: np.ndarray,
    eigenvalue: np.ndarray,
    *errors: np.ndarray,
) -> ChainruleError:
    """The error for a program without a solution."""
    ray = Ray(x, y, z)
    standard = where == "linear_program"
    match Status(int(status)):
        case Status.INFEASIBLE:
            proof = f"y = {_shown(y)}" + ("" if standard else f", z = {_shown(z)}")
            meaning = "A'y <= 0 and b'y = 1" if standard else "A'y + G'z = 0, z >= 0 and b'y + h'z = -1"
            return InfeasibleError(
                f"{where}: infeasible: no x satisfies all constraints",
                ray=ray,
                remedy=f"proof (error.ray): {proof} has {meaning}\nrows with large entries there contradict each other",
            )
        case Status.UNBOUNDED:
            return UnboundedError(
                f"{where}: unbounded: the objective falls for ever along x + k d, k > 0",
                ray=ray,
                remedy=f"proof (error.ray): d = {_shown(x)}\nbound the variables with large entries there",
            )
        case Status.DEPENDENT:
            before = "" if int(row) == 0 else ", or is a combination of the rows before it"
            return ArgumentError(
                f"{where}: row {int(row)} of A has only zeros{before}",
                remedy='remove that row and its entry of b, or accept it with on_singular="lstsq"',
            )
        case Status.NONCONVEX:
            return ArgumentError(
                f"{where}: P is not positive semidefinite: its smallest eigenvalue is {float(eigenvalue):.6g}",
                remedy="add a multiple of the identity, or look for a local minimum with nonlinear_program",
            )
        case _:
            primal, dual, gap = (float(one) for one in errors)
            return ImplicitFunctionError(
                f"{where}: not a solution after {int(steps)} steps: relative errors {primal:.1e} (constraints), "
                f"{dual:.1e} (stationarity), {gap:.1e} (complementarity)",
                condition="not a solution",
                residual=max(primal, dual, gap),
                remedy=(
                    "start elsewhere (x0), or allow more with max_steps=; there may be no feasible point"
                    if where == "nonlinear_program"
                    else "use double precision (jax_enable_x64), scale the data, or allow more with max_steps="
                ),
            )


def _explain(
    where: str,
    code: np.ndarray,
    index: np.ndarray,
    found: np.ndarray,
    wanted: np.ndarray,
    slack: np.ndarray,
    multiplier: np.ndarray,
) -> ChainruleError:
    """The error for a solution without derivatives."""
    standard = where == "linear_program"
    i, k, most = int(index), int(found), int(wanted)
    condition, what = {
        1: (
            "no strict complementarity",
            f"variable {i} is zero ({float(slack):.1e}) and so is its reduced cost ({float(multiplier):.1e}): a vertex "
            "where more constraints meet than need to, or one of several solutions"
            if standard
            else f"inequality {i} is active (slack {float(slack):.1e}) with a multiplier of zero "
            f"({float(multiplier):.1e}): to one side it matters, to the other it does not",
        ),
        2: (
            "degenerate vertex",
            f"only {k} of the variables are positive, {most} equations determine them: the multipliers y are not unique"
            if standard
            else f"{k} constraints hold with equality, and there are {most} variables: the multipliers are not unique",
        ),
        3: (
            "several solutions",
            f"{k} variables are positive, and only {most} equations determine them: x is one solution of several",
        ),
        4: (
            "no strict complementarity",
            f"inequality {i} has only zeros in G and h: 0 <= 0 holds whatever x is, and its multiplier is not unique",
        ),
    }[int(code)]
    if int(code) == 4:
        return ImplicitFunctionError(
            f"{where}: the solution has no derivatives: {what}",
            condition=condition,
            remedy=f"remove row {i} of G and its entry of h",
        )
    return ImplicitFunctionError(
        f"{where}: the solution has no derivatives: {what}",
        condition=condition,
        remedy=("" if where == "nonlinear_program" else "smooth the program (mu=1e-3)\n")
        + 'take the least-squares answer (on_singular="lstsq") or NaN (on_failure="nan")',
    )


def _shown(vector: np.ndarray) -> str:
    strongest = np.argsort(-np.abs(vector), kind="stable")[:4]
    parts = ", ".join(f"{i}: {vector[i]:.3g}" for i in np.sort(strongest) if vector[i])
    return f"{{{parts}{', ...' if len(vector) > 4 else ''}}}"


__all__ = ["POLICIES", "SINGULAR_POLICIES", "Doubt", "InfeasibleError", "UnboundedError", "gate", "guard"]
