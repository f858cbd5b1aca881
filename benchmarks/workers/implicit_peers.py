"""The peers' side of the `derive-implicit` benchmark: SciPy's dense LU, optimistix and jaxopt."""

import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import implicit_problems as problems
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from protocol import Ready, serve, steady

jax.config.update("jax_enable_x64", True)
Work = Callable[[], Any]


def prepare(peer: str, task: str, problem: str = "") -> Ready:
    began = time.perf_counter()
    work = TASKS[task, peer](problem) if problem else TASKS[task, peer]()
    found = jax.block_until_ready(work())
    taken = time.perf_counter() - began
    package = peer.partition("-")[0]
    turn = lambda: steady(lambda count: [jax.block_until_ready(work()) for _ in range(count)], 1)  # noqa: E731
    arrays = found if isinstance(found, tuple) else (found,)
    return Ready(problems.summary(*arrays), taken, {package: version(package)}, turn)


def scipy_products(problem: str, batched: bool) -> Work:
    """lu_factor, then one lu_solve for each product, or one for all of a mode. The Jacobian is written by hand."""
    data, _, jacobian = problems.ROOTS[problem]
    given, w, v = data(), problems.solution(problem), problems.directions()

    def work() -> tuple[np.ndarray, np.ndarray]:
        factor = scipy.linalg.lu_factor(jacobian(w, **given), check_finite=False)

        def solve(b: np.ndarray, trans: int) -> np.ndarray:
            return scipy.linalg.lu_solve(factor, b, trans=trans, check_finite=False)

        if batched:
            return solve(v.T, 0).T, solve(v.T, 1).T
        return np.stack([solve(row, 0) for row in v]), np.stack([solve(row, 1) for row in v])

    return work


def optimistix_products(problem: str) -> Work:
    """The same products through `root_find`, which starts at the solution and still takes a step."""
    import optimistix

    data, f, _ = problems.ROOTS[problem]
    given = {name: jnp.asarray(array) for name, array in data().items()}
    w, v = jnp.asarray(problems.solution(problem)), jnp.asarray(problems.directions())

    @jax.jit
    def run(q: Any, others: Any) -> Any:
        def solve(q: Any) -> Any:
            solver = optimistix.Newton(rtol=1e-10, atol=1e-10)
            equations = lambda w, args: f(jnp, w, *args[0], args[1])  # noqa: E731
            return optimistix.root_find(equations, solver, w, (others, q)).value

        _, push = jax.linearize(solve, q)
        pull = jax.linear_transpose(push, q)
        return jax.vmap(push)(v), jax.vmap(lambda u: pull(u)[0])(v)

    others = [array for name, array in given.items() if name != "q"]
    return lambda: run(given["q"], others)


def equilibrium(solve: Callable[[Any, Any], Any]) -> Work:
    """The gradient of the squared length of an equilibrium in its input."""
    W, q = (jnp.asarray(array) for array in problems.layer_data())
    gradient = jax.jit(jax.grad(lambda q, W: jnp.sum(solve(q, W) ** 2)))
    return lambda: gradient(q, W)


def optimistix_equilibrium() -> Work:
    """By plain iteration and a dense solve."""
    import optimistix

    solver = optimistix.FixedPointIteration(rtol=1e-12, atol=1e-12)

    def solve(q: Any, W: Any) -> Any:
        step = lambda x, args: problems.layer(jnp, x, *args)  # noqa: E731
        start = jnp.zeros(problems.LAYER)
        return optimistix.fixed_point(step, solver, start, (W, q), max_steps=10_000).value

    return equilibrium(solve)


def jaxopt_equilibrium() -> Work:
    """By Anderson acceleration and its default matrix-free solve, tightened until the results agree."""
    import jaxopt
    from jaxopt import linear_solve

    def exact(matvec: Any, b: Any, **_: Any) -> Any:
        return linear_solve.solve_gmres(matvec, b, tol=1e-10)

    solver = jaxopt.AndersonAcceleration(
        lambda x, W, q: problems.layer(jnp, x, W, q), tol=1e-12, maxiter=10_000, implicit_diff_solve=exact
    )

    def solve(q: Any, W: Any) -> Any:
        return solver.run(jnp.zeros(problems.LAYER), W, q).params

    return equilibrium(solve)


TASKS: dict[tuple[str, str], Callable[..., Work]] = {
    ("products", "scipy"): lambda problem: scipy_products(problem, batched=False),
    ("products", "scipy-batched"): lambda problem: scipy_products(problem, batched=True),
    ("products", "optimistix"): optimistix_products,
    ("equilibrium", "optimistix"): optimistix_equilibrium,
    ("equilibrium", "jaxopt"): jaxopt_equilibrium,
}


if __name__ == "__main__":
    serve(prepare)
