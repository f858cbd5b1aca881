"""Seconds to prepare one sparse Jacobian in a new process: `sparse_prepare.py PEER PROBLEM SIZE [FOLDER]`.

Detection, colouring, compilation and the first evaluation, after everything is imported and JAX has started. FOLDER
keeps compiled programs from one process to the next.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import sparse_peers
import sparse_problems as problems


def chainrule(problem: str, size: int) -> Callable[[], Any]:
    import jax

    import chainrule.derive.sparse.preparation  # noqa: F401 (public names are loaded at their first use)
    from chainrule.derive import sparse

    x = jax.numpy.asarray(problems.point(problem, size, "float64"))

    def work() -> Any:
        return sparse.jacobian(problems.FUNCTIONS[problem](jax.numpy, size), x)(x).data.block_until_ready()

    return work


def main(peer: str, problem: str, size: str, folder: str = "") -> None:
    if not peer.startswith("casadi"):
        import jax

        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_cpu_enable_async_dispatch", False)
        if folder:
            jax.config.update("jax_compilation_cache_dir", folder)
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
            jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        jax.numpy.asarray(problems.point(problem, int(size), "float64")).block_until_ready()
    if peer == "chainrule":
        work = chainrule(problem, int(size))
    else:
        __import__(peer.partition("-")[0])
        work = lambda: sparse_peers.EVALUATE[peer](problem, int(size), "float64")[0]()  # noqa: E731
    began = time.perf_counter()
    work()
    print(time.perf_counter() - began)


if __name__ == "__main__":
    main(*sys.argv[1:])
