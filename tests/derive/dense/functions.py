"""Functions with what is known about their derivatives: the table that every mode and strategy is held to."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

_rng = np.random.default_rng(0)
A = _rng.standard_normal((4, 9))
S = _rng.standard_normal((6, 6))
W = _rng.standard_normal((5, 5)) / 2


class Case(NamedTuple):
    """A function and a point, with closed forms of its derivatives where there are any."""

    f: Callable[[Any], Any]
    x: np.ndarray
    jacobian: Callable[[np.ndarray], np.ndarray] | None = None
    hessian: Callable[[np.ndarray], np.ndarray] | None = None


def point(*shape: int, seed: int = 1) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape))


def rosenbrock(x: Any) -> Any:
    return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()


def rosenbrock_gradient(x: np.ndarray) -> np.ndarray:
    g = np.zeros_like(x)
    g[:-1] = -2 * (1 - x[:-1]) - 400 * x[:-1] * (x[1:] - x[:-1] ** 2)
    g[1:] += 200 * (x[1:] - x[:-1] ** 2)
    return g


def rosenbrock_hessian(x: np.ndarray) -> np.ndarray:
    h = np.diag(-400 * x[:-1], 1) + np.diag(-400 * x[:-1], -1)
    d = np.zeros_like(x)
    d[:-1] = 2 + 1200 * x[:-1] ** 2 - 400 * x[1:]
    d[1:] += 200
    return h + np.diag(d)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return np.asarray(e / e.sum())


def recurrence(x: Any) -> Any:
    """A scan: every step mixes and squashes."""
    return jax.lax.scan(lambda h, _: (jnp.tanh(W @ h + x), h.sum()), x, None, length=6)


def bounded_loop(x: Any) -> Any:
    return jax.lax.fori_loop(0, 4, lambda i, h: jnp.sin(h) + h * x, x)


def branches(x: Any) -> Any:
    return jax.lax.cond(x.sum() > 0, jnp.sin, lambda y: y**3, x)


@jax.custom_jvp
def softplus(x: Any) -> Any:
    return jnp.log1p(jnp.exp(x))


@softplus.defjvp
def _softplus_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    return softplus(x), t * jax.nn.sigmoid(x)


@jax.custom_vjp
def reverse_only(x: Any) -> Any:
    return jnp.sin(x)


reverse_only.defvjp(lambda x: (jnp.sin(x), x), lambda x, u: (u * jnp.cos(x),))


def forward_only(x: Any) -> Any:
    """Doubles until large: a loop whose length depends on values has no reverse rule."""
    return jax.lax.while_loop(lambda y: (y**2).sum() < 100.0, lambda y: 2 * y + jnp.sin(y), x)


def python_branch(x: Any) -> Any:
    """Cannot be traced: the branch is taken in Python."""
    return jnp.sin(x) * x if x.sum() > 0 else x**3


CASES: dict[str, Case] = {
    "linear": Case(lambda x: A @ x, point(9), lambda x: A, lambda x: np.zeros((4, 9, 9))),
    "elementwise": Case(
        lambda x: jnp.sin(x) * x,
        point(8),
        lambda x: np.diag(np.cos(x) * x + np.sin(x)),
        lambda x: np.einsum("i,ij,ik->ijk", 2 * np.cos(x) - np.sin(x) * x, np.eye(8), np.eye(8)),
    ),
    "rosenbrock": Case(rosenbrock, point(9), rosenbrock_gradient, rosenbrock_hessian),
    "quadratic": Case(lambda x: x @ S @ x, point(6), lambda x: (S + S.T) @ x, lambda x: S + S.T),
    "logsumexp": Case(
        jax.nn.logsumexp, point(7), softmax, lambda x: np.diag(softmax(x)) - np.outer(softmax(x), softmax(x))
    ),
    "softmax": Case(
        jax.nn.softmax, point(5), lambda x: np.diag(softmax(x)) - np.outer(softmax(x), softmax(x))
    ),
    "product": Case(jnp.prod, point(5), lambda x: np.array([np.prod(np.delete(x, i)) for i in range(5)])),
    "fan-out": Case(lambda x: x[jnp.array([0, 0, 1, 2, 2, 2])] * x[0], point(3)),
    "reshape": Case(lambda x: x.reshape(2, 3).T @ x.reshape(2, 3), point(6)),
    "matrix": Case(lambda x: jnp.linalg.inv(x @ x.T + jnp.eye(2)), point(2, 3)),
    "solve": Case(lambda x: jnp.linalg.solve(S + 5 * jnp.eye(6) + jnp.outer(x, x), x), point(6)),
    "sort": Case(lambda x: jnp.cumsum(jnp.sort(x) ** 2), point(7)),
    "convolution": Case(lambda x: jnp.convolve(x, jnp.array([1.0, -2.0, 1.0]), mode="same") ** 2, point(9)),
    "scan": Case(recurrence, point(5)),
    "loop": Case(bounded_loop, point(4)),
    "cond": Case(branches, point(5)),
    "masked root": Case(
        lambda x: jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0), np.array([4.0, 0.0, -1.0, 9.0])
    ),
    "custom forward rule": Case(lambda x: softplus(x).sum() ** 2, point(5)),
    "number to number": Case(lambda x: jnp.exp(2 * x), np.asarray(0.5), lambda x: 2 * np.exp(2 * x)),
    "number to vector": Case(lambda x: jnp.stack([x, x**2, jnp.sin(x)]), np.asarray(0.7)),
    "constant": Case(lambda x: jnp.ones(3), point(4), lambda x: np.zeros((3, 4))),
    "nothing in": Case(lambda x: jnp.ones(3) * x.sum(), np.zeros(0), lambda x: np.zeros((3, 0))),
    "nothing out": Case(lambda x: x[:0], point(3), lambda x: np.zeros((0, 3))),
}
"""Functions that have both forward and reverse rules."""
