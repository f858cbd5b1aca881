"""Events at the public edge of a flow: of the right shape, finite, and sent one of the two ways."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array
from chainrule.networks.flows.base import Bijection, Conditions, Mapped


def events(where: str, shape: tuple[int, ...], x: Any) -> Array:
    """Values as a batch of events of this shape; outside of compiled code they are also looked at.

    >>> events("log_prob", (2,), np.zeros((4, 3)))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: log_prob: events of shape (3,) were given, the flow maps those of shape (2,)
           the first axis is that of examples: give an array of shape (n, 2)
    >>> events("log_prob", (2,), [[0.0, 1.0], [np.nan, 0.0]])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: log_prob: entry [1, 0] is nan
           leave out or fill in values that are not finite
    """
    array = jnp.asarray(x)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(float)
    if array.ndim != len(shape) + 1 or array.shape[1:] != shape:
        given = (
            "numbers without an axis of examples" if array.ndim == 0 else f"events of shape {array.shape[1:]}"
        )
        sizes = ", ".join(["n", *map(str, shape)])
        raise ArgumentError(
            f"{where}: {given} were given, the flow maps those of shape {shape}",
            remedy=f"the first axis is that of examples: give an array of shape ({sizes})",
        )
    if not isinstance(array, jax.core.Tracer):
        wrong = np.argwhere(~np.isfinite(np.asarray(array)))
        if len(wrong):
            at = [int(i) for i in wrong[0]]
            raise ArgumentError(
                f"{where}: entry {at} is {np.asarray(array)[tuple(at)]}",
                remedy="leave out or fill in values that are not finite",
            )
    return array


def mapped(
    bijection: Bijection, x: Any, condition: Conditions = None, *, direction: str = "inverse"
) -> Mapped:
    """Events sent through a bijection in the direction that is named, checked beforehand.

    >>> from chainrule.networks.flows.elementwise import Sigmoid
    >>> mapped(Sigmoid((1,)), [[0.0]], direction="forward").value.tolist()
    [[0.5]]
    >>> mapped(Sigmoid((1,)), [[0.0]], direction="back")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: mapped(direction="back"): direction must be "forward" or "inverse"
    """
    check_choice("mapped", "direction", direction, ["forward", "inverse"])
    given = events("mapped", bijection.shape, x)
    return (
        bijection.forward(given, condition) if direction == "forward" else bijection.inverse(given, condition)
    )


__all__ = ["events", "mapped"]
