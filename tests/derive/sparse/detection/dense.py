"""The truth: positions where a dense derivative is different from zero at some of a few random points."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from tests.derive.sparse.detection.corpus.case import Case


def truth(case: Case) -> np.ndarray:
    points = case.points()
    restore = ravel_pytree(points[0])[1]

    def vector(z: Any) -> Any:
        return ravel_pytree(case.f(restore(z)))[0] * 1.0  # whole numbers and truth values count as numbers

    derivative = _hessian(vector, case.mode) if case.of == "hessian" else _jacobian(vector, case.mode)
    run = jax.jit(derivative)
    matrices = [np.asarray(run(ravel_pytree(point)[0])) for point in points]
    return np.logical_or.reduce([matrix != 0 for matrix in matrices])


def _jacobian(vector: Any, mode: str) -> Any:
    return jax.jacfwd(vector) if mode == "forward" else jax.jacrev(vector)


def _hessian(vector: Any, mode: str) -> Any:
    def scalar(z: Any) -> Any:
        return jnp.reshape(vector(z), ())

    return jax.jacfwd(jax.jacfwd(scalar)) if mode == "forward" else jax.jacfwd(jax.grad(scalar))


__all__ = ["truth"]
