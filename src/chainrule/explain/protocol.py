"""Experiments and probes: settings, and a function that returns findings, pictures and numbers.

An *experiment* shows a mechanism on a problem of its own: how optimisers race, why variance fades through depth,
where a bound holds. A *probe* examines a trained run. Both give the same kind of answer, and neither draws or
writes anything: pictures are records that the report and the studio draw.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias, final

import pydantic
from pydantic import Field

from chainrule.core.pictures import Picture, Table
from chainrule.core.settings import FiniteSettings
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol import Model
from chainrule.train import Run

Listener: TypeAlias = Callable[[str], None]
"""Called with one line of text whenever there is progress to report."""


def silent(line: str) -> None:
    """The listener that does nothing."""
    del line


class Settings(FiniteSettings):
    """Settings of an experiment or a probe: one schema for Python, the command line and the studio."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", validate_default=True)


Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
"""A part of a whole."""
Positive: TypeAlias = Annotated[float, Field(gt=0)]
NonNegative: TypeAlias = Annotated[float, Field(ge=0)]
Count: TypeAlias = Annotated[int, Field(ge=1)]


@final
class NoSettings(Settings):
    """For what has nothing to set."""


@final
@dataclass(frozen=True)
class Outcome:
    """What came out: sentences first, then what they rest on."""

    findings: Sequence[str]
    """Sentences with the numbers in them, most important first."""
    pictures: Sequence[Picture] = ()
    table: Table | None = None
    """The one table a reader wants beside the pictures, if there is one."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Every number of the findings and the table by name, for machines: plain values, nested where that helps."""


@final
@dataclass(frozen=True)
class Experiment:
    """A mechanism shown on a problem of its own. A file of `explain/experiments` that holds one registers it."""

    summary: str
    """One line."""
    settings: type[Settings]
    run: Callable[[Any, Listener], Outcome]
    """From (settings, listener) to the outcome."""
    toy: Mapping[str, Any]
    """Settings with which it takes a second or two, for tests."""
    reference: str
    """The book or paper it follows."""


@final
@dataclass(frozen=True)
class Probe:
    """An examination of a trained run. A file of `explain/probes` that holds one registers it."""

    summary: str
    """One line."""
    needs: str
    """What it applies to, as the end of "it needs ..."."""
    applies: Callable[[Model, Schema], bool]
    """Whether it can examine this model of data of this schema; asks for capabilities, never for names."""
    examine: Callable[[Run, Data, Any], Outcome]
    """From (run, its data, settings) to the outcome."""
    settings: type[Settings] = NoSettings
    toy: Mapping[str, Any] = field(default_factory=dict)
    """Settings with which it takes a second or two, for tests."""
    by_name: bool = False
    """Whether it is left out where all probes of a run are asked for: it trains anew."""
    also_without_text: bool = False
    """Whether it examines models of other data as well, for which its setting `text` means nothing."""

    def reads_text(self, schema: Schema) -> bool:
        """Whether a text can be given to it, for a model of such data."""
        return "text" in self.settings.model_fields and (
            not self.also_without_text or kinds.of(schema).has_tokens
        )


__all__ = ["Experiment", "Listener", "NoSettings", "Outcome", "Probe", "Settings", "silent"]
