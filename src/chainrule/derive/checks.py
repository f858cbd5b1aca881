"""Every derivative by a second route: all modes and strategies against each other and against differences.

`check` runs in float64 whatever the type of the point, so that differences are good to about ten digits. It compares
forward with reverse mode, Jacobians with fourth-order central differences, the duality `u·(Jv) = (Jᵀu)·v`, all Hessian
strategies with each other and with differences of the gradient, and the orders at which Taylor remainders vanish.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, ChainruleError
from chainrule.core.types import Tree
from chainrule.derive import validate
from chainrule.derive.flat import Flat, flatten
from chainrule.derive.hessians import STRATEGIES, tensor
from chainrule.derive.jacobians import matrix

_STEP = 1e-3
_MOST_ENTRIES = 1_000_000
_MOST_HESSIAN_INPUTS = 200


class DerivativeError(ChainruleError):
    """Two routes to the same derivative disagree."""


@final
@dataclass(frozen=True)
class CheckReport:
    """What was compared, and how far apart the routes were (relative to the largest entry)."""

    deviations: dict[str, float]
    slopes: dict[str, float]
    """Orders at which the Taylor remainder vanishes: about 1 without, 2 with the gradient term, 3 with the Hessian."""
    skipped: dict[str, str]
    tolerance: float

    def __str__(self) -> str:
        lines = [f"derivatives agree within {self.tolerance:g}"]
        lines += [f"  {name:<44} {value:.1e}" for name, value in self.deviations.items()]
        lines += [f"  Taylor remainder, {name:<26} order {value:.2f}" for name, value in self.slopes.items()]
        lines += [f"  {name:<44} skipped: {why}" for name, why in self.skipped.items()]
        return "\n".join(lines)


def check(
    f: Callable[[Any], Any], x: Tree, *, tolerance: float = 1e-6, seeds: int = 3, step: float = _STEP
) -> CheckReport:
    """Compare all routes to the first and second derivatives of `f` at `x`; raise with the worst entry if two disagree.

    >>> print(check(lambda x: jnp.sum(jnp.sin(x) * x), jnp.arange(3.0)))  # doctest: +ELLIPSIS
    derivatives agree within 1e-06
      forward against reverse ...
    """
    if tolerance <= 0 or seeds < 1:
        raise ArgumentError(f"check(tolerance={tolerance}, seeds={seeds}): both must be positive")
    with jax.enable_x64(True):
        x = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), validate.point("check", x))
        flat = flatten(f, x)
        if flat.n * flat.m > _MOST_ENTRIES:
            raise ArgumentError(
                f"check: {flat.m} outputs x {flat.n} inputs is too much to compare entry by entry",
                remedy="check a smaller instance of the same function",
            )
        checker = _Checker(flat, tolerance, step, seeds)
        checker.first_order()
        checker.remainders(checker.second_order())
        return CheckReport(checker.deviations, checker.slopes, checker.skipped, tolerance)


@final
class _Checker:
    """Collects deviations and raises at the first that is too large."""

    def __init__(self, flat: Flat, tolerance: float, step: float, seeds: int) -> None:
        self.flat = flat
        self.vector = jax.jit(flat.vector)
        self.tolerance = tolerance
        self.step = step
        self.seeds = seeds
        self.deviations: dict[str, float] = {}
        self.slopes: dict[str, float] = {}
        self.skipped: dict[str, str] = {}
        self.jacobian = np.zeros((flat.m, flat.n))

    def first_order(self) -> None:
        found = {}
        for mode, size in (("forward", self.flat.n), ("reverse", self.flat.m)):
            try:
                found[mode] = np.asarray(
                    jax.jit(lambda mode=mode, size=size: matrix(self.flat, mode, max(size, 1)))()
                )
            except (
                TypeError,
                ValueError,
                NotImplementedError,
            ) as error:  # how JAX says that a rule is missing
                self.skipped[f"{mode} mode"] = str(error).split(". ")[0].splitlines()[0]
        if not found:
            raise DerivativeError("check: the function has neither a forward nor a reverse derivative")
        if len(found) == 2:
            self._compare("forward against reverse", found["forward"], found["reverse"])
        jacobian = next(iter(found.values()))
        self._compare(
            f"{next(iter(found))} against central differences", jacobian, self._differences(self.vector)
        )
        self._duality(jacobian)
        self.jacobian = jacobian

    def second_order(self) -> np.ndarray | None:
        if self.flat.n > _MOST_HESSIAN_INPUTS or self.flat.n * self.flat.n * self.flat.m > _MOST_ENTRIES:
            self.skipped["second order"] = f"{self.flat.n} inputs"
            return None
        found: dict[str, np.ndarray] = {}
        for strategy in STRATEGIES:
            run = jax.jit(lambda strategy=strategy: tensor(self.flat, strategy, max(self.flat.n**2, 1)))
            try:
                found[strategy] = np.asarray(run())
            except (
                TypeError,
                ValueError,
                NotImplementedError,
            ) as error:  # how JAX says that a rule is missing
                self.skipped[strategy] = str(error).split(". ")[0].splitlines()[0]
        if not found:
            return None
        first, *others = found
        for other in others:
            self._compare(f"{first} against {other}", found[first], found[other])
        mode = "forward" if "reverse mode" in self.skipped else "reverse"
        size = self.flat.n if mode == "forward" else self.flat.m

        def slopes(z: Any) -> Any:
            return matrix(
                Flat(self.flat.vector, z, self.flat.inputs, self.flat.outputs), mode, max(size, 1)
            ).ravel()

        differences = self._differences(jax.jit(slopes)).reshape(self.flat.m, self.flat.n, self.flat.n)
        self._compare(f"{first} against differences of the gradient", found[first], differences)
        return found[first]

    def _differences(self, function: Callable[[Any], Any]) -> np.ndarray:
        """Fourth-order central differences in every coordinate."""
        x = self.flat.x
        columns = []
        for i in range(self.flat.n):
            h = self.step * max(1.0, abs(float(x[i])))
            near, far = (
                np.asarray(function(x.at[i].add(k * h)) - function(x.at[i].add(-k * h))) for k in (1, 2)
            )
            columns.append((8 * near - far) / (12 * h))
        return np.stack(columns, axis=-1) if columns else np.zeros((self.flat.m, 0))

    def _duality(self, jacobian: np.ndarray) -> None:
        if {"forward mode", "reverse mode"} & self.skipped.keys():
            return
        worst = 0.0
        for seed in range(self.seeds):
            rng = np.random.default_rng(seed)
            v, u = rng.standard_normal(self.flat.n), rng.standard_normal(self.flat.m)
            forward = float(u @ np.asarray(jax.jvp(self.vector, (self.flat.x,), (jnp.asarray(v),))[1]))
            reverse = float(np.asarray(jax.vjp(self.vector, self.flat.x)[1](jnp.asarray(u))[0]) @ v)
            scale = max(float(np.abs(u) @ np.abs(jacobian) @ np.abs(v)), 1e-300)
            worst = max(worst, abs(forward - reverse) / scale)
        self._note("u·(Jv) against (Jᵀu)·v", worst, "")

    def remainders(self, hessian: np.ndarray | None) -> None:
        """Order at which the Taylor remainder along a random direction vanishes, where that can be measured."""
        v = np.random.default_rng(0).standard_normal(self.flat.n)
        value, slope = np.asarray(self.vector(self.flat.x)), self.jacobian @ v
        terms: dict[str, tuple[Any, Any]] = {
            "without the gradient": (0.0, 0.0),
            "with the gradient": (slope, 0.0),
        }
        if hessian is not None:
            terms["with the Hessian"] = (slope, hessian @ v @ v)
        sizes = [2.0**-k for k in range(4, 9)]
        ahead = [np.asarray(self.vector(self.flat.x + h * v)) for h in sizes]
        for name, (one, two) in terms.items():
            left = [
                np.linalg.norm(y - value - h * one - 0.5 * h * h * two)
                for y, h in zip(ahead, sizes, strict=True)
            ]
            if min(left, default=0.0) > 1e-11 * max(float(np.linalg.norm(value)), 1.0):
                self.slopes[name] = float(np.polyfit(np.log(sizes), np.log(left), 1)[0])

    def _compare(self, what: str, a: np.ndarray, b: np.ndarray) -> None:
        if not a.size:
            self._note(what, 0.0, "")
            return
        scale = max(float(np.abs(a).max()), float(np.abs(b).max()), 1e-12)
        error = np.abs(a - b) / scale
        error = np.where(np.isnan(a) & np.isnan(b), 0.0, np.where(np.isnan(error), np.inf, error))
        place = np.unravel_index(int(error.argmax()), error.shape)
        left, right = what.split(" against ")
        names = [
            self._label(self.flat.outputs, place[0]),
            *(self._label(self.flat.inputs, i) for i in place[1:]),
        ]
        where = f"entry {' / '.join(names)}: {left} {a[place]:.12g}, {right} {b[place]:.12g}"
        self._note(what, float(error.max()), where)

    def _note(self, what: str, deviation: float, where: str) -> None:
        self.deviations[what] = deviation
        if not deviation <= self.tolerance:
            raise DerivativeError(
                f"check: {what} differs by {deviation:.2e} (tolerance {self.tolerance:g})",
                remedy=f"{where}\na kink at the point, a wrong custom rule, or a difference step= that does not fit",
            )

    @staticmethod
    def _label(shapes: Tree, index: Any) -> str:
        """The leaf and position of a flat index."""
        rest = int(index)
        for path, leaf in jax.tree_util.tree_leaves_with_path(shapes):
            size = int(np.prod(leaf.shape))
            if rest < size:
                inside = list(map(int, np.unravel_index(rest, leaf.shape))) if leaf.shape else []
                return f"{jax.tree_util.keystr(path) or ''}{inside}"
            rest -= size
        raise AssertionError("index outside the tree")


__all__ = ["CheckReport", "DerivativeError", "check"]
