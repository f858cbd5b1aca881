"""First-order products: Jacobian times vector (forward mode) and vector times Jacobian (reverse mode).

For a chain `s_k = f_k(s_{k-1})` with Jacobians `J_k`, forward mode carries a tangent along, `t_k = J_k t_{k-1}`, and
reverse mode carries an adjoint back, `r_{k-1} = r_k J_k`, after a forward pass that keeps what the `J_k` need. Both are
exact and cost a small multiple of one evaluation. These functions check their input and then call JAX, whose
conventions hold at kinks: `relu'(0) = 0`, and entries that tie for a maximum share its derivative equally.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from chainrule.core.errors import ArgumentError
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
            "gradient", validation.argument("gradient", args, argnums), holomorphic=holomorphic
        )

        def checked(*inner: Any) -> Any:
            y = f(*inner, **kwargs)
            if has_aux and not (isinstance(y, tuple) and len(y) == 2):
                raise ArgumentError("gradient(has_aux=True): the function must return (number, extra)")
            validation.scalar_output("gradient", y[0] if has_aux else y, holomorphic=holomorphic)
            return y

        slope = jax.value_and_grad(checked, argnums, has_aux=has_aux, holomorphic=holomorphic)
        found, grad = slope(*validation.put(args, argnums, x))
        if value:
            return found, grad
        return (grad, found[1]) if has_aux else grad

    return evaluate


def jvp(
    f: Callable[[Any], Any], x: Tree, v: Tree, *, has_aux: bool = False, holomorphic: bool = False
) -> Any:
    """`(f(x), J v)`: the value and its change along `v`, by one forward pass.

    >>> float(jvp(lambda x: x**2, 3.0, 1.0)[1])
    6.0
    """
    validation.function("jvp", f)
    x = validation.point("jvp", x, holomorphic=holomorphic)
    v = validation.direction("jvp", "v", v, x)
    return jax.jvp(f, (x,), (v,), has_aux=has_aux)


def vjp(f: Callable[[Any], Any], x: Tree, *, has_aux: bool = False, holomorphic: bool = False) -> Any:
    """`(f(x), pullback)`, where `pullback(u)` is `uᵀ J`: one forward pass now, one reverse pass per call.

    >>> y, pullback = vjp(lambda x: x**2, 3.0)
    >>> float(pullback(1.0))
    6.0
    """
    validation.function("vjp", f)
    x = validation.point("vjp", x, holomorphic=holomorphic)
    y, back, *aux = jax.vjp(f, x, has_aux=has_aux)  # type: ignore[call-overload]  # JAX types the two cases apart
    validation.outputs("vjp", y, holomorphic=holomorphic)

    def pullback(u: Tree) -> Tree:
        return back(validation.direction("vjp", "u", u, y, "f(x)"))[0]

    return (y, pullback, *aux)


def linearize(
    f: Callable[[Any], Any], x: Tree, *, holomorphic: bool = False
) -> tuple[Tree, Callable[[Tree], Tree]]:
    """`(f(x), push)`, where `push(v)` is `J v`: the function is evaluated once, each direction costs only its own part.

    >>> y, push = linearize(lambda x: x**2, 3.0)
    >>> float(push(1.0)), float(push(2.0))
    (6.0, 12.0)
    """
    validation.function("linearize", f)
    x = validation.point("linearize", x, holomorphic=holomorphic)
    y, push = jax.linearize(f, x)
    return y, lambda v: push(validation.direction("linearize", "v", v, x))


__all__ = ["gradient", "jvp", "linearize", "vjp"]
