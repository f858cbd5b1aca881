"""Functions of every kind to sweep over: elementwise, linear algebra, indexing, control flow, custom rules, pytrees."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


@dataclass(frozen=True)
class Case:
    """A function and a point; `forward` says whether JAX can push tangents through it, `reverse` pull adjoints."""

    name: str
    f: Callable[..., Any]
    args: tuple[Any, ...]
    forward: bool = True
    reverse: bool = True


@jax.custom_jvp
def cubed(x: Any) -> Any:
    return x**3


cubed.defjvp(
    lambda primals, tangents: (cubed(*primals), 10.0 * tangents[0])
)  # wrong on purpose: the rule must win


@jax.custom_vjp
def straight_through(x: Any) -> Any:
    return jnp.round(x)


straight_through.defvjp(lambda x: (straight_through(x), None), lambda _, weight: (weight,))


@jax.jit
def inner(x: Any, y: Any) -> Any:
    return jnp.sin(x) * y + jnp.cos(y)


def network(params: Any, x: Any) -> Any:
    for layer in params["layers"]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return jnp.mean(x**2)


def newton(a: Any) -> Any:
    """Square root by a loop whose length depends on the values."""
    return lax.while_loop(lambda x: jnp.abs(x * x - a) > 1e-4, lambda x: 0.5 * (x + a / x), a)


def scanned(x: Any, w: Any) -> Any:
    last, seen = lax.scan(lambda c, t: (jnp.tanh(c * w + t), c * t), x, jnp.arange(3.0))
    return last.sum() + (seen**2).sum()


def backwards(x: Any) -> Any:
    return lax.scan(lambda c, t: (c * t, c), 2.0, x, reverse=True)[1].sum()


def branching(x: Any) -> Any:
    return lax.cond(x.sum() > 0, lambda v: jnp.sin(v), lambda v: v**2, x).sum()


def several_results(x: Any) -> Any:
    low, high = jnp.split(jnp.sort(x), 2)
    return {"low": low.sum(), "both": (low * high, jnp.argmax(x))}


def indexing(x: Any, where: Any) -> Any:
    return (x[where] * x.at[1].set(2.0)[0] + x.at[where].add(1.0).sum()).sum()


def _array(*shape: int) -> np.ndarray:
    return np.linspace(-0.9, 1.3, int(np.prod(shape))).reshape(shape)


_PARAMS = {"layers": [{"w": _array(2, 3), "b": _array(1, 3)}, {"w": _array(3, 2), "b": _array(1, 2)}]}

CASES = [
    Case("polynomial", lambda x: x + x**2, (3.0,)),
    Case("same operand twice", lambda x: x * x * x, (1.7,)),
    Case("elementwise", lambda x: jnp.exp(jnp.sin(x)) / (1 + x**2), (_array(3),)),
    Case("two arguments", lambda x, y: jnp.logaddexp(x, y) * jnp.abs(x), (_array(3), _array(3) + 0.1)),
    Case("kinks", lambda x: jnp.maximum(x, 0.2) + jnp.where(x > 0, x**3, -x), (_array(4),)),
    Case("matrix products", lambda a, b: jnp.sum((a @ b) ** 2, axis=0), (_array(2, 3), _array(3, 2))),
    Case("convolution", lambda x: jnp.convolve(x, x[:3], mode="same"), (_array(5),)),
    Case(
        "linear solve", lambda a, b: jnp.linalg.solve(a @ a.T + 3 * jnp.eye(2), b), (_array(2, 2), _array(2))
    ),
    Case("reductions", lambda x: jax.nn.logsumexp(x) + jnp.prod(x) + jnp.cumsum(x)[1], (_array(3),)),
    Case("indexing", indexing, (_array(4), np.array([2, 0]))),
    Case("several results", several_results, (_array(4),)),
    Case("stop gradient", lambda x: (x * lax.stop_gradient(x)).sum(), (_array(3),)),
    Case("nested call", lambda x: inner(x, x + 1) * x, (0.4,)),
    Case("whole function compiled", jax.jit(lambda x: jnp.sin(x) * x), (0.4,)),
    Case("checkpointed call", lambda x: jax.checkpoint(lambda v: jnp.sin(v) * v)(x).sum(), (_array(3),)),
    Case("custom forward rule", lambda x: cubed(x) * x, (1.5,)),
    Case("custom reverse rule", lambda x: straight_through(2 * x) * x, (1.3,), forward=False),
    Case(
        "custom reverse rule inside a call",
        jax.jit(lambda x: inner(straight_through(x), x) * x),
        (1.3,),
        forward=False,
    ),
    Case("activation", lambda x: jax.nn.relu(x).sum() * jax.nn.gelu(x)[0], (_array(3),)),
    Case("scan", scanned, (_array(2), 0.7)),
    Case("scan from the end", backwards, (_array(3),)),
    Case("loop until done", newton, (2.0,), reverse=False),
    Case("loop inside a call", jax.jit(lambda x: jax.jit(newton)(x) * x), (3.0,), reverse=False),
    Case("fixed loop", lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * (i + 1), x), (0.3,)),
    Case("first branch", branching, (_array(3),)),
    Case("second branch", branching, (-_array(3),)),
    Case("pytree", network, (_PARAMS, _array(1, 2))),
    Case("empty", lambda x: x.sum() + jnp.sum(x * 2, axis=0).sum(), (np.zeros((0, 3)),)),
    Case("vmapped", lambda x: jax.vmap(lambda row: row @ row)(x), (_array(2, 3),)),
    Case("derivative inside", lambda x: jax.grad(lambda y: y**3 * x)(x), (1.2,)),
    Case("fourier", lambda x: jnp.abs(jnp.fft.fft(x)) ** 2, (_array(4) + 1,)),
    Case("argument returned", lambda x, y: (x, x * y), (1.5, 2.0)),
]
