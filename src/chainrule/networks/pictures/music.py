"""Pictures of models of music: how an excerpt goes on, and which events are hard to foresee."""

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.pictures import Bars, Lines, Picture, Sounds
from chainrule.data.music import events, rendering

_KINDS = ("note begins", "note ends", "time passes", "velocity")
_ENDS = (128, 256, 381, events.COUNT)
"""Where the events of each kind end."""


def continuation(
    true: Int[np.ndarray, " events"], drawn: Int[np.ndarray, " events"], known: int
) -> list[Picture]:
    """An excerpt as it is, and as a model goes on after its first `known` events, to see and to hear."""
    heard = events.seconds(np.asarray(true[:known]))
    title = f"An excerpt, and how the model goes on after {heard:.1f} seconds"
    rows, names = np.stack([true, drawn]), ["as it is", "as the model goes on"]
    clips = {name: rendering.sound(events.decode(row)) for name, row in zip(names, rows, strict=True)}
    return [
        rendering.rolls("continuation", title, rows, names, ""),
        Sounds("continuation-sounds", "The same to listen to", clips, rendering.RATE),
    ]


def by_kind(x: Int[np.ndarray, "batch events"], nats: Float[np.ndarray, "batch events"]) -> Bars:
    """Mean nats of the events of each kind."""
    kind = np.searchsorted(_ENDS, x, side="right")
    means = [float(nats[kind == number].mean()) if (kind == number).any() else 0.0 for number in range(4)]
    shares = [f"{name} ({(kind == number).mean():.0%})" for number, name in enumerate(_KINDS)]
    return Bars(
        "event-nats",
        "How hard events of each kind are to foresee",
        "kind of event",
        "nats",
        shares,
        {"nats": np.array(means)},
        caption="Means over held-out excerpts; in brackets how many events are of the kind.",
    )


def over_time(x: Int[np.ndarray, " events"], nats: Float[np.ndarray, " events"]) -> Lines:
    """How unexpected each event of an excerpt is."""
    names = events.names()
    worst = int(nats.argmax())
    return Lines(
        "event-surprise",
        "How unexpected each event is",
        "event",
        "nats",
        {"nats": (np.arange(len(x)), np.asarray(nats))},
        marks=[(float(worst), names[int(x[worst])])],
    )


__all__ = ["by_kind", "continuation", "over_time"]
