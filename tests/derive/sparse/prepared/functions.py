"""Functions with sparse derivatives, each with a point; dense JAX is the reference."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from chainrule.derive.sparse import Pattern


def brusselator(size: int) -> Callable[[Any], Any]:
    def f(z: Any) -> Any:
        u, v = z.reshape(2, size, size)

        def around(w: Any) -> Any:
            return sum(jnp.roll(w, s, a) for s in (1, -1) for a in (0, 1)) - 4 * w

        reaction = u * u * v
        du = 1.0 + reaction - 4.4 * u + 0.02 * around(u)
        dv = 3.4 * u - reaction + 0.02 * around(v)
        return jnp.concatenate([du.ravel(), dv.ravel()])

    return f


def arrow(z: Any) -> Any:
    return jnp.concatenate([jnp.sum(z**2)[None], z[1:] * z[0]])


def tall(z: Any) -> Any:
    return jnp.concatenate([z[:-1] * z[1:], jnp.sin(z), z**3])


def tree(z: Any) -> Any:
    return {
        "slopes": jnp.diff(z["u"] ** 2) * z["v"][0],
        "rest": (z["v"] ** 2, z["u"][:2, None] * z["v"][None, :]),
    }


def chain(z: Any) -> Any:
    return jnp.sum(100.0 * (z[1:] - z[:-1] ** 2) ** 2 + (1.0 - z[:-1]) ** 2)


def hub(z: Any) -> Any:
    return chain(z) + z[0] * jnp.sum(z**3)


def bilinear(z: Any) -> Any:
    """No diagonal at all."""
    return jnp.sum(z[: z.shape[0] // 2] * z[z.shape[0] // 2 :])


JACOBIANS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "brusselator": (brusselator(4), np.linspace(0.5, 1.5, 32)),
    "arrow": (arrow, np.linspace(1.0, 2.0, 12)),
    "tall": (tall, np.linspace(0.1, 1.0, 7)),
    "wide": (lambda z: z[:3] * z[3:6] + z[6:], np.linspace(0.1, 1.0, 9)),
    "tree": (tree, {"u": np.linspace(0.3, 2.0, 5), "v": np.array([1.5, 0.5])}),
    "number": (lambda z: z**2, np.float64(1.5)),
}
HESSIANS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "chain": (chain, np.linspace(0.5, 1.5, 14)),
    "hub": (hub, np.linspace(0.5, 1.5, 14)),
    "bilinear": (bilinear, np.linspace(0.5, 1.5, 10)),
    "tree": (
        lambda z: jnp.sum(z["a"] ** 3) + z["b"] * z["a"][0],
        {"a": np.arange(1.0, 4.0), "b": np.float64(2.0)},
    ),
}


@partial(jax.jit, static_argnums=0)
def dense_jacobian(f: Callable[[Any], Any], x: Any) -> jax.Array:
    flat, restore = ravel_pytree(x)
    return jnp.atleast_2d(jax.jacfwd(lambda z: ravel_pytree(f(restore(z)))[0])(flat))


@partial(jax.jit, static_argnums=0)
def dense_hessian(f: Callable[[Any], Any], x: Any) -> jax.Array:
    flat, restore = ravel_pytree(x)
    return jax.hessian(lambda z: f(restore(z)))(flat)


def pattern_of(matrix: np.ndarray | jax.Array) -> Pattern:
    return Pattern(*np.nonzero(np.asarray(matrix)), matrix.shape)
