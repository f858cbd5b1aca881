"""f-divergences of a person's own: from f alone, with everything a critic needs, checked before it is believed.

Slope, conjugate and the end of its domain follow from f. A function that is not convex, does not vanish at 1, or is not
the conjugate of its conjugate gives no lower bounds, so each is refused with the point at which it fails.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import expressions
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array
from chainrule.probability.divergences.f_divergences import FDivergence, Function, f_divergences

_RATIOS = np.unique(np.append(np.geomspace(1e-6, 1e6, 240), 1.0))
"""Where f is looked at."""
_FAR = 60.0
"""Ratios between e^-60 and e^60 are searched for the conjugate."""
_HALVINGS = 64


def register(
    name: str,
    f: Callable[[Any], Any] | str,
    *,
    formula: str = "",
    conjugate: Function | None = None,
    activation: Function | None = None,
    below: float | None = None,
) -> FDivergence:
    """Add an f-divergence to the table `f_divergences`, after checking it on ratios from 1e-6 to 1e6.

    `f` is a JAX function of the ratio u = p/q, or a formula such as `"u*log(u)"`. What is not given follows from it:
    the conjugate by solving f'(u) = t, `below` (where the conjugate ends) as the slope of f far out, the activation as
    `below - softplus(-v)`.

    >>> one = register("triangular", "(u - 1)^2 / (u + 1)")
    >>> round(one.below, 6), one.threshold, round(float(one.f(3.0)), 6)
    (1.0, 0.0, 1.0)
    >>> register("shifted", "u*log(u) + 1")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: register('shifted'): f(1) = 1, so equal distributions would not have \
divergence 0
           subtract it: f(u) - 1
    """
    if isinstance(f, str):
        formula = formula or f
        f = _function_of(name, f)
    where = f"register({name!r})"
    with jax.enable_x64(True):
        function = _checked(where, f)
        slope = _derivative(f)
        end = _end(where, slope) if below is None else float(below)
        numeric = conjugate or _conjugate(f, slope, end)
        _check_biconjugate(where, numeric, slope, function)
        threshold, at_zero = float(slope(jnp.ones(()))), _at_zero(f)
    activate = activation or _activation(end)
    return f_divergences.add(
        name,
        FDivergence(
            name,
            formula or getattr(f, "__name__", "f(u)"),
            _term(f, at_zero, end),
            conjugate=numeric,
            below=end,
            slope=slope,
            activation=activate,
            conjugate_of_output=lambda v: numeric(activate(v)),
            threshold=threshold,
            remark="Registered by you; conjugate and slope were checked on ratios from 1e-6 to 1e6.",
        ),
    )


def _function_of(name: str, text: str) -> Callable[[Any], Any]:
    expression = expressions.read(text)
    if len(expression.variables) != 1:
        raise ArgumentError(
            f"register({name!r}): {text} has {len(expression.variables)} variables; f is a function of one, the ratio u"
        )
    return expression


def _checked(where: str, f: Callable[[Any], Any]) -> np.ndarray:
    """Values on the ratios, where f is finite, convex and zero at 1."""
    values = np.asarray(jnp.broadcast_to(jnp.asarray(f(jnp.asarray(_RATIOS))), _RATIOS.shape))
    if not np.isfinite(values).all():
        at = int(np.argmin(np.isfinite(values)))
        raise ArgumentError(
            f"{where}: f({_RATIOS[at]:.6g}) is {values[at]:.6g}; f has to be finite for u > 0"
        )
    left, right = np.diff(_RATIOS)[:-1], np.diff(_RATIOS)[1:]
    line = (right * values[:-2] + left * values[2:]) / (left + right)
    scale = 1e-12 * (1 + np.abs(values[:-2]) + np.abs(values[2:]))
    bent = (values[1:-1] - line) / scale
    if bent.max() > 1:
        at = int(np.argmax(bent)) + 1
        raise ArgumentError(
            f"{where}: f is not convex at u = {_RATIOS[at]:.6g}: f(u) = {values[at]:.6g} lies above the line between "
            "its neighbours",
            remedy="a convex f curves upwards everywhere, such as u*log(u)",
        )
    at_one = float(values[np.searchsorted(_RATIOS, 1.0)])
    if abs(at_one) > 1e-9:
        raise ArgumentError(
            f"{where}: f(1) = {at_one:.6g}, so equal distributions would not have divergence 0",
            remedy=f"subtract it: f(u) {'-' if at_one > 0 else '+'} {abs(at_one):.6g}",
        )
    return values


def _derivative(f: Callable[[Any], Any]) -> Function:
    """f' entry by entry: one forward product, whatever the shape."""

    def slope(u: Array) -> Array:
        ratio = jnp.asarray(u, jnp.result_type(float))
        return jax.jvp(lambda x: jnp.broadcast_to(f(x), x.shape), (ratio,), (jnp.ones_like(ratio),))[1]

    return slope


def _end(where: str, slope: Function) -> float:
    """f'(infinity), above which the conjugate is infinite: it settles far out, or grows without end."""
    near, far = (float(one) for one in slope(jnp.array([1e30, 1e60])))
    if math.isnan(near) or math.isnan(far):
        raise ArgumentError(
            f"{where}: f has no slope at u = 1e60, from which the domain of the conjugate would follow",
            remedy="say where the conjugate ends: below=1.0, or below=math.inf",
        )
    return far if abs(far - near) <= 1e-9 * (1 + abs(far)) else math.inf


def _conjugate(f: Callable[[Any], Any], slope: Function, end: float) -> Function:
    """sup over u of t u - f(u): the u where the slope is t by halving, then a Newton step that carries derivatives."""
    bend = _derivative(slope)

    def conjugate(t: Array) -> Array:
        wanted = jax.lax.stop_gradient(jnp.asarray(t))
        low, high = jnp.full_like(wanted, -_FAR), jnp.full_like(wanted, _FAR)

        def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = (low + high) / 2
            right = slope(jnp.exp(middle)) < wanted
            return jnp.where(right, middle, low), jnp.where(right, high, middle)

        low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (low, high))
        root = jnp.exp((low + high) / 2)
        curvature = bend(root)
        inner = (curvature > 0) & (jnp.abs(low) < _FAR) & (jnp.abs(high) < _FAR)
        newton = root + jnp.where(inner, (t - wanted) / jnp.where(inner, curvature, 1.0), 0.0)
        # At the end of the domain it is finite only where a finite ratio has that slope.
        return jnp.where((wanted < end) | (high < _FAR), t * newton - f(newton), jnp.inf)

    return conjugate


def _check_biconjugate(where: str, conjugate: Function, slope: Function, values: np.ndarray) -> None:
    """f** = f: no line t u - f*(t) above f, and one that touches it at every u."""
    slopes = np.unique(np.asarray(slope(jnp.asarray(_RATIOS))))
    heights = np.asarray(conjugate(jnp.asarray(slopes)))
    found = (slopes[None] * _RATIOS[:, None] - heights[None]).max(axis=1)
    # t u and f*(t) are of the size of the largest term, and so is their rounding.
    scale = 1e-8 * (1 + np.abs(values) + np.abs(slopes[None] * _RATIOS[:, None]).min(axis=1))
    wrong = ~(np.abs(found - values) <= scale)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ArgumentError(
            f"{where}: f** = f fails at u = {_RATIOS[at]:.6g}: f(u) = {values[at]:.8g}, the conjugate of the "
            f"conjugate {found[at]:.8g}",
            remedy="leave conjugate= out to have it computed, or correct it: the largest t u - f(u) over u >= 0",
        )


def _at_zero(f: Callable[[Any], Any]) -> float:
    """f(0), as a limit where the formula has none, such as 0 log 0."""
    exact = float(f(jnp.zeros(())))
    return exact if not math.isnan(exact) else float(f(jnp.asarray(1e-300)))


def _activation(end: float) -> Function:
    if math.isinf(end):
        return lambda v: v

    def activate(v: Array) -> Array:
        # Rounding must not reach the end, where the conjugate may be infinite.
        most = jnp.nextafter(jnp.asarray(end, v.dtype), -jnp.inf)
        return jnp.minimum(end - jax.nn.softplus(-v), most)

    return activate


def _term(f: Callable[[Any], Any], at_zero: float, end: float) -> Callable[[Array, Array], Array]:
    """q f(p/q), which is p f'(infinity) where q is zero."""

    def term(log_p: Array, log_q: Array) -> Array:
        real, fake = log_p > -jnp.inf, log_q > -jnp.inf
        both = real & fake
        ratio = jnp.exp(jnp.where(both, log_p, 0.0) - jnp.where(both, log_q, 0.0))
        inside = jnp.exp(jnp.where(fake, log_q, 0.0)) * jnp.where(real, f(ratio), at_zero)
        beyond = jnp.where(real, jnp.exp(jnp.where(real, log_p, 0.0)) * end, 0.0)
        return jnp.where(fake, inside, beyond)

    return term


__all__ = ["register"]
