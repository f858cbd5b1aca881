"""Music event by event."""

from chainrule.models.audio.music.model import MusicConfig, MusicModel
from chainrule.models.protocol import Entry, Recipe

entry = Entry(
    name="music",
    summary="A relative transformer or recurrent layers over events of MIDI: writes music, of a class if it has any.",
    config=MusicConfig,
    build=MusicModel,
    kinds=("music",),
    targets=("none", "class"),
    data="tunes",
    toy={"width": 8, "depth": 2},
    toy_data="tunes",
    citation="Oore et al., This time with feeling: learning expressive musical performance, 2018",
    recipes={
        "published": Recipe(
            "three LSTM layers of 512 units on excerpts of about 30 seconds",
            model={"body": "lstm", "width": 512, "depth": 3},
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
