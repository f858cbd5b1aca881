"""The truth: positions where a dense derivative is different from zero at some of a few random points."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from tests.derive.sparse.detection.corpus.case import Case


def truth(case: Case) -> np.ndarray:
    @jax.jit
    def derivative(point: Any) -> Any:
        flat, restore = ravel_pytree(point)

        def vector(z: Any) -> Any:
            return (
                ravel_pytree(case.f(restore(z)))[0] * 1.0
            )  # whole numbers and truth values count as numbers

        return (_hessian if case.of == "hessian" else _jacobian)(vector, case.mode)(flat)

    matrices = [np.asarray(derivative(point)) for point in case.points()]
    return np.logical_or.reduce([matrix != 0 for matrix in matrices])


def _jacobian(vector: Any, mode: str) -> Any:
    return jax.jacfwd(vector) if mode == "forward" else jax.jacrev(vector)


def _hessian(vector: Any, mode: str) -> Any:
    def scalar(z: Any) -> Any:
        return jnp.reshape(vector(z), ())

    return jax.jacfwd(jax.jacfwd(scalar)) if mode == "forward" else jax.jacfwd(jax.grad(scalar))


__all__ = ["truth"]
