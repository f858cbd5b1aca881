"""The peers' side of the `derive-sparse` benchmark: asdex, CasADi, SciPy's sparse differences and dense JAX."""

import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import scipy.sparse
import sparse_problems as problems
from protocol import Ready, serve, steady

Made = tuple[Callable[[], Any], Callable[[], np.ndarray]]
"""Work to time, and the Jacobian times `direction`."""


def prepare(peer: str, task: str, problem: str, size: int, dtype: str = "float64") -> Ready:
    began = time.perf_counter()
    if task == "evaluate":
        work, product = EVALUATE[peer](problem, size, dtype)
        work()
        taken = time.perf_counter() - began
        result = problems.summary(product())
    else:
        matrix = problems.PATTERNS[problem](size)
        work = COLOR[peer](matrix, task)
        work()
        taken = time.perf_counter() - began
        result = [float(matrix.shape[0]), float(matrix.nnz)]
    began = time.perf_counter()
    work()
    once = time.perf_counter() - began
    piece = 16 if once < 0.01 else 1

    def turn() -> float:
        if once > 0.5:
            began = time.perf_counter()
            work()
            return time.perf_counter() - began
        return steady(lambda count: [work() for _ in range(count)], piece)

    package = peer.partition("-")[0]
    return Ready(result, taken, {package: version(package)}, turn)


def _jax(dtype: str) -> Any:
    import jax

    jax.config.update("jax_enable_x64", dtype == "float64")
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    return jax


def asdex_jacobian(problem: str, size: int, dtype: str) -> Made:
    jax = _jax(dtype)
    import asdex

    x = jax.numpy.asarray(problems.point(problem, size, dtype))
    f = problems.FUNCTIONS[problem](jax.numpy, size)
    J = jax.jit(asdex.jacobian(f, x))
    v = problems.direction(len(x)).astype(dtype)
    return lambda: J(x).data.block_until_ready(), lambda: np.asarray(J(x) @ v)


def dense_jax(problem: str, size: int, dtype: str) -> Made:
    jax = _jax(dtype)
    x = jax.numpy.asarray(problems.point(problem, size, dtype))
    f = problems.FUNCTIONS[problem](jax.numpy, size)
    forms = [jax.jit(jax.jacfwd(f)), jax.jit(jax.jacrev(f))]
    seconds = []
    for form in forms:
        form(x).block_until_ready()
        began = time.perf_counter()
        form(x).block_until_ready()
        seconds.append(time.perf_counter() - began)
    best = forms[int(np.argmin(seconds))]
    v = problems.direction(len(x)).astype(dtype)
    return lambda: best(x).block_until_ready(), lambda: np.asarray(best(x) @ v)


def scipy_differences(problem: str, size: int, dtype: str) -> Made:
    from scipy.optimize._numdiff import approx_derivative, group_columns

    x = problems.point(problem, size, dtype)
    f = problems.FUNCTIONS[problem](np, size)
    pattern = scipy.sparse.csc_matrix(problems.PATTERNS[problem](size))
    sparsity = (pattern, group_columns(pattern))

    def work() -> Any:
        return approx_derivative(f, x, method="2-point", sparsity=sparsity)

    return work, lambda: work() @ problems.direction(len(x))


def casadi_jacobian(kind: str) -> Callable[[str, int, str], Made]:
    def make(problem: str, size: int, _: str) -> Made:
        import casadi

        symbols = getattr(casadi, kind)
        n = problems.length(problem, size)
        z = symbols.sym("z", n)
        F = casadi.Function("J", [z], [casadi.jacobian(_CASADI[problem](casadi, z, size), z)])
        x = problems.point(problem, size)
        out = np.zeros(F.nnz_out(0))
        # The buffers are its fastest way in and out: no copies, no matrices made anew.
        buffer, call = F.buffer()
        buffer.set_arg(0, memoryview(x))
        buffer.set_res(0, memoryview(out))

        def work(_: Any = (buffer, x, out)) -> None:  # they must outlive this function
            call()

        def product() -> np.ndarray:
            call()
            rows, cols = F.sparsity_out(0).get_triplet()
            matrix = scipy.sparse.csc_matrix((out, (rows, cols)), shape=F.size_out(0))
            return matrix @ problems.direction(n)

        return work, product

    return make


def casadi_brusselator(casadi: Any, z: Any, size: int) -> Any:
    u = casadi.reshape(z[: size * size], size, size)
    v = casadi.reshape(z[size * size :], size, size)

    def around(w: Any) -> Any:
        down, up = casadi.vertcat(w[-1, :], w[:-1, :]), casadi.vertcat(w[1:, :], w[0, :])
        left, right = casadi.horzcat(w[:, -1], w[:, :-1]), casadi.horzcat(w[:, 1:], w[:, 0])
        return down + up + left + right - 4.0 * w

    reaction = u * u * v
    du = 1.0 + reaction - 4.4 * u + 0.02 * around(u)
    dv = 3.4 * u - reaction + 0.02 * around(v)
    return casadi.vertcat(casadi.vec(du), casadi.vec(dv))


_CASADI = {"brusselator": casadi_brusselator}


def asdex_colors(matrix: scipy.sparse.csr_matrix, task: str) -> Callable[[], Any]:
    import asdex

    entries = matrix.tocoo()
    pattern = asdex.SparsityPattern.from_coo(entries.row, entries.col, entries.shape)
    color = asdex.color_symmetric if task == "star" else asdex.color_cols
    return lambda: color(pattern)


def casadi_colors(matrix: scipy.sparse.csr_matrix, task: str) -> Callable[[], Any]:
    import casadi

    entries = matrix.tocoo()
    pattern = casadi.Sparsity.triplet(*entries.shape, entries.row.tolist(), entries.col.tolist())
    return pattern.star_coloring if task == "star" else pattern.uni_coloring


def scipy_colors(matrix: scipy.sparse.csr_matrix, _: str) -> Callable[[], Any]:
    from scipy.optimize._numdiff import group_columns

    by_column = scipy.sparse.csc_matrix(matrix)
    return lambda: group_columns(by_column)


def count(peer: str, found: Any) -> int:
    """Colours in what a colouring call returned."""
    if peer == "casadi":
        return int(found.size2())
    if peer == "scipy":
        return int(found.max()) + 1
    colors = found[0] if isinstance(found, tuple) else found
    return int(np.max(np.asarray(colors))) + 1


EVALUATE: dict[str, Callable[[str, int, str], Made]] = {
    "asdex": asdex_jacobian,
    "jax": dense_jax,
    "scipy": scipy_differences,
    "casadi-SX": casadi_jacobian("SX"),
    "casadi-MX": casadi_jacobian("MX"),
}
COLOR = {"asdex": asdex_colors, "casadi": casadi_colors, "scipy": scipy_colors}


if __name__ == "__main__":
    serve(prepare)
