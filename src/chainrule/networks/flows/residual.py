"""Residual flows: `z = x + g(x)` from data to codes, with a network g that brings points closer together.

Such a map has an inverse, the fixed point of `x = z - g(x)`, which iterations approach by the factor of g's Lipschitz
constant each. Its change of volume is a series in the Jacobian J of g,

    log det (I + J) = tr J - tr J² / 2 + tr J³ / 3 - ...

In training above `EXACT` entries each trace is estimated by one random vector, and the series is cut at a random
length, with later terms weighted by how seldom they are reached: right on average, value and gradient (Russian
roulette). The gradient is that of `log det` by another series, `v' (I + J)⁻¹ dJ v`, so that one pass of the network is
stored whatever the length. Without a key it is the determinant itself, whatever the size.

Reference: Chen, Behrmann, Duvenaud and Jacobsen, Residual flows for invertible generative modeling, NeurIPS 2019.
"""

import math
from collections.abc import Callable
from typing import TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.derive.implicit import Krylov, Picard, fixed_point
from chainrule.networks.flows.base import Bijection, Conditions, Events, LogDets, Mapped, Passes
from chainrule.networks.flows.contraction import Contraction
from chainrule.networks.flows.elementwise import event_shape, over_event

EXACT = 16
"""Entries of an event up to which training has the determinant exactly."""
CERTAIN = 2
"""Terms of the series that are always there."""
_NUMBERS = 2**22
"""Entries of Jacobians that are kept at a time."""

Network: TypeAlias = Callable[[Array], Array]
"""From events to vectors of the same shape, event by event."""
ConditionedNetwork: TypeAlias = Callable[[Array, Conditions], Array]
"""The same, each event with its condition where there are any."""


@final
class ContractiveResidual(Bijection):
    """`z = x + g(x)` from data to codes; codes are brought back by iteration.

    >>> g = Contraction((2,), width=8, depth=1, bound=0.9, key=jax.random.key(0))
    >>> layer = ContractiveResidual((2,), g)
    >>> x = jnp.ones((1, 2))
    >>> bool(jnp.allclose(layer.forward(layer.inverse(x).value).value, x, atol=1e-5))
    True
    """

    network: Contraction
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...], network: Contraction) -> None:
        self.shape, self.network = event_shape("ContractiveResidual", shape), network

    @property
    def passes(self) -> Passes:
        """Iterations until codes are found to six digits, at the most."""
        return Passes(math.ceil(math.log(1e-6) / math.log(self.network.bound)), 1)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """The fixed point of `x = z - g(x)`; derivatives are those of the implicit function theorem."""
        g = self._network(condition)
        solve = fixed_point(lambda x, z: z - g(x), Picard(), Krylov())
        x = solve(z, z)
        return Mapped(x, -log_det(self.network, x, condition))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """`x + g(x)`, with its determinant."""
        return Mapped(x + self.network(x, condition), log_det(self.network, x, condition))

    def inverse_estimate(self, x: Events, condition: Conditions, key: Key) -> Mapped:
        """The same; above `EXACT` entries the determinant is estimated."""
        if math.prod(self.shape) <= EXACT:
            return self.inverse(x, condition)
        g = self._network(condition)
        return Mapped(x + g(x), log_det_estimate(g, x, key))

    def _network(self, condition: Conditions) -> Network:
        return lambda x: self.network(x, condition)


def log_det(g: ConditionedNetwork, x: Events, condition: Conditions = None) -> LogDets:
    """`log det (I + J)` of each event from the whole Jacobian J of g, a few events at a time.

    >>> round(float(log_det(lambda x, condition: 0.5 * x, jnp.ones((1, 2)))[0]), 6)
    0.81093
    """
    count = math.prod(x.shape[1:])

    def one(event: tuple[Float[Array, "*event"], Float[Array, " features"] | None]) -> Array:
        row, said = event
        alone = None if said is None else said[None]

        def flat(entries: Array) -> Array:
            return entries + g(entries.reshape(1, *row.shape), alone).reshape(-1)

        return jnp.linalg.slogdet(jax.jacfwd(flat)(row.reshape(-1))).logabsdet

    at_a_time, events = max(1, _NUMBERS // count**2), (x, condition)
    return jax.vmap(one)(events) if len(x) <= at_a_time else jax.lax.map(one, events, batch_size=at_a_time)


def log_det_estimate(g: Network, x: Events, key: Key) -> LogDets:
    """`log det (I + J)` of each event, right on average over keys, and so is its gradient in all that g depends on.

    >>> keys = jax.random.split(jax.random.key(0), 1000)
    >>> found = jax.vmap(lambda key: log_det_estimate(lambda x: 0.5 * x, jnp.ones((1, 2)), key))(keys)
    >>> bool(abs(found.mean() - 2 * math.log(1.5)) < 4 * found.std() / math.sqrt(1000))
    True
    """
    key_length, key_probe = jax.random.split(key)
    # A coin says after each further term whether another follows, so that j of them are reached once in 2^j.
    length = CERTAIN + jnp.floor(-jnp.log2(jax.random.uniform(key_length, minval=1e-30)))
    probe = jax.random.normal(key_probe, x.shape, x.dtype)
    _, pull = jax.vjp(g, jax.lax.stop_gradient(x))

    def term(carry: tuple[Array, Array, LogDets, Array]) -> tuple[Array, Array, LogDets, Array]:
        k, power, value, weights = carry
        # `power` is v' J^(k-1); what is added to the weights of the gradient is (-J)^(k-1).
        sign = jnp.where(k % 2 == 1, 1, -1).astype(x.dtype)
        weight = sign * jnp.exp2(jnp.maximum(k - CERTAIN, 0)).astype(x.dtype)
        (following,) = pull(power)
        added = over_event(following * probe) * (weight / k.astype(x.dtype))
        return k + 1, following, value + added, weights + weight * power

    begin = (jnp.ones(()), probe, jnp.zeros(len(x), x.dtype), jnp.zeros_like(x))
    _, _, value, weights = jax.lax.while_loop(lambda carry: carry[0] <= length, term, begin)
    value, weights = jax.lax.stop_gradient((value, weights))
    along = over_event(weights * jax.jvp(g, (x,), (probe,))[1])
    return value + (along - jax.lax.stop_gradient(along))


__all__ = ["EXACT", "ContractiveResidual", "log_det", "log_det_estimate"]
