"""The peers' side of the `derive-sparse-detect` benchmark: asdex and CasADi find patterns."""

import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import sparse_problems as problems
from protocol import Ready, serve, steady
from sparse_peers import casadi_brusselator

Made = tuple[Callable[[], Any], Callable[[Any], tuple[np.ndarray, np.ndarray]]]
"""Work to time, and the positions in what it returns."""


def prepare(peer: str, problem: str, size: int) -> Ready:
    work, positions = PEERS[peer](problem, size)
    began = time.perf_counter()
    found = work()
    taken = time.perf_counter() - began

    def turn() -> float:
        if taken > 0.5:
            began = time.perf_counter()
            work()
            return time.perf_counter() - began
        return steady(lambda count: [work() for _ in range(count)], 1)

    return Ready(problems.positions(*positions(found)), taken, {peer: version(peer)}, turn)


def asdex_detection(problem: str, size: int) -> Made:
    import jax

    jax.config.update("jax_enable_x64", True)
    import asdex

    x = jax.numpy.ones(problems.length(problem, size))
    detect = asdex.hessian_sparsity if problem in problems.SECOND_ORDER else asdex.jacobian_sparsity

    def work() -> Any:
        # The function is made anew, so that nobody remembers its program.
        return detect(problems.PROGRAMS[problem](jax, size), x)

    return work, lambda found: (np.asarray(found.rows), np.asarray(found.cols))


def casadi_detection(_: str, size: int) -> Made:
    import casadi

    def work() -> Any:
        z = casadi.MX.sym("z", 2 * size * size)
        return casadi.jacobian_sparsity(casadi_brusselator(casadi, z, size), z)

    return work, lambda found: tuple(np.array(part) for part in found.get_triplet())


PEERS = {"asdex": asdex_detection, "casadi": casadi_detection}


if __name__ == "__main__":
    serve(prepare)
