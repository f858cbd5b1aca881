"""How much of what reaches splines lies beyond their boxes, where nothing is bent."""

import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.networks.flows.audit import layers_of, unwrapped
from chainrule.networks.flows.autoregressive import Autoregressive
from chainrule.networks.flows.base import Bijection, Conditions, Events
from chainrule.networks.flows.chain import Reshaped
from chainrule.networks.flows.couplings import Coupling
from chainrule.networks.flows.synthesisers import ReversedSynthesiser, SplineSynthesiser, Synthesiser


def has_splines(bijection: Bijection) -> bool:
    """Whether any layer bends values inside of a box alone."""
    return any(_box(layer) is not None for layer in _flat(bijection))


def tail_share(bijection: Bijection, x: Events, condition: Conditions = None) -> Float[Array, " batch"]:
    """Of each example, the share of values beyond the box of their spline, over all layers on the way to the code.

    >>> import jax
    >>> from chainrule.networks.flows.autoregressive import masked_autoregressive
    >>> layer = masked_autoregressive(2, SplineSynthesiser(4, 3.0), width=4, key=jax.random.key(0))
    >>> tail_share(layer, jnp.array([[0.0, 5.0]])).tolist()
    [0.5]
    """
    x = x.reshape(len(x), -1)
    shares = []
    for layer in reversed(_flat(bijection)):
        box = _box(layer)
        if box is not None:
            shares.append((jnp.abs(x) >= box).mean(axis=1))
        x = layer.inverse(x, condition).value
    return jnp.stack(shares).mean(axis=0)


def _flat(bijection: Bijection) -> tuple[Bijection, ...]:
    """Layers of vectors, from codes to data."""
    return layers_of(bijection.layer if isinstance(bijection, Reshaped) else bijection)


def _box(layer: Bijection) -> float | None:
    layer = unwrapped(layer)
    if not isinstance(layer, Autoregressive | Coupling):
        return None
    found: Synthesiser = layer.synthesiser
    while isinstance(found, ReversedSynthesiser):
        found = found.synthesiser
    return found.bound if isinstance(found, SplineSynthesiser) else None


__all__ = ["has_splines", "tail_share"]
