"""The peers' side of the `transport` benchmarks: POT, ott-jax and geomloss, every form of theirs that applies.

Everybody returns <C, P> of a plan that has at most so much mass in wrong places. Stopping rules differ, so each form is
given the loosest threshold, halved as often as it takes, that brings it there.
"""

import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import transport_problems as problems
from protocol import Ready, serve, steady

warnings.filterwarnings("ignore")

Work = Callable[[], float]
_HALVINGS = 30
_MOST = 20_000


def prepare(form: str, task: str, count: int) -> Ready:
    began = time.perf_counter()
    package, make = FORMS[form]
    work = make(task, count)
    value = work()
    taken = time.perf_counter() - began
    return Ready(
        [value],
        taken,
        {package: version(package)},
        lambda: steady(lambda rounds: [work() for _ in range(rounds)], 1),
    )


def _loosest(reaches: Callable[[float], bool], threshold: float = problems.TOLERANCE) -> float:
    for _ in range(_HALVINGS):
        if reaches(threshold):
            return threshold
        threshold /= 2
    raise RuntimeError("this form does not reach the error that is asked for")


def pot(method: str) -> Callable[[str, int], Work]:
    """POT's solver of one problem, by one of its methods; many problems one after the other."""

    def make(task: str, count: int) -> Work:
        import ot

        if task == "batch":
            matrices, eps = problems.many(count)
        else:
            matrix, eps = problems.costs(count)
            matrices = matrix[None]
        points = matrices.shape[-1]

        def plan(matrix: np.ndarray, threshold: float) -> np.ndarray:
            even = np.full(points, 1 / points, matrix.dtype)
            return ot.sinkhorn(
                even, even, matrix, eps, method=method, stopThr=threshold, numItermax=_MOST, warn=False
            )

        def reaches(threshold: float) -> bool:
            return max(problems.misplaced(plan(m, threshold)) for m in matrices) <= problems.TOLERANCE

        if not np.exp(-matrices / eps).max(axis=1).min() and method == "sinkhorn":
            matrices = matrices.astype(np.float64)  # a column of the kernel vanishes in single precision
        # POT measures the square root of summed squares: of errors of one size, the sum over the root of their number.
        threshold = _loosest(reaches, 2 * problems.TOLERANCE / points**0.5)
        return lambda: float(np.mean([(plan(m, threshold) * m).sum() for m in matrices]))

    return make


def pot_batch(task: str, count: int) -> Work:
    """POT's solver of many problems at once."""
    import ot

    assert task == "batch", "for many problems"
    matrices, eps = problems.many(count)

    def plan(threshold: float) -> np.ndarray:
        return ot.solve_batch(matrices, eps, max_iter=_MOST, tol=threshold, method="log_sinkhorn").plan

    threshold = _loosest(lambda threshold: problems.misplaced(plan(threshold)) <= problems.TOLERANCE)
    return lambda: float((plan(threshold) * matrices).sum() / len(matrices))


def pot_exact(task: str, count: int) -> Work:
    """POT's network simplex."""
    import ot

    assert task == "exact", "for exact transport"
    matrix, _ = problems.costs(count)
    even, wide = np.full(count, 1 / count), matrix.astype(np.float64)
    return lambda: float(ot.emd2(even, even, wide, numItermax=10**7))


def ott(**settings: Any) -> Callable[[str, int], Work]:
    """ott-jax, compiled as a whole; many problems by `vmap`."""

    def make(task: str, count: int) -> Work:
        import jax
        import jax.numpy as jnp
        from ott.geometry import geometry
        from ott.problems.linear import linear_problem
        from ott.solvers.linear import sinkhorn

        if task == "batch":
            matrices, eps = problems.many(count)
        else:
            matrix, eps = problems.costs(count)
            matrices = matrix[None]
        given = jnp.asarray(matrices)

        def solved(threshold: float) -> Any:
            solver = sinkhorn.Sinkhorn(threshold=threshold, max_iterations=_MOST, **settings)

            def one(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
                found = solver(linear_problem.LinearProblem(geometry.Geometry(matrix, epsilon=eps)))
                return found.primal_cost, found

            return jax.jit(one if len(given) == 1 else jax.vmap(one))

        argument = given[0] if len(given) == 1 else given

        def plans(threshold: float) -> np.ndarray:
            found = solved(threshold)(argument)[1]
            return np.asarray(found.matrix if len(given) == 1 else jax.vmap(lambda one: one.matrix)(found))

        threshold = _loosest(lambda threshold: problems.misplaced(plans(threshold)) <= problems.TOLERANCE)
        value = jax.jit(lambda matrix: solved(threshold)(matrix)[0].mean())
        return lambda: float(value(argument))

    return make


def geomloss(task: str, count: int) -> Work:
    """geomloss on a GPU, with costs made from the points: how slowly it lowers eps decides how near it comes."""
    import torch
    from geomloss import SamplesLoss

    if task == "batch":
        made = [problems.clouds(problems.POINTS, seed) for seed in range(count)]
        _, eps = problems.many(count)
    else:
        made = [problems.clouds(count)]
        _, eps = problems.costs(count)
    x, y = (torch.as_tensor(np.stack(side), device="cuda") for side in zip(*made, strict=True))
    points = x.shape[1]

    def cost(x: Any, y: Any) -> Any:
        return torch.cdist(x, y).square()

    def plans(step: float) -> tuple[Any, Any]:
        given = {"p": 2, "blur": eps**0.5, "scaling": 1 - step, "debias": False, "backend": "tensorized"}
        potentials = SamplesLoss("sinkhorn", cost=cost, potentials=True, **given)(x, y)
        f, g = (found.reshape(len(x), points) for found in potentials)
        matrix = cost(x, y)
        return torch.exp((f[:, :, None] + g[:, None, :] - matrix) / eps) / points**2, matrix

    def reaches(step: float) -> bool:
        return problems.misplaced(plans(step)[0].cpu().numpy()) <= problems.TOLERANCE

    step = _loosest(reaches, 0.5)

    def work() -> float:
        plan, matrix = plans(step)
        return float((plan * matrix).sum() / len(matrix))

    return work


FORMS: dict[str, tuple[str, Callable[[str, int], Work]]] = {
    "pot-sinkhorn": ("POT", pot("sinkhorn")),
    "pot-log": ("POT", pot("sinkhorn_log")),
    "pot-batch": ("POT", pot_batch),
    "pot-exact": ("POT", pot_exact),
    "ott-log": ("ott-jax", ott()),
    "ott-kernel": ("ott-jax", ott(lse_mode=False)),
    "geomloss": ("geomloss", geomloss),
}

if __name__ == "__main__":
    serve(prepare)
