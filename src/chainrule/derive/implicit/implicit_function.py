"""Implicit functions: solutions as functions of their parameters, by `root`, `fixed_point` and `minimum`."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Tree
from chainrule.derive import validation
from chainrule.derive.implicit import theorem
from chainrule.derive.implicit.linear.dense import LeastSquares
from chainrule.derive.implicit.linear.linear_solver import LinearSolver
from chainrule.derive.implicit.linear.selection import Automatic, chosen
from chainrule.derive.implicit.problem import (
    Form,
    ImplicitProblem,
    ProblemLayout,
    Values,
    fixed_point_of,
    formulate,
    half_squares,
    least_squares_of,
    minimum_of,
    pose,
    root_of,
)
from chainrule.derive.implicit.solution import Solution, Stats
from chainrule.derive.implicit.solvers import (
    LBFGS,
    Anderson,
    GaussNewton,
    LevenbergMarquardt,
    Nesterov,
    Newton,
    Picard,
    Solver,
    SolverOutcome,
    SolverTask,
)
from chainrule.derive.implicit.tolerances import Conditions

UserSolver: TypeAlias = Callable[..., Any]
"""`solver(function, w0, *params) -> w`, with the function given to `root`, `fixed_point` or `minimum`."""
_SOLVERS: dict[str, Solver] = {
    "newton": Newton(),
    "picard": Picard(),
    "anderson": Anderson(),
    "nesterov": Nesterov(),
    "lbfgs": LBFGS(),
    "levenberg-marquardt": LevenbergMarquardt(),
    "gauss-newton": GaussNewton(),
}


@final
class Implicit:
    """w*(q) as a function: call it with a first guess and the parameters.

    The value has exact derivatives in the parameters, in both modes, of every order, under `jit` and `vmap`; the first
    guess has none. The solver's steps are never differentiated.
    """

    def __init__(
        self,
        name: str,
        function: Any,
        form: Form,
        solver: Solver | UserSolver,
        linear: LinearSolver,
        limits: Conditions,
        on_failure: str,
        leading: Callable[..., tuple[Any, ...]] | None = None,
    ) -> None:
        validation.function(name, function)
        check_choice(name, "on_failure", on_failure, ("raise", "nan"))
        self.name = name
        self.function = function
        self._form = form
        self._solver = solver
        self._linear = linear
        self._limits = limits
        self._on_failure = on_failure
        self._leading = leading
        """Parameters worked out from the others, which the function takes before them."""

    def __call__(self, w0: Tree, *params: Any) -> Tree:
        """The solution, in the structure of `w0`."""
        problem, outcome, values = self._solve(w0, params)
        x = theorem.solution(problem, outcome.x, values, outcome.factor)
        return problem.equations.unknowns.tree(x)

    def details(self, w0: Tree, *params: Any) -> Solution:
        """The solution with how it was found. Factorises for the condition estimate, so it costs more than a call."""
        problem, outcome, values = self._solve(w0, params)
        x = theorem.solution(problem, outcome.x, values, outcome.factor)
        first = theorem.examine(problem, outcome.x, values.held())
        factor, second = theorem.factored(problem, outcome.x, values.held(), outcome.factor)
        own = problem.linear.factorises and outcome.factor is None
        stats = Stats(
            steps=outcome.steps,
            factorisations=outcome.factorisations + int(own),
            residual=second.residual,
            rcond=second.rcond,
            drift=second.drift,
            failure=jnp.where(first.code == 0, second.code, first.code),
        )
        kept = sum(
            leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(eqx.filter(factor, eqx.is_array))
        )
        value = problem.equations.unknowns.tree(x)
        return Solution(value, stats, self.name, type(problem.linear).__name__, int(x.size), int(kept))

    def _solve(self, w0: Tree, params: tuple[Any, ...]) -> tuple[ImplicitProblem, SolverOutcome, Values]:
        """Run the solver on values that carry no derivatives."""
        if self._leading is not None:
            params = (*jax.lax.stop_gradient(self._leading(w0, *params)), *params)
        equations, x, values = formulate(self.name, self.function, self._form, w0, params)
        problem = pose(equations, x, values, self._linear, self._limits, self._on_failure)
        held, x = values.held(), jax.lax.stop_gradient(x)
        if isinstance(self._solver, Solver):
            return problem, _run(self._solver, problem, x, held), values
        function = self.function
        if equations.captured is not None:  # what it closes over must not carry derivatives into the solver
            function = lambda w, *_: equations.call(w, held)  # noqa: E731
        found = self._solver(function, equations.unknowns.tree(x), *equations.arguments(held))
        unknown, none = jnp.full((), -1, jnp.int32), jnp.zeros((), jnp.int32)
        return problem, SolverOutcome(self._accept(equations.unknowns, found), unknown, none), values

    def _accept(self, wanted: ProblemLayout, found: Tree) -> Array:
        """What the user's solver returned, as a vector."""
        found = jax.tree.map(jnp.asarray, found)
        got = ProblemLayout.of(found)
        if got.structure != wanted.structure or [s for s, _ in got.leaves] != [s for s, _ in wanted.leaves]:
            raise ArgumentError(
                f"{self.name}: the solver returned {got}, but w0 has {wanted}",
                remedy="a solver returns w in the structure and shapes of the first guess",
            )
        flat = [leaf.reshape(-1).astype(wanted.dtype) for leaf in jax.tree.leaves(found)]
        return jnp.concatenate(flat)

    def __repr__(self) -> str:
        return f"{self.name} of {getattr(self.function, '__name__', 'a function')}, {self._linear}"


def root(
    F: Any,
    solver: Any = None,
    linear: Any = "lu",
    *,
    tolerance: float | None = None,
    rcond: float | None = None,
    on_failure: str = "raise",
    on_singular: str = "fail",
) -> Implicit:
    """The w with F(w, *params) = 0 as a function `solve(w0, *params)` of the parameters.

    The derivative is -A⁻¹B with A = dF/dw and B = dF/dparams at the solution, whatever path the solver took; where
    several solutions exist it belongs to the one found from `w0`. `solver` is `None` (damped Newton), a solver of ours,
    or a function `solver(F, w0, *params) -> w`. `linear` says how to solve with A: "lu", "cholesky", "banded",
    "sparse", "gmres", "bicgstab", "cg", or an object that configures one of these.

    `tolerance` and `rcond` are the limits of `Conditions`. Where the implicit function theorem does not hold, an
    `ImplicitFunctionError` is raised (a runtime error with the same text in compiled code), or with `on_failure="nan"`
    values and derivatives are NaN. `on_singular="lstsq"` accepts a singular A and gives the shortest
    least-squares answer of A t = -B dq.

    >>> solve = root(lambda w, a: w**2 - a)
    >>> w, slope = jax.value_and_grad(solve, argnums=1)(1.0, 4.0)
    >>> round(float(w), 4), round(float(slope), 4)
    (2.0, 0.25)
    """
    limits = Conditions(tolerance, rcond)
    how = _linear("root", linear, on_singular)
    return Implicit("root", F, root_of, _solver("root", solver, Newton()), how, limits, on_failure)


def inverse(
    f: Any,
    solver: Any = None,
    linear: Any = "lu",
    **limits: Any,
) -> Implicit:
    """The inverse of f as a function `solve(w0, y)`: the w near `w0` with f(w) = y. Options are those of `root`.

    >>> import jax.numpy as jnp
    >>> log = inverse(jnp.exp)
    >>> round(float(jax.grad(log, argnums=1)(0.0, 2.0)), 4)
    0.5
    """
    validation.function("inverse", f)
    return root(partial(_difference, f), solver, linear, **limits)


def fixed_point(
    g: Any,
    solver: Any = None,
    linear: Any = "auto",
    *,
    tolerance: float | None = None,
    rcond: float | None = None,
    on_failure: str = "raise",
    on_singular: str = "fail",
) -> Implicit:
    """The x with x = g(x, *params) as a function `solve(x0, *params)` of the parameters.

    The derivative solves with A = I - dg/dx. `solver`: `None` or "anderson", "picard", "newton", a configured one, or a
    function `solver(g, x0, *params) -> x`. `linear`: "auto" is dense LU up to 2000 unknowns and GMRES above; otherwise
    as in `root`, or `Neumann(terms)` for a cheap approximation of stated bias. The other options are those of `root`.

    >>> solve = fixed_point(lambda x, a: (x + a / x) / 2)
    >>> round(float(jax.grad(solve, argnums=1)(1.0, 4.0)), 4)
    0.25
    """
    limits = Conditions(tolerance, rcond)
    return named_fixed_point("fixed_point", g, solver, linear, limits, on_failure, on_singular)


def named_fixed_point(
    name: str,
    g: Any,
    solver: Any,
    linear: Any,
    limits: Conditions,
    on_failure: str,
    on_singular: str,
    leading: Callable[..., tuple[Any, ...]] | None = None,
) -> Implicit:
    """`fixed_point` for another public function, with parameters worked out from the others before them."""
    automatic = isinstance(linear, str) and linear == "auto"
    how = _linear(name, Automatic() if automatic else linear, on_singular)
    found = _solver(name, solver, Anderson())
    return Implicit(name, g, fixed_point_of, found, how, limits, on_failure, leading)


def minimum(
    objective: Any,
    solver: Any = None,
    linear: Any = "cholesky",
    *,
    tolerance: float | None = None,
    rcond: float | None = None,
    on_failure: str = "raise",
    on_singular: str = "fail",
) -> Implicit:
    """The w that minimises objective(w, *params) as a function `solve(w0, *params)` of the parameters.

    The derivative solves with the Hessian, which is positive definite at a strict minimum; the default factorisation
    finds out if it is not. `linear="lu"` differentiates any stationary point, `linear="sparse"` uses the sparse
    Hessian. `solver`: `None` or "lbfgs" (ending in Newton steps), "newton", a configured one, or a function
    `solver(objective, w0, *params) -> w`. The other options are those of `root`.

    >>> import jax.numpy as jnp
    >>> solve = minimum(lambda w, a: jnp.sum((w - a) ** 2) + jnp.sum(w**2))
    >>> jax.jacobian(solve, argnums=1)(jnp.zeros(2), jnp.ones(2)).round(4)
    Array([[0.5, 0. ],
           [0. , 0.5]], dtype=float32)
    """
    limits = Conditions(tolerance, rcond)
    found = _solver("minimum", solver, LBFGS())
    how = _linear("minimum", linear, on_singular)
    return Implicit("minimum", objective, minimum_of, found, how, limits, on_failure)


def least_squares(
    residuals: Any,
    solver: Any = None,
    linear: Any = "cholesky",
    *,
    tolerance: float | None = None,
    rcond: float | None = None,
    on_failure: str = "raise",
    on_singular: str = "fail",
) -> Implicit:
    """The w that minimises half the sum of squares of residuals(w, *params) as a function `solve(w0, *params)`.

    `residuals` may return any PyTree with at least as many numbers as there are unknowns. `solver`: `None` or
    "levenberg-marquardt", "gauss-newton", "lbfgs" (which all end in Newton steps), "newton", a configured one, or a
    function `solver(residuals, w0, *params) -> w`. The derivative solves with the whole Hessian, not with its
    Gauss-Newton part, so it is exact also where residuals remain. Everything else is as in `minimum`.

    >>> import jax.numpy as jnp
    >>> t = jnp.linspace(0.0, 1.0, 5)
    >>> fit = least_squares(lambda w, y: jnp.exp(-w * t) - y)
    >>> round(float(fit(1.0, jnp.exp(-2.0 * t))), 4)
    2.0
    """
    limits = Conditions(tolerance, rcond)
    found = _solver("least_squares", solver, LevenbergMarquardt())
    how = _linear("least_squares", linear, on_singular)
    return Implicit("least_squares", residuals, least_squares_of, found, how, limits, on_failure)


def hypergradient(
    outer: Callable[..., Any], solve: Implicit, argnums: int | tuple[int, ...] = 0
) -> Callable[..., Any]:
    """The gradient of V(w*(q), q) in the parameters q: `hypergradient(outer, solve)(w0, *params)`.

    `outer(w, *params)` is one number, typically a validation loss; `argnums` counts the parameters. The result is
    dV/dq - Bᵀ A⁻¹ dV/dw by one transposed solve.

    >>> import jax.numpy as jnp
    >>> fit = minimum(lambda w, decay: jnp.sum((w - 1) ** 2) + decay * jnp.sum(w**2))
    >>> slope = hypergradient(lambda w, decay: jnp.sum((w - 0.5) ** 2), fit)
    >>> bool(abs(slope(jnp.zeros(3), 1.0)) < 1e-5)  # w = 1 / (1 + decay) is right at decay = 1
    True
    """
    validation.function("hypergradient", outer)

    def value(w0: Tree, *params: Any) -> Array:
        found = outer(solve(w0, *params), *params)
        validation.scalar_output("hypergradient", found)
        return found

    shifted = argnums + 1 if isinstance(argnums, int) else tuple(number + 1 for number in argnums)
    return jax.grad(value, argnums=shifted)


@partial(jax.jit, static_argnums=(0, 1))
def _run(solver: Solver, problem: ImplicitProblem, x: Array, values: Values) -> SolverOutcome:
    equations = problem.equations
    given = lambda z: equations.given(z, values)  # noqa: E731
    residuals = given if equations.is_fit else None
    objective = given if equations.is_minimum else None if residuals is None else half_squares(residuals)
    return solver.run(SolverTask(equations.system(x, values), problem.linear, objective, residuals))


def _difference(f: Callable[..., Any], w: Tree, y: Tree, *params: Any) -> Tree:
    return jax.tree.map(jnp.subtract, f(w, *params), y)


def _linear(name: str, given: Any, on_singular: str) -> LinearSolver:
    check_choice(name, "on_singular", on_singular, ("fail", "lstsq"))
    return LeastSquares() if on_singular == "lstsq" else chosen(name, given)


def _solver(name: str, given: Any, default: Solver) -> Solver | UserSolver:
    if given is None:
        return default
    if isinstance(given, Solver):
        return given
    if isinstance(given, str):
        check_choice(name, "solver", given, _SOLVERS)
        return _SOLVERS[given]
    if not callable(given):
        raise ArgumentError(f"{name}(solver={given!r}): a name, a solver or a function is needed")
    return given


__all__ = [
    "Implicit",
    "fixed_point",
    "hypergradient",
    "inverse",
    "least_squares",
    "minimum",
    "named_fixed_point",
    "root",
]
