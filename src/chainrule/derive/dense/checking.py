"""Checks of derivatives: all modes and strategies against each other and against finite differences.

`check` runs in float64 whatever the type of the point, so that differences are good to about ten digits. It compares
forward with reverse mode, Jacobians with fourth-order central differences and, for analytic functions, with the complex
step, the duality `u·(Jv) = (Jᵀu)·v`, all Hessian strategies with each other and with differences of the gradient, and
reports the orders at which Taylor remainders vanish. Every block of a derivative (one leaf of the output by one leaf of
the input) is measured by its own largest entry, so that a wrong rule for a small leaf is not lost beside a large one;
only what rounding can do in a sum with the largest numbers is let pass.
"""

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import notebook
from chainrule.core.errors import ArgumentError, ChainruleError
from chainrule.core.types import Tree
from chainrule.derive import validation
from chainrule.derive.dense.complex_step import NotAnalyticError, complex_step
from chainrule.derive.dense.hessians import STRATEGIES, runs, tensor
from chainrule.derive.dense.jacobians import matrix
from chainrule.derive.dense.planning import first_sentence
from chainrule.derive.flattening import Flat, flatten, pulled
from chainrule.derive.jaxprs.refusals import MISSING_RULE, NEEDS_VALUES

_STEP = 1e-3
_MOST_ENTRIES = 1_000_000
_MOST_HESSIAN_INPUTS = 200
_ROUNDING = 32 * float(np.finfo(np.float64).eps)
"""What a function may lose by rounding, relative to the largest numbers it handles."""


class DerivativeError(ChainruleError):
    """Two routes to the same derivative disagree."""


@final
@dataclass(frozen=True)
class CheckReport:
    """What was compared, and how far apart the routes were (relative to the largest entry of the same leaves)."""

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

    def _repr_html_(self) -> str:
        return notebook.text(self)


def check(
    f: Callable[[Any], Any], x: Tree, *, tolerance: float = 1e-6, seeds: int = 3, step: float = _STEP
) -> CheckReport:
    """Compare all routes to the first and second derivatives of `f` at `x`; raise with the worst entry if two disagree.

    >>> print(check(lambda x: jnp.sum(jnp.sin(x) * x), jnp.arange(3.0)))  # doctest: +ELLIPSIS
    derivatives agree within 1e-06
      forward against reverse ...
    """
    if tolerance <= 0 or seeds < 1 or step <= 0:
        raise ArgumentError(f"check(tolerance={tolerance}, seeds={seeds}, step={step}): all must be positive")
    validation.function("check", f)
    validation.numbers("check", x)
    with jax.enable_x64(True):
        x = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), validation.point("check", x))
        checker = _Checker(f, x, tolerance, step, seeds)
        if checker.flat.n * checker.flat.m > _MOST_ENTRIES:
            raise ArgumentError(
                f"check: {checker.flat.m:,} outputs x {checker.flat.n:,} inputs is too much to compare entry by entry",
                remedy="check a smaller instance of the same function",
            )
        checker.first_order()
        checker.remainders(checker.second_order())
        return CheckReport(checker.deviations, checker.slopes, checker.skipped, tolerance)


@final
class _Checker:
    """Collects deviations and raises at the first that is too large."""

    def __init__(self, f: Callable[[Any], Any], x: Tree, tolerance: float, step: float, seeds: int) -> None:
        self.f = f
        self.x = x
        self.compile: Callable[[Any], Any] = jax.jit
        try:
            outputs = jax.eval_shape(f, x)
        except NEEDS_VALUES:  # it branches in Python: everything runs operation by operation
            self.compile = lambda function: function
            outputs = f(x)
        validation.outputs("check", jax.tree.map(jnp.zeros_like, outputs))
        self.flat = flatten(f, x, outputs, traceable=self.compile is jax.jit)
        if not self.flat.n or not self.flat.m:
            nothing = "x holds no numbers" if not self.flat.n else "the function returns no numbers"
            raise ArgumentError(f"check: {nothing}, so there is no derivative to check")
        self.vector = self.compile(self.flat.vector)
        self.tolerance = tolerance
        self.step = step
        self.seeds = seeds
        self.deviations: dict[str, float] = {}
        self.slopes: dict[str, float] = {}
        self.skipped: dict[str, str] = {}
        self.jacobian = np.zeros((self.flat.m, self.flat.n))

    def first_order(self) -> None:
        found = {}
        for mode, size in (("forward", self.flat.n), ("reverse", self.flat.m)):
            try:
                found[mode] = self._whole(matrix, mode, size)
            except MISSING_RULE as error:
                self.skipped[f"{mode} mode"] = first_sentence(error)
        if not found:
            raise DerivativeError(
                "check: the function has neither a forward nor a reverse derivative",
                remedy="\n".join(self.skipped.values()),
            )
        if len(found) == 2:
            self._compare("forward against reverse", found["forward"], found["reverse"])
        mode, self.jacobian = next(iter(found.items()))
        try:
            self._compare(f"{mode} against complex step", self.jacobian, complex_step(self.f, self.x))
        except NotAnalyticError as error:
            self.skipped["complex step"] = str(error)
        differences, noise = self._differences(self.vector)
        self._compare(f"{mode} against central differences", self.jacobian, differences, noise)
        self._duality(self.jacobian)

    def second_order(self) -> np.ndarray | None:
        if self.flat.n > _MOST_HESSIAN_INPUTS or self.flat.n * self.flat.n * self.flat.m > _MOST_ENTRIES:
            self.skipped["second order"] = f"{self.flat.n} inputs"
            return None
        found: dict[str, np.ndarray] = {}
        for strategy in STRATEGIES:
            try:
                found[strategy] = self._whole(tensor, strategy, runs(strategy, self.flat.n, self.flat.m))
            except MISSING_RULE as error:
                self.skipped[strategy] = first_sentence(error)
        if not found:
            return None
        first, *others = found
        for other in others:
            self._compare(f"{first} against {other}", found[first], found[other])
        mode = "forward" if "reverse mode" in self.skipped else "reverse"
        size = self.flat.n if mode == "forward" else self.flat.m

        def slopes(z: Any) -> Any:
            return matrix(replace(self.flat, x=z), mode, max(size, 1)).ravel()

        differences, noise = (
            part.reshape(found[first].shape) for part in self._differences(self.compile(slopes))
        )
        self._compare(f"{first} against differences of the gradient", found[first], differences, noise)
        return found[first]

    def _whole(self, derivative: Callable[[Flat, str, int], Any], how: str, products: int) -> np.ndarray:
        """All products at once, or one at a time where an operation cannot be batched."""
        try:
            return np.asarray(self.compile(functools.partial(derivative, self.flat, how, max(products, 1)))())
        except MISSING_RULE:
            if products <= 1:
                raise
            return np.asarray(self.compile(functools.partial(derivative, self.flat, how, 1))())

    def _differences(self, function: Callable[[Any], Any]) -> tuple[np.ndarray, np.ndarray]:
        """Fourth-order central differences in every coordinate, and how far rounding may take them off."""
        x = np.asarray(self.flat.x)
        columns, noise = [], []
        for i, direction in enumerate(np.eye(self.flat.n)):
            h = self.step * max(1.0, abs(float(x[i])))
            at = [np.asarray(function(jnp.asarray(x + k * h * direction))) for k in (1, -1, 2, -2)]
            columns.append((8 * (at[0] - at[1]) - (at[2] - at[3])) / (12 * h))
            noise.append(_ROUNDING * np.abs(at).max(axis=0) / h)
        if not columns:
            return np.zeros((self.flat.m, 0)), np.zeros((self.flat.m, 0))
        return np.stack(columns, axis=-1), np.stack(noise, axis=-1)

    def _duality(self, jacobian: np.ndarray) -> None:
        if {"forward mode", "reverse mode"} & self.skipped.keys():
            return
        push = self.compile(lambda v: jax.jvp(self.vector, (self.flat.x,), (v,))[1])
        pull = self.compile(lambda u: pulled(self.flat.x, jax.vjp(self.vector, self.flat.x)[1], u))
        dtype = jnp.result_type(*jax.tree.leaves(self.flat.outputs))
        worst = 0.0
        for seed in range(self.seeds):
            rng = np.random.default_rng(seed)
            v, u = rng.standard_normal(self.flat.n), rng.standard_normal(self.flat.m)
            forward = complex(u @ np.asarray(push(jnp.asarray(v))))
            reverse = complex(np.asarray(pull(jnp.asarray(u, dtype))) @ v)
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
        at = np.asarray(self.flat.x)
        ahead = [np.asarray(self.vector(jnp.asarray(at + h * v))) for h in sizes]
        for name, (one, two) in terms.items():
            left = [
                np.linalg.norm(y - value - h * one - 0.5 * h * h * two)
                for y, h in zip(ahead, sizes, strict=True)
            ]
            if min(left, default=0.0) > 1e-11 * max(float(np.linalg.norm(value)), 1.0):
                self.slopes[name] = float(np.polyfit(np.log(sizes), np.log(left), 1)[0])

    def _compare(self, what: str, a: np.ndarray, b: np.ndarray, noise: np.ndarray | float = 0.0) -> None:
        if not a.size:
            self._note(what, 0.0, "")
            return
        error = np.abs(a - b) / self._scales(np.maximum(np.abs(a), np.abs(b)), noise)
        error = np.where(np.isnan(a) & np.isnan(b), 0.0, np.where(np.isnan(error), np.inf, error))
        index = np.unravel_index(int(error.argmax()), error.shape)
        left, right = what.split(" against ")
        down = " d".join(self._label("x", self.flat.inputs, i) for i in index[1:])
        up = self._label("output", self.flat.outputs, index[0])
        where = f"worst: d{up} / d{down}: {left} {a[index]:.12g}, {right} {b[index]:.12g}"
        self._note(what, float(error.max()), where)

    def _scales(self, sizes: np.ndarray, noise: np.ndarray | float) -> np.ndarray:
        """What each entry's error is measured by: the largest entry of its block, or what rounding hides."""
        sizes, noise = (np.nan_to_num(part, posinf=0.0) for part in (sizes, noise))
        scales = np.empty_like(sizes)
        axes = (self.flat.outputs, *[self.flat.inputs] * (sizes.ndim - 1))
        for block in itertools.product(*map(_slices, axes)):
            scales[block] = sizes[block].max(initial=1e-12)
        return np.maximum(scales, np.maximum(_ROUNDING * sizes.max(), noise) / self.tolerance)

    def _note(self, what: str, deviation: float, where: str) -> None:
        self.deviations[what] = deviation
        if not deviation <= self.tolerance:
            causes = "a kink at the point, a wrong custom rule, or a difference step= that does not fit"
            narrow = {str(leaf.dtype) for leaf in jax.tree.leaves(self.flat.outputs)} - {
                "float64",
                "complex128",
            }
            if narrow:
                causes += f"\nthe function computes in {', '.join(narrow)}, where differences are coarse"
            raise DerivativeError(
                f"check: {what} differs by {deviation:.2e} (tolerance {self.tolerance:g})",
                remedy=f"{where}\npossible: {causes}" if where else f"possible: {causes}",
            )

    @staticmethod
    def _label(name: str, shapes: Tree, index: Any) -> str:
        """The leaf and position of a flat index."""
        rest = int(index)
        for path, leaf in jax.tree_util.tree_leaves_with_path(shapes):
            size = int(np.prod(leaf.shape))
            if rest < size:
                inside = list(map(int, np.unravel_index(rest, leaf.shape))) if leaf.shape else ""
                return f"{name}{jax.tree_util.keystr(path)}{inside}"
            rest -= size
        raise AssertionError("index outside the tree")


def _slices(shapes: Tree) -> list[slice]:
    """Where each leaf is in the flattened tree."""
    ends = np.cumsum([math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes)]).tolist()
    return [slice(start, end) for start, end in itertools.pairwise([0, *ends])]


__all__ = ["CheckReport", "DerivativeError", "check"]
