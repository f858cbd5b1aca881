"""Second derivatives of scalar functions."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.derive.sparse.detection.corpus.case import Case, sound, tight
from tests.derive.sparse.detection.corpus.control import _scan_steps, _straight

_BANDED = np.diag(np.full(5, 2.0)) - np.diag(np.ones(4), 1) - np.diag(np.ones(4), -1)
_EDGES = np.array([[0, 1], [1, 2], [2, 4]])

_FUNCTIONS = {
    "linear": (lambda x: jnp.sum(3 * x), (4,)),
    "quadratic with a banded matrix": (lambda x: x @ _BANDED @ x, (5,)),
    "sum of squares": (lambda x: jnp.sum(x**2), (4,)),
    "square of a sum": (lambda x: jnp.sum(x) ** 2, (3,)),
    "rosenbrock": (lambda x: jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), (6,)),
    "arrow": (lambda x: x[0] * jnp.sum(x[1:] ** 2), (5,)),
    "product of all": (jnp.prod, (3,)),
    "log-sum-exp": (jax.nn.logsumexp, (3,)),
    "springs on a graph": (lambda x: jnp.sum((x[_EDGES[:, 0]] - x[_EDGES[:, 1]]) ** 4), (5,)),
    "bilinear": (lambda x: x[:2] @ x[2:], (4,)),
    "matrix norm": (lambda x: jnp.sum((x @ x.T) ** 2), (2, 2)),
    "least squares": (lambda x: jnp.sum((_BANDED[:, :3] @ x - 1) ** 2), (3,)),
    "logistic regression": (lambda x: jnp.sum(jax.nn.softplus(np.eye(3, 4) @ x)), (4,)),
    "norm": (jnp.linalg.norm, (3,)),
    "scatter inside": (lambda x: jnp.sum(jnp.zeros(3).at[np.array([0, 0, 2])].add(x) ** 2), (3,)),
    "through a scan": (lambda x: jnp.sum(_scan_steps(2)(x) ** 2), (6,)),
    "through a solve": (lambda x: x @ jnp.linalg.solve(_BANDED, x), (5,)),
    "tree": (lambda t: t["a"] @ t["a"] * t["b"], {"a": (2,), "b": ()}),
    "convolution energy": (lambda x: jnp.sum(jnp.convolve(x, jnp.array([1.0, -1.0])) ** 2), (5,)),
    "checkpointed": (lambda x: jax.checkpoint(lambda y: jnp.sum(jnp.sin(y) * y[::-1]))(x), (4,)),
    "through a custom forward rule": (lambda x: jnp.sum(_straight(x) * x**2), (3,)),
    "constant": (lambda x: 2.0, (3,)),
    "scalar": (lambda x: x**3, ()),
}
_LOOSE = {
    "maximum": (lambda x: jnp.max(x) ** 2, (3,)),
    "selection": (lambda x: jnp.sum(jnp.where(x > 0, x**2, x**3)), (4,)),
    "relu network": (lambda x: jnp.sum(jax.nn.relu(np.ones((2, 3)) @ x) ** 2), (3,)),
    "sorted": (lambda x: jnp.sum(jnp.sort(x) ** 2 * jnp.arange(3)), (3,)),
    "log-determinant": (lambda x: jnp.linalg.slogdet(x @ x.T + jnp.eye(2))[1], (2, 2)),
    "branch": (lambda x: lax.cond(x[0] > 0, lambda z: z[1] ** 2, lambda z: z[2] ** 3, x), (3,)),
    "huber": (lambda x: jnp.sum(jnp.where(jnp.abs(x) < 1, x**2, 2 * jnp.abs(x))), (4,)),
}


def _open_loop(x: jax.Array) -> jax.Array:
    return lax.while_loop(lambda s: s[0] < 2 + x[0] ** 2, lambda s: (s[0] + 1, s[1] * x[1]), (0.0, x[1]))[1]


def _grown(body: Any) -> Any:
    return lambda x: lax.while_loop(lambda s: s.sum() < 50, body, x)


_OPEN = {
    "open loop, elementwise": lambda x: jnp.sum(_grown(lambda s: 1.5 * s + jnp.sin(s))(x)),
    "open loop, neighbours": lambda x: jnp.sum(_grown(lambda s: s + jnp.roll(s, 1) ** 2)(x) ** 2),
    "open loop, chain": lambda x: _grown(lambda s: s.at[1:].add(s[:-1] ** 2))(x)[-1],
    "open loop, closing over the input": lambda x: jnp.sum(_grown(lambda s: s + x * x[::-1])(jnp.ones(4))),
    "open loop, counted": lambda x: jnp.sum(
        lax.fori_loop(0, jnp.floor(5 * x[0]).astype(int) + 1, lambda i, s: s * jnp.roll(s, 1) + x[i], x)
    ),
}


CASES: list[Case] = [
    *(tight(f"hessian: {name}", f, shape, of="hessian") for name, (f, shape) in _FUNCTIONS.items()),
    *(sound(f"hessian: {name}", f, shape, of="hessian") for name, (f, shape) in _LOOSE.items()),
    sound("hessian: loop without reverse mode", _open_loop, (3,), of="hessian", mode="forward"),
    *(
        sound(f"hessian: {name}", f, (4,), of="hessian", mode="forward", low=0.3, high=1.2)
        for name, f in _OPEN.items()
    ),
]
