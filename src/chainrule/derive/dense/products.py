"""First-order products: Jacobian times vector (forward mode) and vector times Jacobian (reverse mode).

For a chain `s_k = f_k(s_{k-1})` with Jacobians `J_k`, forward mode carries a tangent along, `t_k = J_k t_{k-1}`, and
reverse mode carries an adjoint back, `r_{k-1} = r_k J_k`, after a forward pass that keeps what the `J_k` need. Both are
exact and cost a small multiple of one evaluation. These functions check their input and then call JAX, whose rules
hold at kinks: `relu'(0) = 0`, `abs'(0) = 1`, and entries that tie for a maximum share its derivative equally.
(docs/kinks.md has them all, and those of dual numbers.)
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from chainrule.core.types import Tree
from chainrule.derive import validation


def gradient(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: bool = False,
    value: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The gradient of a scalar function, by one reverse pass.

    With `value=True` the call returns `(f(x), gradient)`; with `has_aux=True` the function returns `(number, extra)`
    and the extra comes back beside the gradient (with both: `((f(x), extra), gradient)`).

    >>> gradient(lambda x: x + x**2)(3.0)
    Array(7., dtype=float32, weak_type=True)
    """
    validation.function("gradient", f)

    def evaluate(*args: Any, **kwargs: Any) -> Any:
        x = validation.point(
            "gradient",
            validation.argument("gradient", args, argnums),
            holomorphic=holomorphic,
            chooser="argnums",
        )

        def checked(*inner: Any) -> Any:
            y = f(*inner, **kwargs)
            number = validation.pair("gradient", y)[0] if has_aux else y
            validation.scalar_output("gradient", number, holomorphic=holomorphic)
            validation.bare("gradient", number)
            return y

        slope = jax.value_and_grad(checked, argnums, has_aux=has_aux, holomorphic=holomorphic)
        found, grad = slope(*validation.put(args, argnums, x))
        if value:
            return found, grad
        return (grad, found[1]) if has_aux else grad

    return evaluate


def jvp(
    f: Callable[..., Any],
    x: Tree,
    v: Tree,
    *,
    args: Any = (),
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    batch: bool = False,
) -> Any:
    """`(f(x), J v)`: the value and its change along `v`, by one forward pass.

    `args` are what `f` takes after `x`, and `argnums` says which of `(x, *args)` move along `v` (a tuple if several).
    With `batch=True` the leaves of `v` hold many directions along a first axis, and so do the changes: the function is
    linearised once for all of them. With `has_aux=True` the function returns `(value, extra)`, and the extra comes
    last.

    >>> float(jvp(lambda x: x**2, 3.0, 1.0)[1])
    6.0
    >>> import jax.numpy as jnp
    >>> jvp(lambda x, a: a * x**2, 3.0, jnp.array([1.0, 2.0]), args=(10.0,), batch=True)[1].tolist()
    [60.0, 120.0]
    """
    f, x = validation.moving("jvp", f, x, args, argnums, has_aux=has_aux, holomorphic=holomorphic)
    v = validation.direction("jvp", "v", v, x, batch=batch)
    if not batch:
        return jax.jvp(f, (x,), (v,), has_aux=has_aux)
    y, push, *aux = jax.linearize(f, x, has_aux=has_aux)  # type: ignore[call-overload]  # typed as two cases
    return (y, jax.vmap(push)(v), *aux)


def vjp(
    f: Callable[..., Any],
    x: Tree,
    *,
    args: Any = (),
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    batch: bool = False,
) -> Any:
    """`(f(x), pullback)`, where `pullback(u)` is `uᵀ J`: one forward pass now, one reverse pass per call.

    `args`, `argnums` and `has_aux` are those of `jvp`; with `batch=True` it takes many `u` along a first axis.

    >>> y, pullback = vjp(lambda x: x**2, 3.0)
    >>> float(pullback(1.0))
    6.0
    """
    f, x = validation.moving("vjp", f, x, args, argnums, has_aux=has_aux, holomorphic=holomorphic)
    y, back, *aux = jax.vjp(f, x, has_aux=has_aux)  # type: ignore[call-overload]  # JAX types the two cases apart
    validation.outputs("vjp", y, holomorphic=holomorphic)

    def pullback(u: Tree) -> Tree:
        u = validation.direction("vjp", "u", u, y, "f(x)", batch=batch)
        return (jax.vmap(back) if batch else back)(u)[0]

    return (y, pullback, *aux)


def linearize(
    f: Callable[..., Any],
    x: Tree,
    *,
    args: Any = (),
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    batch: bool = False,
) -> Any:
    """`(f(x), push)`, where `push(v)` is `J v`: the function is evaluated once, each direction costs only its own part.

    `args`, `argnums` and `has_aux` are those of `jvp`; with `batch=True` the push takes many `v` along a first axis.

    >>> y, push = linearize(lambda x: x**2, 3.0)
    >>> float(push(1.0)), float(push(2.0))
    (6.0, 12.0)
    """
    f, x = validation.moving("linearize", f, x, args, argnums, has_aux=has_aux, holomorphic=holomorphic)
    y, forward, *aux = jax.linearize(f, x, has_aux=has_aux)  # type: ignore[call-overload]  # typed as two cases

    def push(v: Tree) -> Tree:
        v = validation.direction("linearize", "v", v, x, batch=batch)
        return (jax.vmap(forward) if batch else forward)(v)

    return (y, push, *aux)


__all__ = ["gradient", "jvp", "linearize", "vjp"]
