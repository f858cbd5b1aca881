"""What helps a game that goes wrong, as words with the settings to give: never what a model has or cannot have."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

History = Mapping[str, np.ndarray]

_STEADY = 1.0
"""What slopes cost in a game that is to be steady."""
_DEARER, _SLOWER = 10.0, 4.0
"""Factors by which slopes that have a price already are to cost more, and rates to fall."""
_USUAL_RATE = 4e-4
"""Of a history that does not say at what rate its players learned."""
_ANOTHER = "a model that has more against it (chainrule train gan game=relativistic r1=1 r2=1)"


class Played(NamedTuple):
    """What a remedy depends on: the settings of a model, and its history, which knows at what rates it learned."""

    config: Any
    history: History

    def rate(self, part: str) -> float:
        """The highest of a part so far."""
        found = self.history.get(f"{part}.lr", np.empty(0))
        return float(np.nanmax(found)) if np.isfinite(found).any() else _USUAL_RATE


Remedy: TypeAlias = Callable[[Played], str | None]
"""Words for what helps; none: a model with these settings has it, or cannot have it."""


def steep_price(played: Played) -> str | None:
    """R1 and R2, higher than they are."""
    if not hasattr(played.config, "r1"):
        return None
    now = max(played.config.r1, played.config.r2)
    price = _STEADY if now < _STEADY else _DEARER * now
    return f"slopes that cost more (r1={price:g} r2={price:g})"


def bounded_layers(played: Played) -> str | None:
    """Spectral normalisation."""
    return "bounded layers (spectral=layer)" if getattr(played.config, "spectral", "") == "none" else None


def another_game(played: Played) -> str | None:
    """A game whose gradient does not fade, and in which no mode can be given up."""
    match getattr(played.config, "game", "relativistic"):
        case "relativistic":
            return None
        case "non-saturating":
            return "a game of pairs (game=relativistic)"
        case _:
            return "a game whose gradient does not fade (game=relativistic, or game=non-saturating)"


def decisions_about_several(played: Played) -> str | None:
    """What shows the discriminator more than one example; packs of conditional models there are none."""
    config = played.config
    if not hasattr(config, "pack"):
        return None
    ways = ["pack=2"] if config.pack == 1 and not config.conditional else []
    ways += [] if config.minibatch_std else ["minibatch_std=true"]
    return f"decisions about several examples ({' or '.join(ways)})" if ways else None


def slower_discriminator(played: Played) -> str:
    """A lower rate for the one that is too good."""
    return f"a slower discriminator (parts.discriminator.lr={played.rate('discriminator') / _SLOWER:.2g})"


def lower_rate(played: Played) -> str:
    """A lower rate for both."""
    return f"a lower learning rate (optimizer.lr={played.rate('generator') / _SLOWER:.2g})"


def helps(played: Played, *remedies: Remedy) -> str:
    """What helps, of these; a model without a choice of games is told of the one that has more besides.

    >>> from chainrule.models.adversarial.wgan.model import WGANConfig
    >>> helps(Played(WGANConfig(), {}), steep_price, lower_rate)[:57]
    'What helps: a lower learning rate (optimizer.lr=0.0001), '
    """
    known = [text for remedy in remedies if (text := remedy(played)) is not None]
    if not hasattr(played.config, "game"):
        known.append(_ANOTHER)
    return f"What helps: {', '.join(known[:-1])}, or {known[-1]}"


__all__ = [
    "History",
    "Played",
    "Remedy",
    "another_game",
    "bounded_layers",
    "decisions_about_several",
    "helps",
    "lower_rate",
    "slower_discriminator",
    "steep_price",
]
