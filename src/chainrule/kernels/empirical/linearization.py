"""Networks linearised in their parameters, and Taylor expansions of higher order, as networks of their own.

Around parameters `p0`, `f(p0 + d, x)` is replaced by `f + f'[d] + f''[d, d] / 2 + ...`. The first order is a linear
model whose kernel is the empirical tangent kernel at `p0`: what a wide network trains like. Each further order tells
what the one before leaves out. Expansions are differentiated and trained as any function of parameters and examples.
"""

import math
from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Tree
from chainrule.derive.dense.taylor_mode import taylor
from chainrule.kernels.empirical.subjects import Arrays, Subject, no_forward_mode, prepared


@final
class TaylorModel(eqx.Module):
    """A function of parameters and a batch, expanded around given parameters; called in the place of the function."""

    center: list[Array]
    """Parameters it is expanded around."""
    others: list[Array]
    """Arrays that are no parameters."""
    subject: Subject = eqx.field(static=True)
    order: int = eqx.field(static=True)

    @property
    def params(self) -> Tree:
        """The parameters it is expanded around, with which training begins."""
        return self.subject.assembled(self.center, self.others)

    def __call__(self, params: Tree, x: Any) -> Array:
        """The expansion at other parameters of the same structure, for a batch."""
        leaves, structure = jax.tree.flatten(params)
        if structure != self.subject.structure:
            raise ArgumentError(
                "linearize: these parameters have another structure than those expanded around"
            )
        moved = [leaves[i] for i in self.subject.chosen]
        still = jax.lax.stop_gradient(self.center)
        change = [jnp.asarray(a) - b for a, b in zip(moved, still, strict=True)]
        try:
            return expansion(
                lambda chosen: self.subject.called(chosen, self.others, x), still, change, self.order
            )
        except TypeError:
            if self.subject.has_forward_mode(Arrays(still, self.others), x):
                raise
            raise no_forward_mode(
                "linearize",
                "a rule of your own: jax.custom_jvp; machines on kernels: call it under jax.enable_x64(True)",
            ) from None


def expansion(f: Callable[[Any], Array], center: Tree, change: Tree, order: int) -> Array:
    """`sum_k f^(k)(center)[change, ..., change] / k!` up to this order.

    >>> round(float(expansion(jnp.exp, jnp.zeros(()), jnp.ones(()), 3)), 4)  # 1 + 1 + 1/2 + 1/6
    2.6667
    """
    if order == 1:
        value, slope = jax.jvp(f, (center,), (change,))
        return value + slope
    derivatives = taylor(f, center, change, order).derivatives
    total = derivatives[0]
    for k, term in enumerate(derivatives[1:], start=1):
        total = total + term / math.factorial(k)
    return total


def linearize(f: Any, params: Any = None, *, order: int = 1, where: Any = None) -> TaylorModel:
    """A network as its Taylor expansion in its parameters: linear unless a higher `order` is asked for.

    `f(params, x)` is any function of a PyTree and a batch, or a model that gives logits (then without `params`, in
    inference mode). What comes back is called as `f` is. Only the parameters that `where` names are moved, all unless
    told.

    >>> f = lambda w, x: jnp.exp(w * x)
    >>> line = linearize(f, jnp.array(0.0))
    >>> line(jnp.array(0.5), jnp.array([1.0, 2.0])).tolist(), line.params.tolist()
    ([1.5, 2.0], 0.0)
    """
    subject, arrays = prepared("linearize", f, params, where)
    return TaylorModel(
        [jnp.asarray(a) for a in arrays.chosen],
        [jnp.asarray(a) for a in arrays.others],
        subject,
        whole("linearize", "order", order, least=0),
    )


__all__ = ["TaylorModel", "expansion", "linearize"]
