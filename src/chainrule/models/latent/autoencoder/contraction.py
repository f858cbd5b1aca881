"""The contractive penalty (Rifai et al., 2011): how much codes change with their examples, |dE/dx|²."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key


def contraction(
    encode: Callable[[Array], Float[Array, "batch size"]],
    x: Float[Array, "batch ..."],
    key: Key,
    probe_vectors: int = 0,
) -> Float[Array, " batch"]:
    """The squared Frobenius norm of dE/dx at each example, for an encoder that looks at each by itself.

    It takes one reverse pass for each entry of the code, all of them at once. With `probe_vectors` random signs v it
    is the mean of |v dE/dx|², which is right on average (Hutchinson, 1989), for as many passes.

    >>> square = lambda x: jnp.square(x)  # the Jacobian at x is diag(2 x)
    >>> contraction(square, jnp.array([[1.0, 2.0]]), jax.random.key(0)).tolist()
    [20.0]
    """
    code, pull = jax.vjp(encode, x)
    count, size = code.shape
    if probe_vectors:
        directions = jax.random.rademacher(key, (probe_vectors, count, size), code.dtype)
    else:
        directions = jnp.broadcast_to(jnp.eye(size, dtype=code.dtype)[:, None], (size, count, size))
    rows = jax.vmap(lambda direction: pull(direction)[0])(directions)
    squares = jnp.square(rows).reshape(len(directions), count, -1).sum(axis=2)
    return squares.mean(axis=0) if probe_vectors else squares.sum(axis=0)


__all__ = ["contraction"]
