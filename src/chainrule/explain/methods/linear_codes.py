"""Linear variational codes of normal sources, trained by gradients for many weights of the distortion at once.

Component i of x is sent as z_i = a_i x_i + noise and read as g_i z_i; the rate is the divergence from a normal prior
whose width is learned too. Where training ends, rate and distortion can be held against reverse water-filling.
"""

from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax

from chainrule.core.types import Array

Code: TypeAlias = dict[str, Array]


class LinearCodes(NamedTuple):
    """What each weight of the distortion ended at."""

    rates: np.ndarray
    """In bits."""
    distortions: np.ndarray
    """Mean squared, summed over components."""


def linear_codes(
    variances: np.ndarray, slopes: np.ndarray, steps: int = 2000, lr: float = 0.1
) -> LinearCodes:
    """Minimise rate + slope x distortion for every slope, from the same start.

    >>> found = linear_codes(np.array([1.0]), np.array([2.0]), steps=800)
    >>> bool(abs(found.rates[0] - 1.0) < 0.01), bool(abs(found.distortions[0] - 0.25) < 0.01)
    (True, True)
    """
    spread = jnp.asarray(variances, jnp.float32)

    def measures(code: Code) -> tuple[Array, Array]:
        power = jnp.square(code["gain"]) * spread + 1
        rate = (power / jnp.exp(2 * code["width"]) - 1) / 2 + code["width"]
        error = spread * jnp.square(1 - code["read"] * code["gain"]) + jnp.square(code["read"])
        return rate.sum(), error.sum()

    optimizer = optax.adam(optax.cosine_decay_schedule(lr, steps))

    def train(slope: Array) -> tuple[Array, Array]:
        def loss(code: Code) -> Array:
            rate, error = measures(code)
            return rate + slope * error

        def step(carry: tuple[Code, Any], _: None) -> tuple[tuple[Code, Any], None]:
            code, state = carry
            change, state = optimizer.update(jax.grad(loss)(code), state)
            return (optax.apply_updates(code, change), state), None

        start = {
            "gain": jnp.ones_like(spread),
            "read": jnp.ones_like(spread) / 2,
            "width": jnp.zeros_like(spread),
        }
        (code, _), _ = jax.lax.scan(step, (start, optimizer.init(start)), length=steps)
        return measures(code)

    rates, distortions = jax.jit(jax.vmap(train))(jnp.asarray(slopes, jnp.float32))
    return LinearCodes(np.asarray(rates) / np.log(2), np.asarray(distortions))


__all__ = ["LinearCodes", "linear_codes"]
