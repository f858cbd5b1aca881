"""Attacks carried out: compiled once for all radii, a part of the examples at a time so that memory stays bounded."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import random
from chainrule.core.compiling import compiled
from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Key
from chainrule.explain.methods.attacks.aim import Aim, Victim
from chainrule.explain.methods.attacks.attack import Attack
from chainrule.nn.attacks import Bounds, Smallest, path, smallest

ENTRIES = 2**20
"""Numbers of examples that are attacked together; networks hold some hundred times as many on the way."""
MOST = 512
"""Examples that are attacked together at most: more of them at once are no faster."""


def attacked(aim: Aim, attack: Attack, eps: Any, key: Key, *, targeted: bool = False) -> Array:
    """Examples after an attack; what JAX can call but not differentiate is refused here."""
    try:
        return _attacked(aim, attack, eps, key, targeted)
    except ValueError as error:
        if "do not support JVP" not in str(error):
            raise
        raise CapabilityError(
            "f cannot be differentiated: it calls functions on the host",
            remedy="attack it by queries alone: explain.square_attack(f, x, y, eps)",
        ) from error


def _attacked(aim: Aim, attack: Attack, eps: Any, key: Key, targeted: bool) -> Array:
    bounds = _traced(aim.bounds, aim.x.dtype)
    size = jnp.asarray(eps, aim.x.dtype)
    if isinstance(aim.x, jax.core.Tracer):  # part of a program of the user's own
        return _moved(aim.victim, attack, aim.x, aim.y, size, key, bounds, targeted)
    return in_parts(
        lambda x, y, number: _compiled_move(
            aim.victim, attack, x, y, size, random.at(key, number), bounds, targeted
        ),
        *(aim.x, aim.y),
    )


def smallest_radii(
    aim: Aim, attack: Attack, largest: float, key: Key, *, rounds: int, targeted: bool = False
) -> Smallest:
    """The smallest radius that an attack needs for each example, and what it makes of it."""
    bounds = _traced(aim.bounds, aim.x.dtype)
    found: Smallest = in_parts(
        lambda x, y, number: _compiled_search(
            *(aim.victim, attack, x, y, jnp.asarray(largest, x.dtype), random.at(key, number), bounds),
            *(targeted, rounds),
        ),
        *(aim.x, aim.y),
    )
    return found


def stations(aim: Aim, eps: float, steps: int, *, norm: str, loss: str, targeted: bool = False) -> Array:
    """Where the iterated attack comes by: (steps + 1, batch, ...), from the example itself."""
    eps_array = jnp.asarray(eps, aim.x.dtype)
    found: Array = _compiled_path(
        *(aim.victim, aim.x, aim.y, eps_array, _traced(aim.bounds, aim.x.dtype)),
        *(steps, norm, loss, targeted),
    )
    return found


def logits_of(victim: Victim, x: Any) -> np.ndarray:
    """Logits of examples, a part at a time."""
    return np.asarray(in_parts(lambda x, number: _compiled_logits(victim, x), jnp.asarray(x)))


def probabilities(victim: Victim, x: Any) -> np.ndarray:
    """Probabilities of the classes of examples."""
    logits = logits_of(victim, x).astype(np.float64)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def in_parts(f: Callable[..., Any], *arrays: Any) -> Any:
    """What a function gives for a part of the examples at a time, all parts of one size, so that it is compiled once.

    `f` takes a part of each array and the number of the part.
    """
    count = len(arrays[0])
    size = min(count, MOST, max(1, ENTRIES // math.prod(arrays[0].shape[1:])))
    if size == count:
        return f(*arrays, 0)
    parts = []
    for number, first in enumerate(range(0, count, size)):
        index = np.arange(first, first + size) % count  # the last part begins again
        parts.append(f(*(array[index] for array in arrays), number))
    return jax.tree.map(lambda *found: jnp.concatenate(found)[:count], *parts)


def _moved(
    victim: Victim,
    attack: Attack,
    x: Array,
    y: Array,
    eps: Array,
    key: Key,
    bounds: Bounds | None,
    targeted: bool,
) -> Array:
    goal = victim.objective(y, attack.loss, targeted=targeted)
    return attack.moved(goal, x, eps, key, bounds)


_compiled_move = compiled(_moved)


@compiled
def _compiled_search(
    victim: Victim,
    attack: Attack,
    x: Array,
    y: Array,
    largest: Array,
    key: Key,
    bounds: Bounds | None,
    targeted: bool,
    rounds: int,
) -> Smallest:
    goal = victim.objective(y, attack.loss, targeted=targeted)
    return smallest(
        lambda eps, key: attack.moved(goal, x, eps, key, bounds),
        lambda x: victim.fooled(x, y, targeted=targeted),
        x,
        largest,
        key,
        rounds=rounds,
    )


@compiled
def _compiled_path(
    victim: Victim,
    x: Array,
    y: Array,
    eps: Array,
    bounds: Bounds | None,
    steps: int,
    norm: str,
    loss: str,
    targeted: bool,
) -> Array:
    goal = victim.objective(y, loss, targeted=targeted)
    return path(goal.loss, x, eps, 2.5 * eps / steps, steps, norm=norm, bounds=bounds)


@compiled
def _compiled_logits(victim: Victim, x: Array) -> Array:
    return victim.logits(x)


def _traced(bounds: Bounds | None, dtype: Any) -> Bounds | None:
    """Bounds as arguments of a program, so that others of the same shape need no other one."""
    return None if bounds is None else (jnp.asarray(bounds[0], dtype), jnp.asarray(bounds[1], dtype))


__all__ = ["attacked", "in_parts", "logits_of", "probabilities", "smallest_radii", "stations"]
