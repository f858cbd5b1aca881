"""Prediction targets (x0, eps, score, v, u), and exact conversion between them.

With `x = a x0 + s eps`, the pair (x, one of x0, eps, score, v, u) determines all the others: score = -eps/s,
v = a eps - s x0 (Salimans and Ho, 2022), u = eps - x0 (the velocity of the straight path). The equations hold for
conditional means, which is what a trained network gives; the noise that was drawn is not the mean, and -eps/s of it is
the score given x0, not the score of the noised data.
"""

from typing import Any, Literal, TypeAlias, get_args

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float
from chainrule.models.diffusion.process import Level, per_example

Target: TypeAlias = Literal["x0", "eps", "score", "v", "u"]
TARGETS: tuple[str, ...] = get_args(Target)

_X = Float[Array, "batch ..."]


def convert(value: _X, source: str, target: str, x: _X, level: Level) -> _X:
    """A prediction of one kind as a prediction of another, for any a and s.

    >>> x0, eps, level = jnp.ones((1, 2)), jnp.full((1, 2), 3.0), Level(0.6, 0.8)
    >>> convert(eps, "eps", "x0", 0.6 * x0 + 0.8 * eps, level).round(5).tolist()
    [[1.0, 1.0]]
    """
    for name, argument in ((source, "source"), (target, "target")):
        check_choice("convert", argument, name, TARGETS)
    _refuse(source, target, level)
    if source == target:
        return value
    a, s = per_example(level.a, x), per_example(level.s, x)
    if target == "x0":
        return _x0(value, source, x, a, s)
    if target == "eps":
        return _eps(value, source, x, a, s)
    if target == "score":
        return -_eps(value, source, x, a, s) / s
    x0, eps = _x0(value, source, x, a, s), _eps(value, source, x, a, s)
    return a * eps - s * x0 if target == "v" else eps - x0


def _x0(value: Array, source: str, x: Array, a: Array, s: Array) -> Array:
    if source == "eps":
        return (x - s * value) / a
    if source == "score":
        return (x + s * s * value) / a
    if source == "v":
        return (a * x - s * value) / (a * a + s * s)
    return (x - s * value) / (a + s) if source == "u" else value


def _eps(value: Array, source: str, x: Array, a: Array, s: Array) -> Array:
    if source == "x0":
        return (x - a * value) / s
    if source == "score":
        return -s * value
    if source == "v":
        return (s * x + a * value) / (a * a + s * s)
    return (x + a * value) / (a + s) if source == "u" else value


def _refuse(source: str, target: str, level: Level) -> None:
    """Raise where a conversion divides by zero; levels inside a compiled function are not known and not checked."""
    if source == target:
        return
    if source in ("eps", "score") and target not in ("eps", "score") and _some_zero(level.a):
        raise ArgumentError(
            f"target={source!r} is undefined at alpha_bar=0",
            remedy="use target='v' or 'x0', or end the schedule at lam >= -20",
        )
    if ((source == "x0" and target != "x0") or target == "score") and _some_zero(level.s):
        raise ArgumentError(
            f"{target} cannot be told from {source} without noise (s=0)",
            remedy="ask at a level with noise; the cleanest level of a schedule has some",
        )


def _some_zero(value: Any) -> bool:
    return not isinstance(value, jax.core.Tracer) and bool((np.asarray(value) == 0).any())


def truth(target: str, x0: _X, eps: _X, level: Level) -> _X:
    """What a network with this target is trained to say where data and noise are known."""
    check_choice("truth", "target", target, TARGETS)
    if target == "x0":
        return x0
    a, s = per_example(level.a, x0), per_example(level.s, x0)
    return {
        "eps": lambda: eps,
        "score": lambda: -eps / s,
        "v": lambda: a * eps - s * x0,
        "u": lambda: eps - x0,
    }[target]()


def error_ratio(target: str, level: Level) -> Array:
    """Squared error of eps over squared error of `target`, for one and the same estimate.

    >>> float(error_ratio("x0", Level(2.0, 1.0)))
    4.0
    """
    check_choice("error_ratio", "target", target, TARGETS)
    a, s = jnp.asarray(level.a), jnp.asarray(level.s)
    factor = {
        "x0": a / s,
        "eps": jnp.ones_like(a),
        "score": s,
        "v": a / (a * a + s * s),
        "u": a / (a + s),
    }[target]
    return jnp.square(factor)


__all__ = ["TARGETS", "Target", "convert", "error_ratio", "truth"]
