"""Validation of a program's arguments: arrays of one floating type, of shapes that fit together."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.derive.implicit.linear.dense import LeastSquares
from chainrule.derive.implicit.linear.linear_solver import LinearSolver
from chainrule.derive.implicit.linear.selection import chosen
from chainrule.derive.implicit.optimization.failures import POLICIES, SINGULAR_POLICIES


def arrays(where: str, **given: Any) -> dict[str, Array]:
    """The arguments as arrays of their common floating type; finite where their values are known."""
    made = {}
    for name, value in given.items():
        try:
            made[name] = jnp.asarray(value)
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"{where}: {name} is {type(value).__name__}, not an array of numbers"
            ) from error
        if jnp.iscomplexobj(made[name]):
            raise ArgumentError(f"{where}: {name} is complex ({made[name].dtype}); programs are real")
    dtype = jnp.result_type(float, *(array.dtype for array in made.values()))
    for name, array in made.items():
        made[name] = array.astype(dtype)
        if not isinstance(array, jax.core.Tracer) and not np.isfinite(array).all():
            index = tuple(int(i) for i in np.argwhere(~np.isfinite(np.asarray(array)))[0])
            raise ArgumentError(
                f"{where}: {name}[{', '.join(map(str, index))}] is {np.asarray(array)[index]}",
                remedy="leave out constraints that bound nothing" if name in ("b", "h") else "",
            )
    return made


def shape(where: str, name: str, array: Array, wanted: tuple[int, ...], because: str) -> None:
    """Raise unless an argument has the shape that another one asks for."""
    if array.shape != wanted:
        raise ArgumentError(f"{where}: {name} has shape {array.shape}, expected {wanted}: {because}")


def dimensions(where: str, name: str, array: Array, count: int) -> None:
    """Raise unless an argument has this many axes."""
    if array.ndim != count:
        kind = {1: "a vector", 2: "a matrix"}[count]
        raise ArgumentError(
            f"{where}: {name} has shape {array.shape}, expected {kind}",
            remedy="for a batch of programs use jax.vmap",
        )


def some_variables(where: str, count: int) -> None:
    """Raise where there is nothing to choose."""
    if not count:
        raise ArgumentError(f"{where}: there are no variables", remedy="a program has at least one")


def smoothing(where: str, mu: Any, dtype: Any) -> tuple[Array, bool]:
    """Mu as an array, and whether there is any. Only a plain 0 means that there is none."""
    if isinstance(mu, int | float) and mu == 0:
        return jnp.zeros((), dtype), False
    made = jnp.asarray(mu, dtype)
    if made.shape != ():
        raise ArgumentError(f"{where}(mu=...): mu has shape {made.shape}, expected one number")
    if not isinstance(made, jax.core.Tracer) and not 0 < float(made) < math.inf:
        raise ArgumentError(f"{where}(mu={float(made)}): mu must be 0 (exact) or positive (smooth)")
    return made, True


def policies(where: str, linear: Any, on_failure: str, on_singular: str, max_steps: int) -> LinearSolver:
    """Check the choices that are common to all programs; the way to solve for derivatives that they imply."""
    check_choice(where, "on_failure", on_failure, POLICIES)
    check_choice(where, "on_singular", on_singular, SINGULAR_POLICIES)
    if max_steps < 1:
        raise ArgumentError(f"{where}(max_steps={max_steps}): at least one step is needed")
    way = chosen(where, linear)
    return LeastSquares() if on_singular == "lstsq" else way


__all__ = ["arrays", "dimensions", "policies", "shape", "smoothing", "some_variables"]
