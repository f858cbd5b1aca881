"""Influence functions: how a test loss would change if a training row counted a little more.

At a minimum of the mean loss, raising the weight of row i by eps moves the parameters by `-eps H^-1 g_i`, so that a
test loss changes by `-eps g_test^T H^-1 g_i`. Leaving the row out is eps = -1/n. The Hessian is never formed: one
damped system is solved for each test row by conjugate gradients on Hessian products, and a single forward derivative
along the solution gives the influences of all training rows at once, since `g_i . s` is the change of row i's loss
along s.

Away from a minimum the Hessian can have negative curvature, where conjugate gradients break down: damping, chosen just
above the most negative eigenvalue (by Lanczos) unless given, makes the system definite, and answers are then those of
the damped problem.

References: Koh and Liang, Understanding black-box predictions via influence functions, 2017, arXiv:1703.04730;
Martens, Deep learning via Hessian-free optimization, 2010.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float
from scipy.sparse.linalg import LinearOperator, cg

from chainrule.core import random
from chainrule.core.checks import whole
from chainrule.core.compiling import compiled
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Tree
from chainrule.derive.dense.hessians import hvp
from chainrule.derive.matrix_free.estimators import lanczos
from chainrule.explain.methods.influence.rows import check_rows, in_chunks, length

RowLosses: TypeAlias = Callable[[Any, Any], Float[Array, " rows"]]
"""From parameters and rows (a tree of arrays with a leading axis) to a loss for each row."""
_LANCZOS = 24
"""Steps after which the most negative eigenvalue is known well enough to stay above it."""
_MARGIN = 1.2
_TOLERANCE = 1e-3
"""Relative residual up to which a solution is taken for one."""


@final
@dataclass(frozen=True)
class Influence:
    """Influences of training rows on the losses of test rows."""

    values: Float[np.ndarray, "test train"]
    """-g_test^T H^-1 g_train: how the test loss moves as the weight of the row grows."""
    damping: float
    """What was added to every eigenvalue of the Hessian."""
    residual: float
    """The largest relative residual of the systems that were solved."""
    total: int
    """Rows that the parameters were trained on."""

    @property
    def removal(self) -> Float[np.ndarray, "test train"]:
        """How each test loss would change without each training row: above zero, the row helps."""
        return -self.values / self.total

    @property
    def converged(self) -> bool:
        """Whether all systems were solved."""
        return self.residual <= _TOLERANCE


def influence(
    losses: RowLosses,
    params: Tree,
    train: Tree,
    test: Tree,
    *,
    asked: RowLosses | None = None,
    penalty: Callable[[Any], Array] | None = None,
    damping: float | None = None,
    total: int | None = None,
    max_steps: int = 200,
    chunk: int = 256,
) -> Influence:
    """Influences of every training row on every test row, at parameters that minimise the mean loss and the penalty.

    They are influences on the losses of the test rows, unless another function of parameters and rows is `asked`, such
    as a prediction. Where `train` are some of the rows that training saw, spread evenly, `total` is how many it saw:
    the Hessian is then estimated, and leaving out a row weighs one in so many.

    >>> x, y = jnp.array([[1.0], [2.0], [3.0]]), jnp.array([1.0, 2.0, 6.0])
    >>> squares = lambda w, rows: 0.5 * (rows[0] @ w - rows[1]) ** 2
    >>> best = jnp.array([23.0 / 14.0])
    >>> found = influence(squares, best, (x, y), (x[:1], y[:1]))
    >>> found.damping, found.values.shape, bool(found.removal[0, 2] < 0)  # without the last row the first fits better
    (0.0, (1, 3), True)
    """
    steps, size = whole("influence", "max_steps", max_steps), whole("influence", "chunk", chunk)
    if damping is not None and not damping >= 0:
        raise ArgumentError(f"influence(damping={damping}): damping is not negative", remedy="give 0 or more")
    flat, unravel = ravel_pytree(params)
    if flat.dtype.kind != "f":
        raise ArgumentError(
            f"influence(params): {flat.dtype} numbers have no gradients", remedy="give floating-point arrays"
        )
    check_rows("influence", train, test)
    count, tests = length(train), length(test)
    if not count or not tests:
        raise ArgumentError(
            f"influence: {count} training and {tests} test rows", remedy="give at least one row of each"
        )
    if total is not None and whole("influence", "total", total) < count:
        raise ArgumentError(
            f"influence(total={total}): {count} of the rows that training saw are given",
            remedy="give all rows that training saw, or leave it out",
        )
    problem = _Problem(
        flat, *in_chunks(train, min(size, count)), count, losses, asked or losses, unravel, penalty
    )
    added = problem.least_damping() if damping is None else float(damping)
    found, residuals = [], []
    for row in range(tests):
        one = jax.tree.map(lambda leaf, row=row: jnp.asarray(leaf[row : row + 1]), test)
        values, missing = _influences(problem, one, added, steps)
        found.append(values)
        residuals.append(missing)
    return Influence(np.stack(found), added, max(residuals), total or count)


@final
class _Problem(eqx.Module):
    """The mean loss of training rows as a function of the flattened parameters, and the point where it is least."""

    flat: Float[Array, " parameters"]
    rows: Tree
    """In chunks of one size."""
    ours: Array
    """Which rows of the chunks are meant."""
    count: int = eqx.field(static=True)
    losses: RowLosses
    asked: RowLosses
    unravel: Any
    penalty: Any

    def of(self, vector: Array, rows: Tree) -> Float[Array, " rows"]:
        """Losses of some rows."""
        return self.losses(self.unravel(vector), rows)

    def mean_loss(self, vector: Array) -> Array:
        """What the parameters minimise; chunk by chunk, so that memory does not grow with the rows."""

        def one(total: Array, part: tuple[Tree, Array]) -> tuple[Array, None]:
            rows, ours = part
            return total + jnp.where(ours, self.of(vector, rows), 0).sum(), None

        start = jnp.zeros((), vector.dtype)
        total, _ = jax.lax.scan(jax.checkpoint(one), start, (self.rows, self.ours))
        extra = start if self.penalty is None else self.penalty(self.unravel(vector))
        return total / self.count + extra

    def product(self, v: Array) -> Array:
        """The Hessian times a vector."""
        return hvp(self.mean_loss)(self.flat, v)

    def along(self, direction: Array) -> Float[Array, " train"]:
        """The derivative of every training row's loss along a direction."""

        def one(rows: Tree) -> Array:
            return jax.jvp(lambda vector: self.of(vector, rows), (self.flat,), (direction,))[1]

        return jax.lax.map(one, self.rows).ravel()[: self.count]

    def least_damping(self) -> float:
        """Nothing where the Hessian is positive definite, else a little more than its most negative eigenvalue."""
        values = np.asarray(_ends(self, min(_LANCZOS, self.flat.size)))
        low, high = float(values.min()), float(np.abs(values).max())
        return 0.0 if low > 1e-7 * high else _MARGIN * max(-low, 0.0) + 1e-3 * high


@compiled
def _ends(problem: _Problem, steps: int) -> Array:
    """The ends of the Hessian's spectrum."""
    return lanczos(problem.product, problem.flat.size, random.key(0, "influence"), steps=steps).values


@compiled
def _wanted(problem: _Problem, rows: Tree) -> Array:
    """The gradient of what is asked of a test row."""
    return jax.grad(lambda vector: problem.asked(problem.unravel(vector), rows).sum())(problem.flat)


@compiled
def _product(problem: _Problem, damping: Array, v: Array) -> Array:
    return problem.product(v) + damping * v


@compiled
def _along(problem: _Problem, direction: Array) -> Array:
    return problem.along(direction)


def _influences(problem: _Problem, rows: Tree, damping: float, steps: int) -> tuple[np.ndarray, float]:
    """Influences of all training rows on one test row, and the relative residual of the system that gives them.

    The iteration runs on the host, so that one compiled product serves all of its steps and all test rows.
    """
    dtype = problem.flat.dtype
    added = jnp.asarray(damping, dtype)

    def product(v: np.ndarray) -> np.ndarray:
        return np.asarray(_product(problem, added, jnp.asarray(v.ravel(), dtype)), np.float64)

    wanted = np.asarray(_wanted(problem, rows), np.float64)
    length = float(np.linalg.norm(wanted))
    if not length:
        return np.zeros(problem.count), 0.0
    operator = LinearOperator((wanted.size, wanted.size), matvec=product, dtype=np.float64)
    solution, _ = cg(operator, wanted / length, rtol=_TOLERANCE / 10, maxiter=steps)
    missing = float(np.linalg.norm(product(solution) - wanted / length))
    return -length * np.asarray(_along(problem, jnp.asarray(solution, dtype)), np.float64), missing


__all__ = ["Influence", "RowLosses", "influence"]
