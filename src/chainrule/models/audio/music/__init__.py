"""Music event by event."""

from collections.abc import Mapping
from typing import Any

from chainrule.models.audio.music.model import MusicConfig, MusicModel
from chainrule.models.protocol import Entry, Recipe


def _became(settings: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Models of earlier versions were told nothing but the class."""
    return None if "controls" in settings else ("music", {**settings, "controls": []})


entry = Entry(
    name="music",
    summary="A relative transformer or recurrent layers over events of MIDI: writes music of a class, key or tempo.",
    config=MusicConfig,
    build=MusicModel,
    kinds=("music",),
    targets=("none", "class"),
    data="tunes",
    became=_became,
    toy={"width": 8, "depth": 2},
    toy_data="tunes",
    citation="Oore et al., This time with feeling: learning expressive musical performance, 2018",
    recipes={
        "published": Recipe(
            "three LSTM layers of 512 units on excerpts of about 30 seconds",
            model={"body": "lstm", "width": 512, "depth": 3, "controls": []},
            data={"window": 512},
            train={"batch": 64, "steps": 50_000},
        )
    },
    training={
        "batch": 32,
        "steps": 400,
        "optimizer": {"name": "adam", "lr": 3e-3, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 50},
    },
)

__all__ = ["MusicConfig", "MusicModel", "entry"]
