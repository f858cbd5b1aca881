"""Distance of generated examples from real ones: the number by which games are judged, because their losses cannot be.

It is half the squared maximum mean discrepancy, `(E k(x, x') + E k(y, y')) / 2 - E k(x, y)`, of Gaussian kernels of
three widths: the root mean squared distance of two real examples, a quarter and a sixteenth of it. It is zero for equal
distributions and positive for all others; narrow kernels see what wide ones do not, strokes of a digit or the width of
a mode. It needs no features and no second network. The estimate here is unbiased: between two samples of one
distribution it is zero on average, and now and then a little less.

Reference: Gretton et al., A kernel two-sample test, JMLR 13, 2012.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Scalar

_WIDTHS = 3
_NEAR = 20
"""Near a real example is within the distance of one in so many of the others."""


def squares(a: Float[Array, "rows size"], b: Float[Array, "columns size"]) -> Float[Array, "rows columns"]:
    """`|a_i - b_j|²` of every pair, by inner products; of equal points nearly zero."""
    centre = a.mean(axis=0, keepdims=True)
    a, b = a - centre, b - centre  # little cancels around the middle
    both = jnp.square(a).sum(axis=1)[:, None] + jnp.square(b).sum(axis=1)[None, :]
    return jnp.maximum(both - 2 * jnp.matmul(a, b.T, precision=jax.lax.Precision.HIGHEST), 0.0)


def rows(x: Float[Array, "n ..."]) -> Float[Array, "n size"]:
    """Examples as vectors, in at least single precision."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32)).reshape(len(x), -1)


def kernel_distance(real: Float[Array, "n ..."], fake: Float[Array, "m ..."]) -> Scalar:
    """The unbiased estimate from two samples, the mean over the three widths; at most 1.

    >>> far = kernel_distance(jnp.array([[0.0], [1e-3]]), jnp.array([[100.0], [100.001]]))
    >>> round(float(far), 3) > 0.2
    True
    """
    x, y = rows(real), rows(fake)
    scale = jnp.maximum(jnp.square(spread(x)), 1e-12)
    within, own, across = (jnp.exp(-squares(a, b) / (2 * scale)) for a, b in ((x, x), (y, y), (x, y)))
    total = jnp.zeros((), x.dtype)
    for _ in range(_WIDTHS):
        total += (_off_diagonal_mean(within) + _off_diagonal_mean(own)) / 2 - across.mean()
        within, own, across = (k**16 for k in (within, own, across))  # the kernel of a quarter of the width
    return total / _WIDTHS


def _off_diagonal_mean(matrix: Float[Array, "n n"]) -> Scalar:
    n = len(matrix)
    return (matrix * (1 - jnp.eye(n, dtype=matrix.dtype))).sum() / max(1, n * (n - 1))


def spread(x: Float[Array, "n ..."]) -> Scalar:
    """The root mean squared distance between two different examples of a sample.

    >>> float(spread(jnp.array([[0.0], [2.0]])))
    2.0
    """
    flat = rows(x)
    return jnp.sqrt(2 * flat.var(axis=0).sum() * len(flat) / max(1, len(flat) - 1))


def coverage_and_precision(real: Float[Array, "n ..."], fake: Float[Array, "m ..."]) -> tuple[Scalar, Scalar]:
    """Shares of real examples with a generated one near, and of generated ones near a real one (Naeem et al., 2020).

    Near means nearer than all but a twentieth of the real examples are to it, whatever their number, so that the shares
    tell of modes, not of how wide each of them is.
    """
    x, y = rows(real), rows(fake)
    count = min(max(1, len(x) // _NEAR), len(x) - 1)
    if count < 1:
        return jnp.ones((), x.dtype), jnp.ones((), x.dtype)
    # The nearest of all is the example itself.
    radius = -jax.lax.top_k(-squares(x, x), count + 1)[0][:, -1]
    near: Bool[Array, "n m"] = squares(x, y) <= radius[:, None]
    return near.any(axis=1).mean(dtype=x.dtype), near.any(axis=0).mean(dtype=x.dtype)


__all__ = ["coverage_and_precision", "kernel_distance", "rows", "spread", "squares"]
