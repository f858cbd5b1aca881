"""Discriminator rejection sampling (Azadi et al., 2019): examples are kept in proportion to p(x)/q(x).

The best discriminator of most games knows the density ratio of data and generator. An example is kept with probability
ratio / M, M being the largest ratio met so far, which a first round estimates; kept examples then follow the data as
far as the discriminator does, and only where the generator draws at all: what it never makes, rejection cannot find.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import random
from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Key

_ROUNDS = 200
"""Batches of proposals that are drawn at most."""
_AT_LEAST = 256
"""Proposals by which the largest ratio is estimated, at least."""


def accepted(
    model: Any, draw: Callable[[Key], Array], judge: Callable[[Array], Array], key: Key, n: int
) -> Array:
    """`n` proposals of `draw` that are kept; every position of a batch has a condition and waits for its own."""
    game = model.game
    if game.log_ratio is None or model.discriminator.pack > 1:
        why = (
            "scores of packs of examples are"
            if model.discriminator.pack > 1
            else f"the {game.name} game's scores are"
        )
        raise CapabilityError(
            f"reject=true: {why} no density ratios, which rejection needs",
            remedy="leave reject out, or train one whose scores are: chainrule train gan game=relativistic",
        )

    def ratio(x: Array) -> Array:
        found: Array = game.log_ratio(judge(x), model.real_target)
        return found

    largest, first = -np.inf, 0
    while first * n < _AT_LEAST:
        largest = max(largest, float(ratio(draw(random.at(random.named(key, "first"), first))).max()))
        first += 1
    found, waiting = None, np.ones(n, bool)
    for number in range(_ROUNDS):
        proposal = draw(random.at(key, number))
        log_ratio = np.asarray(ratio(proposal), np.float64)
        largest = max(largest, float(log_ratio.max()))
        chance = np.asarray(jax.random.uniform(random.at(random.named(key, "keep"), number), (n,)))
        keep = waiting & (np.log(chance) < log_ratio - largest)
        proposals = np.asarray(proposal)
        found = proposals.copy() if found is None else found
        found[keep] = proposals[keep]
        waiting &= ~keep
        if not waiting.any():
            return jnp.asarray(found)
    raise CapabilityError(
        f"reject=true: {waiting.sum()} of {n} examples were still refused after {_ROUNDS} rounds: the discriminator "
        "finds next to nothing of what is drawn likely",
        remedy="leave reject out, or train longer; penalties r1 and r2 keep ratios moderate",
    )


__all__ = ["accepted"]
