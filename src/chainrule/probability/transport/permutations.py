"""Soft permutations: matrices of scores made doubly stochastic, which become permutations as they cool.

Rows and columns of exp(logits / tau) are scaled in turn until both sum to one. As tau falls the result goes to the
best assignment; with Gumbel noise on the logits it is a draw that gradients pass through. At evaluation the assignment
itself is taken.

Reference: Mena, Belanger, Linderman and Snoek, Learning latent permutations with Gumbel-Sinkhorn networks, ICLR 2018.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.parameters import finite, floating, require


def soft_permutation(
    logits: Any, tau: float = 1.0, *, key: Key | None = None, iterations: int = 50
) -> Float[Array, "*batch n n"]:
    """The doubly stochastic matrix of scores `logits` [..., n, n] at temperature `tau`, with Gumbel noise by a `key`.

    Columns sum to one exactly, rows after enough iterations: the lower tau, the more. Derivatives are those of the
    iterations that were done.

    >>> soft_permutation([[1.0, 0.0], [0.0, 1.0]], tau=0.05).round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    scores = _square("soft_permutation", logits)
    if not tau > 0:
        raise ArgumentError(
            f"soft_permutation(tau={tau}): tau must be positive", remedy="its limit: hard_permutation"
        )
    if key is not None:
        scores = scores + jax.random.gumbel(key, scores.shape, scores.dtype)

    warmer = "use a larger tau, or its limit: hard_permutation"
    cooled = require("soft_permutation", "logits / tau", scores / tau, jnp.isfinite, "be finite", warmer)

    def scaled(values: Array, _: None) -> tuple[Array, None]:
        for axis in (-1, -2):
            values = values - jax.nn.logsumexp(values, axis=axis, keepdims=True)
        return values, None

    logs, _ = jax.lax.scan(scaled, cooled, length=whole("soft_permutation", "iterations", iterations))
    return jnp.exp(logs)


def hard_permutation(logits: Any) -> Float[Array, "*batch n n"]:
    """The permutation matrix of largest total score, for each of a batch; on the host, outside of `jit`.

    >>> hard_permutation([[0.0, 2.0], [1.0, 0.0]]).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    scores = _square("hard_permutation", logits)
    known = jax.lax.stop_gradient(scores)
    if isinstance(known, jax.core.Tracer):
        raise ArgumentError(
            "hard_permutation: works on the host and cannot be part of a function that jit or vmap traces",
            remedy="call it outside; inside, soft_permutation with a low tau",
        )
    flat = np.asarray(known).reshape(-1, *known.shape[-2:])
    found = np.zeros_like(flat)
    for number, one in enumerate(flat):
        found[(number, *scipy.optimize.linear_sum_assignment(one, maximize=True))] = 1
    return jnp.asarray(found.reshape(known.shape))


@final
class SoftPermutation(eqx.Module):
    """The layer: scores in, a soft permutation out while training, a hard one at evaluation.

    >>> layer = SoftPermutation(tau=0.5)
    >>> scores = jnp.array([[0.0, 2.0], [1.0, 0.0]])
    >>> layer(scores).sum(axis=0).tolist(), layer(scores, hard=True).tolist()
    ([1.0, 1.0], [[0.0, 1.0], [1.0, 0.0]])
    """

    tau: float = eqx.field(static=True, default=1.0)
    iterations: int = eqx.field(static=True, default=50)

    def __call__(
        self, logits: Any, key: Key | None = None, *, hard: bool = False
    ) -> Float[Array, "*batch n n"]:
        """Soft, with Gumbel noise where a key is given; `hard` takes the assignment and no noise."""
        if hard:
            return hard_permutation(logits)
        return soft_permutation(logits, self.tau, key=key, iterations=self.iterations)


def _square(where: str, logits: Any) -> Float[Array, "*batch n n"]:
    scores = finite(where, "logits", floating(logits))
    if scores.ndim < 2 or scores.shape[-1] != scores.shape[-2] or not scores.size:
        raise ArgumentError(
            f"{where}: logits of shape {scores.shape}",
            remedy="give a square matrix of scores, after batch axes",
        )
    return scores


__all__ = ["SoftPermutation", "hard_permutation", "soft_permutation"]
