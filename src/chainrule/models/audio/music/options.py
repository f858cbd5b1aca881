"""How new music is drawn: of what kind, from where on, how boldly, and whether several pieces are drawn at once."""

from typing import Any, Literal, final

from pydantic import Field

from chainrule.models.audio.music.controls import NAMES, ControlName
from chainrule.models.protocol.options import SampleOptions


@final
class MusicOptions(SampleOptions):
    """What is drawn, and how."""

    condition: Any = Field(None, description="the class that the music is to be of")
    of: str | None = Field(
        None,
        description="classes of several folders: some of their names, such as of=bach or of=bach,fugue",
    )
    tonality: str | None = Field(None, description="the key it is to be in: 'A minor', 'E♭ major'")
    mode: Literal["major", "minor"] | None = Field(None, description="the mode it is to be in")
    tempo: float | None = Field(None, gt=0, le=30, description="how many notes a second it is to have")
    velocity: int | None = Field(
        None, ge=1, le=127, description="how hard its notes are to be struck, as MIDI says it"
    )
    position: float | None = Field(
        None, ge=0, le=1, description="the part of a piece it is to sound like: 0 the beginning, 1 the end"
    )
    start: str | Any = Field(None, description="what it goes on from: a MIDI file, or events")
    length: int | None = Field(None, ge=1, description="new events; none: as many as an example has")
    temperature: float = Field(1.0, ge=0, description="below 1 likelier, above 1 more varied")
    top_p: float | None = Field(
        None, gt=0, le=1, description="keep the likeliest events that reach this together"
    )
    beams: int | None = Field(
        None, ge=1, description="stochastic beams: so many distinct pieces drawn at once"
    )
    branch: int | None = Field(None, ge=1, description="beams: events that each is tried with")

    @property
    def controls(self) -> dict[ControlName, Any]:
        """What is said of the music beside its class."""
        return {name: getattr(self, name) for name in NAMES}


__all__ = ["MusicOptions"]
