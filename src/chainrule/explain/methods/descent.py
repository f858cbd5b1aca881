"""Gradient descent with certificates: every step recorded, and the theorems drawn beside it.

Each method returns its path together with the upper bounds that theory gives for it. The smoothness L and convexity
alpha in them come from power iteration on Hessian-vector products along the path, unless they are given. A bound that
is violated means that an assumption does not hold: the function is not convex, or the step is too long.

References: Nesterov, Introductory Lectures on Convex Optimization, 2004; Su, Boyd and Candès, 2016, arXiv:1503.01243;
Duchi, Hazan and Singer, 2011.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.train.transformations import MOST_FOR_FULL, divide_by_root

Objective = Callable[[Array], Scalar]
Point = Float[Array, " d"]
Start: TypeAlias = Any
"""The first point: a vector of any array type, or a list of numbers."""
Carry = tuple[Array, ...]

_POWER_STEPS = 200
_POINTS = 8
"""Steps of a path along which the curvature is looked at; most of them early, where steps are long."""
_ROOM = 1e-6
"""Share by which rounding may exceed a bound."""


@final
@dataclass(frozen=True)
class DescentPath:
    """What a method did, and what theory says about it."""

    points: np.ndarray
    """Shape (steps + 1, d)."""
    values: np.ndarray
    gradients: np.ndarray
    """Norm of the gradient at each point."""
    minimizer: np.ndarray
    smoothness: float
    """L: the largest curvature along the path."""
    convexity: float
    """alpha: the smallest curvature along the path; negative where the function is not convex."""
    bounds: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Upper bounds of `gaps` by the theorem they come from; NaN where a theorem says nothing."""
    minimum: float = 0.0
    sign: float = 1.0
    """-1 where the function was maximised; everything here is about its negative then, `values` excepted."""

    @property
    def gaps(self) -> np.ndarray:
        """How far each value is from the optimum."""
        return self.sign * self.values - self.minimum

    @property
    def distances(self) -> np.ndarray:
        """How far each point is from the optimum."""
        with np.errstate(over="ignore"):
            return np.linalg.norm(self.points - self.minimizer[None, :], axis=1)

    @property
    def is_finite(self) -> np.ndarray:
        """Of each step, whether point, value and gradient are numbers that can be computed with."""
        return np.isfinite(self.points).all(axis=1) & np.isfinite(self.values) & np.isfinite(self.gradients)

    @property
    def violated(self) -> dict[str, int]:
        """The first step at which each broken bound is exceeded; empty when all hold.

        No bound allows a value that is not finite.
        """
        size = np.where(np.isfinite(self.gaps), np.abs(self.gaps), 0.0)
        # What rounding may add depends on the largest numbers so far; those still to come do not excuse anything.
        room = _ROOM * (np.maximum.accumulate(size) * 1e-6 + size) + 1e-14
        broken = {}
        for name, bound in self.bounds.items():
            kept = np.isfinite(self.gaps) & (self.gaps <= bound + room)
            over = np.flatnonzero(np.isfinite(bound) & ~kept)
            if len(over):
                broken[name] = int(over[0])
        return broken


def descent(
    f: Objective,
    x0: Start,
    lr: float,
    steps: int = 100,
    *,
    maximize: bool = False,
    minimizer: Any = None,
    smoothness: float | None = None,
    convexity: float | None = None,
) -> DescentPath:
    """Gradient descent `x <- x - lr g` (ascent if `maximize`), with three theorems.

    - descent lemma: `f+ <= f - lr (1 - L lr / 2) |g|²`
    - convex, lr <= 1/L: `f_t - f* <= |x0 - x*|² / (2 lr t)`
    - strongly convex, lr = 1/L: a factor `1 - alpha/L` per step

    >>> path = descent(lambda x: (x**2).sum(), jnp.array([1.0, 1.0]), 0.25, 3)
    >>> path.values.tolist(), path.violated
    ([2.0, 0.5, 0.125, 0.03125], {})
    """
    x0, sign = _vector(x0), -1.0 if maximize else 1.0
    g = _gradient(f, sign)
    path = _record(f, g, (x0,), lambda carry, t: (carry[0] - lr * g(carry[0]),), steps, lr, sign)
    known = _know(f, path, sign, minimizer, smoothness, convexity)
    t, gaps = np.arange(steps + 1), known.gaps
    start = known.distances[0] ** 2
    with np.errstate(over="ignore", invalid="ignore"):
        lemma = gaps - lr * (1 - known.smoothness * lr / 2) * known.gradients**2
    rate = max(1 - known.convexity / known.smoothness, 0.0) if known.smoothness > 0 else 1.0
    bounds = {
        "descent lemma": np.append(np.nan, lemma[:-1]),
        "convex": np.append(np.nan, start / (2 * lr * t[1:])),
    }
    if known.convexity > 0 and np.isclose(lr * known.smoothness, 1.0, rtol=1e-3):
        bounds["strongly convex"] = gaps[0] * rate**t
    return replace(known, bounds=bounds)


def momentum(
    f: Objective,
    x0: Start,
    lr: float,
    m: float,
    steps: int = 100,
    *,
    form: str = "sum",
    look_ahead: bool = False,
    **known: Any,
) -> DescentPath:
    """Heavy ball: `v <- m v + g; x <- x - lr v`.

    With `form="average"`, `v <- m v + (1 - m) g`, which is the same at rate `lr (1 - m)`. With `look_ahead`, Nesterov's
    `x <- x - lr (g + m v)`.
    """
    if form not in ("sum", "average"):
        raise ArgumentError(f'momentum(form={form!r}): form must be "sum" or "average"')
    x0, weight = _vector(x0), 1.0 if form == "sum" else 1.0 - m
    g = _gradient(f, 1.0)

    def step(carry: Carry, t: Array) -> Carry:
        del t
        x, v = carry
        slope = g(x)
        v = m * v + weight * slope
        return x - lr * (slope + m * v if look_ahead else v), v

    return _know(f, _record(f, g, (x0, jnp.zeros_like(x0)), step, steps, lr, 1.0), 1.0, **_three(known))


def nesterov(f: Objective, x0: Start, lr: float, steps: int = 100, **known: Any) -> DescentPath:
    """Nesterov's method for convex functions, whose error falls like 1/t².

    `phi <- x - lr g(x); x <- phi + t/(t+3) (phi - phi_before)`, and `f(phi_t) - f* <= 2 |x0 - x*|² / (lr (t+1)²)` for
    lr <= 1/L. The path is that of phi.
    """
    x0, g = _vector(x0), _gradient(f, 1.0)

    def step(carry: Carry, t: Array) -> Carry:
        phi, x = carry
        new = x - lr * g(x)
        return new, new + t / (t + 3) * (new - phi)

    path = _know(f, _record(f, g, (x0, x0), step, steps, lr, 1.0), 1.0, **_three(known))
    t = np.arange(steps + 1)
    return replace(path, bounds={"convex, accelerated": 2 * path.distances[0] ** 2 / (lr * (t + 1) ** 2)})


def adagrad(
    f: Objective,
    x0: Start,
    lr: float,
    steps: int = 100,
    *,
    full_matrix: bool = False,
    eps: float = 1e-12,
    **known: Any,
) -> tuple[DescentPath, float, float]:
    """AdaGrad, its regret and the bound of it: `sum of f(x_t) - f* <= (D²/(2 lr) + lr) tr G_T`.

    Diagonal: `x <- x - lr g / (sqrt(sum g²) + eps)`; full matrix (up to 500 entries): `x <- x - lr G^(-1) g` with `G
    = (sum g g^T)^(1/2)`. D is the largest distance to the optimum on the way. The bound of the mean regret falls like
    1/sqrt(T), so the *average* of the points converges at that rate.
    """
    x0 = _vector(x0)
    d = x0.shape[0]
    if full_matrix and d > MOST_FOR_FULL:
        raise ArgumentError(
            f"adagrad(full_matrix=True): {d} entries; a matrix root a step is for {MOST_FOR_FULL} at most",
            remedy="use the diagonal form",
        )
    g = _gradient(f, 1.0)

    def step(carry: Carry, t: Array) -> Carry:
        del t
        x, sums = carry
        slope = g(x)
        if not full_matrix:
            sums = sums + jnp.square(slope)
            return x - lr * slope / (jnp.sqrt(sums) + eps), sums
        sums = sums + slope[:, None] * slope[None, :]
        return x - lr * divide_by_root(sums, slope, eps), sums

    sums = jnp.zeros((d, d) if full_matrix else (d,), x0.dtype)
    path = _know(f, _record(f, g, (x0, sums), step, steps, lr, 1.0), 1.0, **_three(known))
    slopes = np.asarray(jax.vmap(g)(jnp.asarray(path.points[:-1])), dtype=np.float64)
    if full_matrix:
        trace = float(np.sqrt(np.maximum(np.linalg.eigvalsh(slopes.T @ slopes), 0)).sum())
        span = path.distances[:-1].max()
    else:
        trace = float(np.sqrt(np.square(slopes).sum(axis=0)).sum())
        span = np.abs(path.points[:-1] - path.minimizer[None, :]).max()
    return path, float(path.gaps[:-1].sum()), float((span**2 / (2 * lr) + lr) * trace)


def preconditioned(f: Objective, x0: Start, matrix: Any, steps: int = 1, **known: Any) -> DescentPath:
    """Descent `x <- x - matrix^(-1) g`: one step is enough for a quadratic whose Hessian is the matrix."""
    x0, g = _vector(x0), _gradient(f, 1.0)
    matrix = jnp.asarray(matrix, x0.dtype)
    if matrix.shape != (len(x0), len(x0)):
        raise ArgumentError(
            f"preconditioned(matrix of shape {matrix.shape}): a point of {len(x0)} entries needs a matrix of "
            f"{len(x0)} rows and columns"
        )
    path = _record(
        f, g, (x0,), lambda carry, t: (carry[0] - jnp.linalg.solve(matrix, g(carry[0])),), steps, 1.0, 1.0
    )
    return _know(f, path, 1.0, **_three(known))


def decayed_minimizer(hessian: Any, minimizer: Any, decay: float) -> np.ndarray:
    """Where a quadratic with a penalty `decay/2 |x|²` has its minimum: `(H + decay I)^(-1) H x*`.

    Along an eigenvector of H with eigenvalue lam, x* shrinks by lam / (lam + decay).

    >>> decayed_minimizer([[1.0, 0.0], [0.0, 10.0]], [1.0, 1.0], 1.0).round(6).tolist()
    [0.5, 0.909091]
    """
    h = np.asarray(hessian, dtype=np.float64)
    return np.asarray(
        np.linalg.solve(h + decay * np.eye(len(h)), h @ np.asarray(minimizer, dtype=np.float64))
    )


def curvature(f: Objective, x: Start, *, seed: int = 0) -> tuple[float, float]:
    """The largest and the smallest eigenvalue of the Hessian, by power iteration on Hessian-vector products.

    >>> top, bottom = curvature(lambda x: x[0] ** 2 + 5 * x[1] ** 2, jnp.array([1.0, 1.0]))
    >>> round(top, 3), round(bottom, 3)
    (10.0, 2.0)
    """
    top, bottom = _extremes(f, _vector(x)[None, :], seed)
    return float(top[0]), float(bottom[0])


# ---------------------------------------------------------------------- inside


def _vector(x: Start) -> Point:
    """A point as a vector of floating numbers, in its own precision where it has one."""
    point = jnp.asarray(x)
    if point.ndim != 1 or not point.size or jnp.issubdtype(point.dtype, jnp.complexfloating):
        raise ArgumentError(
            f"a point of shape {point.shape} and type {point.dtype}: it must be a vector of real numbers",
            remedy="give jnp.array([...]) or a list with one number for each variable",
        )
    return point if jnp.issubdtype(point.dtype, jnp.floating) else point.astype(jnp.result_type(float))


def _gradient(f: Objective, sign: float) -> Callable[[Array], Array]:
    return jax.grad(lambda x: sign * f(x))


def _record(
    f: Objective,
    g: Callable[[Array], Array],
    start: Carry,
    step: Callable[[Carry, Array], Carry],
    steps: int,
    lr: float,
    sign: float,
) -> DescentPath:
    if not lr > 0 or steps < 1:
        raise ArgumentError(f"lr={lr}, steps={steps}: both must be positive")

    @jax.jit
    def run(start: Carry) -> tuple[Array, Array, Array]:
        def body(carry: Carry, t: Array) -> tuple[Carry, Array]:
            new = step(carry, t)
            return new, new[0]

        _, xs = jax.lax.scan(body, start, jnp.arange(steps, dtype=start[0].dtype))
        points = jnp.concatenate([start[0][None, :], xs])
        return points, jax.vmap(f)(points), jnp.linalg.norm(jax.vmap(g)(points), axis=1)

    points, values, slopes = (np.asarray(a, dtype=np.float64) for a in run(start))
    path = DescentPath(points, values, slopes, np.zeros(points.shape[1]), 0.0, 0.0, {}, sign=sign)
    if not path.is_finite[0]:
        raise ArgumentError(
            f"at the first point {points[0].tolist()} the function is {values[0]:.4g} and its gradient has norm "
            f"{slopes[0]:.4g}",
            remedy="start where both are finite",
        )
    return path


def _know(
    f: Objective,
    path: DescentPath,
    sign: float,
    minimizer: Any = None,
    smoothness: float | None = None,
    convexity: float | None = None,
) -> DescentPath:
    """The path with the optimum and the curvature that its bounds need; what is not given is computed."""
    dtype = jnp.result_type(float)
    finite = path.points[path.is_finite]
    if minimizer is None:
        value = jax.jit(jax.value_and_grad(lambda x: sign * f(x)))
        # From the best point, not the last: where a path flies off, the search would too.
        best = finite[int((sign * path.values[path.is_finite]).argmin())]
        found = scipy.optimize.minimize(
            lambda x: tuple(np.asarray(a, dtype=np.float64) for a in value(jnp.asarray(x, dtype))),
            best,
            jac=True,
            tol=1e-12,
        )
        minimizer = found.x
    minimizer = np.asarray(minimizer, dtype=np.float64)
    chosen = np.unique(np.geomspace(1, len(finite), min(_POINTS, len(finite))).astype(int)) - 1
    following = finite[np.minimum(chosen + 1, len(finite) - 1)]
    points = np.concatenate(
        [(1 - share) * finite[chosen] + share * following for share in (0.0, 0.25, 0.5, 0.75)]
    )
    if smoothness is None or convexity is None:
        top, bottom = _extremes(lambda x: sign * f(x), jnp.asarray(points, dtype), 0)
        seen = np.isfinite(top) & np.isfinite(bottom)  # curvature overflows before the path does
        smoothness = float(top[seen].max(initial=-np.inf)) if smoothness is None else smoothness
        convexity = float(bottom[seen].min(initial=np.inf)) if convexity is None else convexity
    least = sign * float(f(jnp.asarray(minimizer, dtype)))
    return replace(path, minimizer=minimizer, smoothness=smoothness, convexity=convexity, minimum=least)


def _three(known: Mapping[str, Any]) -> Mapping[str, Any]:
    names = ("minimizer", "smoothness", "convexity")
    for name in known:
        if name not in names:
            raise ArgumentError(
                f"unknown argument {name!r}", remedy=f"what may be known before: {', '.join(names)}"
            )
    return known


def _extremes(f: Objective, points: Float[Array, "n d"], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Largest and smallest eigenvalue of the Hessian at each point."""
    first = jax.random.normal(jax.random.key(seed), points.shape[1:], points.dtype)

    def power(multiply: Callable[[Array], Array]) -> Scalar:
        def body(_: Any, v: Array) -> Array:
            w = multiply(v)
            return w / jnp.maximum(jnp.linalg.norm(w), jnp.finfo(v.dtype).tiny)

        v = jax.lax.fori_loop(0, _POWER_STEPS, body, first / jnp.linalg.norm(first))
        return v @ multiply(v)

    def at(x: Array) -> tuple[Scalar, Scalar]:
        def product(v: Array) -> Array:
            return jax.jvp(jax.grad(f), (x,), (v,))[1]

        # The eigenvalue of largest size gives a shift that makes either end of the spectrum the largest.
        size = jnp.abs(power(product)) + jnp.finfo(x.dtype).tiny
        top = power(lambda v: product(v) + size * v) - size
        return top, size - power(lambda v: size * v - product(v))

    top, bottom = jax.jit(jax.vmap(at))(points)
    return np.asarray(top), np.asarray(bottom)


__all__ = [
    "DescentPath",
    "adagrad",
    "curvature",
    "decayed_minimizer",
    "descent",
    "momentum",
    "nesterov",
    "preconditioned",
]
