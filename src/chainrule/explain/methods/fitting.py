"""Fitting a small network to a loss of its own: all steps in one compiled loop, for experiments without data sets."""

from collections.abc import Callable

import equinox as eqx
import jax
import optax

from chainrule.core.types import Scalar, Tree
from chainrule.nn.constructions import Network


def fit_network(network: Network, loss: Callable[[Network], Scalar], *, steps: int, lr: float) -> Network:
    """The network after so many steps of Adam on its whole loss, with the rate falling along a cosine."""
    if steps == 0:
        return network
    optimizer = optax.adam(optax.cosine_decay_schedule(lr, steps))
    arrays, static = eqx.partition(network, eqx.is_inexact_array)

    @jax.jit
    def run(arrays: Tree) -> Tree:
        def step(carry: tuple[Tree, Tree], _: None) -> tuple[tuple[Tree, Tree], None]:
            arrays, state = carry
            slope = jax.grad(lambda arrays: loss(eqx.combine(arrays, static)))(arrays)
            updates, state = optimizer.update(slope, state)
            return (optax.apply_updates(arrays, updates), state), None

        (arrays, _), _ = jax.lax.scan(step, (arrays, optimizer.init(arrays)), None, length=steps)
        return arrays

    fitted: Network = eqx.combine(run(arrays), static)
    return fitted


__all__ = ["fit_network"]
